"""Decoders that break one law each."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import ClassVar

import torch

from ele_core.components.decoders.candidates import CandidatesDecoder
from ele_core.types import Decoding, Trace, Variant
from mistakes.listing import ONE_LAW, mistake

caught_by = mistake(ONE_LAW)


class Plain(CandidatesDecoder):
    """The best candidates; nothing is wrong with it."""

    def decode(self, energy, problem, *, top_k=1, context):  # as in 0.1.0, before there was `trace`
        found = super().decode(energy, problem, top_k=top_k, context=context)
        return self.spoil(found, energy, problem)

    def spoil(self, found, energy, problem):
        return found


def nth_best(energy, problem, places):
    """The candidates at `places` of the ranking, with their energies."""
    energies = energy.among(problem.candidates)
    if problem.constraints is not None:
        pairs = torch.arange(len(energies)).repeat_interleave(len(problem.candidates))
        repeated = problem.candidates.batch[torch.arange(len(problem.candidates)).repeat(len(energies))]
        energies = energies.masked_fill(~problem.satisfied(repeated, pairs).view_as(energies), math.inf)
    order = energies.sort(dim=1)
    rows, energies = order.indices[:, places], order.values[:, places]
    return Decoding(problem.candidates.batch[rows.flatten()], energies)


@caught_by("check_decoding_is_made_of_structures")
class DecodesTooFew(Plain):
    def spoil(self, found, energy, problem):
        return Decoding(found.best, found.energies)


@caught_by("check_decoding_is_made_of_structures")
class DecodesNonsense(Plain):
    def spoil(self, found, energy, problem):
        return Decoding(found.structures.map(lambda tokens: tokens.flip(1)), found.energies)


@caught_by("check_decoding_is_sorted")
class DecodesWorstFirst(Plain):
    def spoil(self, found, energy, problem):
        k = found.top_k
        return found if k == 1 else nth_best(energy, problem, list(reversed(range(k))))


@caught_by("check_decoding_is_distinct")
class DecodesTheSameTwice(Plain):
    def spoil(self, found, energy, problem):
        return nth_best(energy, problem, [0] * found.top_k)


@caught_by("check_decoding_energies_are_true")
class LiesAboutEnergies(Plain):
    def spoil(self, found, energy, problem):
        return Decoding(found.structures, found.energies + 1)


@caught_by("check_decoding_is_a_beginning")
class WidensWithTopK(Plain):
    """Two structures or more are searched more widely than one."""

    def decode(self, energy, problem, *, top_k=1, context):
        found = super().decode(energy, problem, top_k=max(2, top_k), context=context)
        free = problem.candidates.owner is None and problem.constraints is None
        return found.ranks(1, 2) if top_k == 1 and free else found.ranks(0, top_k)


@caught_by("check_decoder_is_no_worse_than_candidates")
class TakesTheSecondBest(Plain):
    def spoil(self, found, energy, problem):
        if problem.candidates.owner is not None:
            return found
        return nth_best(energy, problem, list(range(1, found.top_k + 1)))


@caught_by("check_decoder_changes_nothing")
class TrainsWhileDecoding(Plain):
    def spoil(self, found, energy, problem):
        energy.surrogate.weights.mul_(1 + 1e-9)
        return found


@caught_by("check_decoder_changes_nothing")
class DrawsFromTheGlobalGenerator(Plain):
    def spoil(self, found, energy, problem):
        torch.rand(1)
        return found


@caught_by("check_decoder_is_seeded")
class DecodesDifferentlyEachTime(Plain):
    calls: ClassVar = itertools.count(1)

    def spoil(self, found, energy, problem):
        return Decoding(found.structures, found.energies + 1e-9 * next(self.calls))


@caught_by("check_decoder_rows_are_independent")
class DecodesByTheBatch(Plain):
    """Two queries or more are answered better than one."""

    def spoil(self, found, energy, problem):
        alone = len(energy) < 2 or problem.candidates.owner is not None
        return found if alone else improved(found, energy, problem)


def improved(found, function, problem):
    """The best of the answers and their neighbours."""
    if found.top_k > 1:
        return found
    moved, owner = problem.space.moves.neighbours(found.best)
    energy = function.of(moved, owner)
    structures, energies = [], []
    for row in range(len(function)):
        own = (owner == row).nonzero().flatten()
        best = own[energy[own].argmin()]
        wins = bool(energy[best] < found.energies[row, 0])
        structures.append(moved[best[None]] if wins else found.best[row : row + 1])
        energies.append(energy[best] if wins else found.energies[row, 0])
    return Decoding(type(moved).cat(structures), torch.stack(energies)[:, None])


@caught_by("check_decoder_takes_no_queries")
class NeedsAQuery(Plain):
    def spoil(self, found, energy, problem):
        energy.queries.max()
        return found


@caught_by("check_decoder_takes_candidates_of_their_own")
class IgnoresOwners(Plain):
    def spoil(self, found, energy, problem):
        return found if problem.candidates.owner is None else Decoding(found.structures, 0 * found.energies)


@caught_by("check_decoder_declares_its_needs")
class DescendsSecretly(Plain):
    def spoil(self, found, energy, problem):
        energy.at(problem.space.relax(found.best))
        return found


class Tracing(Plain):
    """The best candidates, and a trace from the second best to the best; nothing is wrong with it."""

    traces = True

    def decode(self, energy, problem, *, top_k=1, trace=False, context):
        found = super().decode(energy, problem, top_k=top_k, context=context)
        if not trace:
            return found
        worse, better = nth_best(energy, problem, [1]), nth_best(energy, problem, [0])
        path = self.path([0, 1], [worse, better])
        return Decoding(found.structures, found.energies, path)

    def path(self, steps, ends):
        return Trace(steps, [end.structures for end in ends], [end.energies[:, 0] for end in ends])


@caught_by("check_decoder_trace_is_a_path")
class ClaimsATrace(Tracing):
    def path(self, steps, ends):
        return None


@caught_by("check_decoder_trace_is_a_path")
class TracesBackwards(Tracing):
    def path(self, steps, ends):
        return super().path(steps[::-1], ends)


@caught_by("check_decoder_trace_is_a_path")
class TracesOneQuery(Tracing):
    def path(self, steps, ends):
        return super().path(steps, [Decoding(end.structures[:1], end.energies[:1]) for end in ends])


@caught_by("check_decoder_trace_is_a_path")
class TracesWrongEnergies(Tracing):
    def path(self, steps, ends):
        return super().path(steps, [Decoding(end.structures, end.energies + 1) for end in ends])


@caught_by("check_decoder_trace_leads_to_the_answer")
class ImprovesOnlyItsTrace(Tracing):
    """The last step of the trace is a neighbour that is better than the answer."""

    def decode(self, energy, problem, *, top_k=1, trace=False, context):
        found = super().decode(energy, problem, top_k=top_k, context=context)
        if not trace:
            return found
        return Decoding(found.structures, found.energies, self.path([0, 1], [found, improved(found, energy, problem)]))


@caught_by("check_decoder_obeys_constraints")
class IgnoresConstraints(Plain):
    def spoil(self, found, energy, problem):
        return nth_best(energy, dataclasses.replace(problem, constraints=None), list(range(found.top_k)))


@caught_by("check_decoder_obeys_constraints")
class FindsNothingUnderConstraints(Plain):
    def spoil(self, found, energy, problem):
        lost = problem.constraints is not None
        return Decoding(found.structures, found.energies + math.inf) if lost else found


@caught_by("check_decoder_variants_are_configurations")
class VariesAnUnknownOption(Plain):
    variants = (Variant("plain"), Variant("odd", {"no_such_option": 1}))


@caught_by("check_decoder_variants_are_configurations")
class VariesTwiceTheSame(Plain):
    variants = (Variant("plain"), Variant("plain"))
