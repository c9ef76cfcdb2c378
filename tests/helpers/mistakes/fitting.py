"""Fitting and decoding: what only a second call, other sizes or other data show."""

from __future__ import annotations

import dataclasses
import math

import torch

from ele_core.testing import LinearSurrogate
from ele_core.types import Decoding
from mistakes.bases import Best, LearnedOffset, Ridge
from mistakes.listing import mistake

fitting = mistake("fitting")


# -- surrogates ----------------------------------------------------------------------------------------------------


@fitting("check_fit_leaves_its_data_alone")
class FitReversesOutputs(LearnedOffset):
    """`fit` of a surrogate puts the outputs of its caller into another order in place."""

    def fit_outputs(self, outputs, validation, extra, context):
        super().fit_outputs(outputs, validation, extra, context)
        outputs.tokens.copy_(outputs.tokens.flip(0))


@fitting("check_fits_anew")
class FitAddsToTheOffset(LearnedOffset):
    """A second `fit` of a surrogate goes on from the first."""

    def fit_outputs(self, outputs, validation, extra, context):
        before = self.offset
        super().fit_outputs(outputs, validation, extra, context)
        self.offset = self.offset + before


@fitting("check_fits_anew")
class FitStandardises(LearnedOffset):
    """`fit` divides by the deviation of the embeddings, which is 0 if all outputs are the same."""

    def fit_outputs(self, outputs, validation, extra, context):
        super().fit_outputs(outputs, validation, extra, context)
        self.weights = self.weights / LinearSurrogate.embed_at(self, self.space.relax(outputs)).std(dim=0)
        super().fit_outputs(outputs, validation, extra, context)


@fitting("check_fit_leaves_its_data_alone")
class FitForgetsExtra(LearnedOffset):
    """`fit` was never called with extra outputs, and fails with them."""

    def fit_outputs(self, outputs, validation, extra, context):
        super().fit_outputs(outputs if extra is None else outputs + extra, validation, None, context)


@fitting("check_takes_many_rows")
class EmbedsOneChunk(LearnedOffset):
    """`embed` works in chunks of 64 and returns the last one."""

    def embed(self, batch):
        found = super().embed(batch[:0])
        for chunk in batch.chunks(64):
            found = super().embed(chunk)
        return found


@fitting("check_surrogate_energies_of_many")
class EnergiesOfOneChunk(LearnedOffset):
    """`Energy.among` compares in chunks of 64 candidates and repeats the first chunk."""

    def energy_among(self, queries, embeddings):
        found = super().energy_among(queries, embeddings[:64])
        return found[:, torch.arange(len(embeddings)) % max(1, found.shape[1])]


@fitting("check_surrogate_fits_any_outputs")
class FitOfTheFirst(LearnedOffset):
    """`fit` reads only the first output."""

    def fit_outputs(self, outputs, validation, extra, context):
        super().fit_outputs(outputs[:1], validation, None, context)


# -- regressors ----------------------------------------------------------------------------------------------------


@fitting("check_regressor_learns_from_its_pairs")
class IgnoresItsInput(Ridge):
    """The regressor predicts the mean, whatever the input."""

    def seen(self, inputs):
        return super().seen(inputs) * (torch.arange(self.inputs.dimension + 1) == self.inputs.dimension)


@fitting("check_regressor_learns_from_its_pairs")
class SortsItsInputs(Ridge):
    """`fit` sorts the inputs, as for batches of similar sizes, and forgets the outputs."""

    def fit_pairs(self, train, validation, context):
        super().fit_pairs((train[0][train[0].values.norm(dim=1).argsort()], train[1]), validation, context)


@fitting("check_regressor_beats_the_mean")
class ShufflesItsTargets(Ridge):
    """`fit` shuffles inputs and outputs by two different permutations."""

    def fit_pairs(self, train, validation, context):
        rows = [torch.randperm(len(train[0]), generator=context.generator(name)) for name in ("x", "y")]
        super().fit_pairs((train[0][rows[0]], train[1][rows[1]]), validation, context)


@fitting("check_fit_leaves_its_data_alone")
class FitScalesInputs(Ridge):
    """`fit` standardises the inputs of its caller in place."""

    def fit_pairs(self, train, validation, context):
        train[0].values.sub_(train[0].values.mean(dim=0))
        super().fit_pairs(train, validation, context)


@fitting("check_fit_leaves_its_data_alone")
class FitWritesOutputs(Ridge):
    """`fit` replaces the outputs of its caller in place."""

    def fit_pairs(self, train, validation, context):
        super().fit_pairs(train, validation, context)
        train[1].tokens.zero_()


@fitting("check_fit_leaves_its_data_alone")
class FitWritesValidation(Ridge):
    """`fit` rounds the validation inputs of its caller in place."""

    def fit_pairs(self, train, validation, context):
        super().fit_pairs(train, validation, context)
        validation[0].values.round_()


@fitting("check_fits_anew")
class SumsItsFits(Ridge):
    """A second `fit` of a regressor adds its pairs to those of the first."""

    sums = 0.0

    def solve(self, x, y):
        moments = torch.cat([x.T @ x, x.T @ y], dim=1) + self.sums
        self.sums = moments
        size = x.shape[1]
        self.weights = torch.linalg.solve(moments[:, :size] + 0.1 * torch.eye(size).double(), moments[:, size:])


@fitting("check_fits_anew")
class StartsFromTheLastFit(Ridge):
    """A second `fit` starts from the weights of the first."""

    def solve(self, x, y):
        before = self.weights
        super().solve(x, y - x @ (0.5 * before))
        self.weights = self.weights + 0.4 * before


@fitting("check_regressor_fits_constant_data")
class DividesByTheSpreadOfInputs(Ridge):
    """`fit` divides by the deviation of each feature: NaN where a feature is constant."""

    def solve(self, x, y):
        deviation = torch.cat([x[:, :-1].std(dim=0), x.new_ones(1)])
        super().solve(x / deviation, y)
        self.weights = self.weights / deviation[:, None]


@fitting("check_regressor_fits_constant_data")
class DividesByTheSpreadOfTargets(Ridge):
    """`fit` divides by the deviation of the targets: NaN where they are constant."""

    def solve(self, x, y):
        mean, deviation = y.mean(dim=0), y.std(dim=0)
        super().solve(x, (y - mean) / deviation)
        self.weights = self.weights * deviation
        self.weights[-1] += mean


@fitting("check_regressor_fits_constant_data")
class SolvesWithoutRidge(Ridge):
    """`fit` solves least squares by an inverse, which does not exist if a feature is constant."""

    def solve(self, x, y):
        self.weights = torch.linalg.inv(x.T @ x) @ x.T @ y


@fitting("check_takes_many_rows")
class PredictsOneChunk(Ridge):
    """`predict` works in chunks of 64 and returns the last one."""

    def predict(self, inputs):
        found = super().predict(inputs[:0])
        for chunk in inputs.chunks(64):
            found = super().predict(chunk)
        return found


@fitting(None)
class LearnsFromValidation(Ridge):
    """`fit` joins the validation pairs to the training pairs."""

    def fit_pairs(self, train, validation, context):
        together = [type(one).cat([one, two]) for one, two in zip(train, validation, strict=True)]
        super().fit_pairs((together[0], together[1]), validation, context)


# -- decoders ------------------------------------------------------------------------------------------------------


def cut(problem, count):
    """The problem with the first `count` candidates only."""
    owner = problem.candidates.owner
    kept = dataclasses.replace(
        problem.candidates,
        batch=problem.candidates.batch[:count],
        embeddings=problem.candidates.embeddings[:count],
        owner=None if owner is None else owner[:count],
        satisfying={},
    )
    return dataclasses.replace(problem, candidates=kept)


@fitting("check_decoder_sees_all_candidates")
class SeesSixtyFour(Best):
    """`decode` looks at the first 64 candidates only."""

    def decode(self, energy, problem, *, top_k=1, trace=False, context):
        return super().decode(energy, cut(problem, 64), top_k=top_k, context=context)


@fitting("check_decoder_takes_few_candidates")
class FailsAboveItsCandidates(Best):
    """`decode` fails with an IndexError if `top_k` is above the number of candidates."""

    def decode(self, energy, problem, *, top_k=1, trace=False, context):
        list(range(len(problem.candidates)))[top_k - 1]
        return super().decode(energy, problem, top_k=top_k, context=context)


@fitting("check_decoder_takes_few_candidates")
class RepeatsItsCandidates(Best):
    """`decode` repeats the best candidate, with a finite energy, if `top_k` is above their number."""

    def decode(self, energy, problem, *, top_k=1, trace=False, context):
        there = min(top_k, len(problem.candidates))
        found = super().decode(energy, problem, top_k=there, context=context)
        columns = torch.arange(top_k).clamp(max=there - 1)
        rows = (torch.arange(len(energy))[:, None] * there + columns).flatten()
        return Decoding(found.structures[rows], found.energies[:, columns])


@fitting("check_decoder_takes_few_candidates")
class GivesFewerThanAsked(Best):
    """`decode` returns fewer columns than `top_k` if there are fewer candidates."""

    def decode(self, energy, problem, *, top_k=1, trace=False, context):
        return super().decode(energy, problem, top_k=min(top_k, len(problem.candidates)), context=context)


@fitting("check_decoder_sees_all_candidates")
class RemembersTheFirstProblem(Best):
    """`decode` keeps the candidates of the first problem that it saw."""

    first = None

    def decode(self, energy, problem, *, top_k=1, trace=False, context):
        if problem.candidates.owner is None and problem.constraints is None:
            self.first = self.first or problem
            problem = self.first
        return super().decode(energy, problem, top_k=top_k, context=context)


@fitting("check_decoder_sees_all_candidates")
class RemembersByNumber(Best):
    """`decode` keeps an index of the candidates and builds it anew only if their number changes."""

    index = (0, None)

    def decode(self, energy, problem, *, top_k=1, trace=False, context):
        if problem.candidates.owner is None and problem.constraints is None:
            if self.index[0] != len(problem.candidates):
                self.index = len(problem.candidates), problem
            problem = self.index[1]
        return super().decode(energy, problem, top_k=top_k, context=context)


@fitting("check_decoder_rows_are_independent")
class RemembersQueries(Best):
    """`decode` keeps its answers by the shape of the queries."""

    def __init__(self, config=None):
        super().__init__(config)
        self.answers = {}

    def decode(self, energy, problem, *, top_k=1, trace=False, context):
        key = (len(energy), top_k, len(problem.candidates), problem.constraints is None, id(problem))
        if key not in self.answers:
            self.answers[key] = super().decode(energy, problem, top_k=top_k, context=context)
        return self.answers[key]


@fitting("check_decoder_takes_few_candidates")
class NeedsTwoCandidates(Best):
    """`decode` squeezes the energies, and fails if there is only one candidate."""

    def decode(self, energy, problem, *, top_k=1, trace=False, context):
        energies = energy.among(problem.candidates).squeeze()
        assert not len(energy) or energies.dim() == min(len(energy), 2)
        return super().decode(energy, problem, top_k=top_k, context=context)


@fitting("check_decoder_changes_nothing")
class KeepsTheGraph(Best):
    """`decode` returns energies with a gradient, which keep the whole computation in memory."""

    def decode(self, energy, problem, *, top_k=1, trace=False, context):
        found = super().decode(energy, problem, top_k=top_k, context=context)
        return Decoding(found.structures, found.energies.clone().requires_grad_(True))


@fitting("check_decoder_sees_all_candidates")
class StopsEarly(Best):
    """`decode` takes the first candidate whose energy is below a fixed bound, not the best one."""

    def decode(self, energy, problem, *, top_k=1, trace=False, context):
        if top_k > 1 or problem.constraints is not None or problem.candidates.owner is not None:
            return super().decode(energy, problem, top_k=top_k, context=context)
        energies = energy.among(problem.candidates)
        bounded = torch.where(energies < 1e-3, energies, math.inf)
        rows = torch.where(bounded.isinf().all(dim=1), energies.argmin(dim=1), (bounded < math.inf).int().argmax(dim=1))
        return Decoding(problem.candidates.batch[rows], energies.gather(1, rows[:, None]))
