"""Projected gradient descent: never worse than its start, each input for itself, weights untouched."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch
from linear import linear_problem, random_queries
from torch import Tensor

from ele_core.components.decoders import gradient as module
from ele_core.components.decoders.candidates import CandidatesDecoder, nearest
from ele_core.components.decoders.gradient import GradientDecoder, repeated
from ele_core.energies import SquaredDistance
from ele_core.errors import ConfigError, DataError
from ele_core.interfaces import Surrogate
from ele_core.runtime.context import Context
from ele_core.testing import SampleProblem
from ele_core.types import Candidates, Choice


@pytest.fixture(scope="module")
def problem() -> SampleProblem:
    return linear_problem(candidates=30)


@pytest.fixture(scope="module")
def queries(problem: SampleProblem) -> Tensor:
    return random_queries(problem, 24)


def decode(queries: Tensor, problem: SampleProblem, top_k: int = 1, seed: int = 0, **options: Any) -> Any:
    decoder = GradientDecoder(GradientDecoder.Config(**{"starts": 3, "steps": 20, **options}))
    return decoder.decode(problem.energy(queries), problem, top_k=top_k, context=Context(seed))


def same(problem: SampleProblem, left: Any, right: Any) -> bool:
    return torch.equal(problem.space.keys(left), problem.space.keys(right))


@pytest.mark.parametrize("options", [{}, {"step_size": 50.0}, {"step_size": 1e-4}, {"momentum": 0.0}, {"starts": 1}])
def test_the_answer_is_never_worse_than_the_best_candidate(problem, queries, options):
    found = decode(queries, problem, **options)
    best = CandidatesDecoder().decode(problem.energy(queries), problem, context=Context())
    assert (found.energies <= best.energies + 1e-5).all()


def test_descent_builds_structures_that_are_not_among_the_candidates(problem, queries):
    found = decode(queries, problem, step_size=0.3, steps=40, starts=4)
    best = CandidatesDecoder().decode(problem.energy(queries), problem, context=Context())
    assert (best.energies > 1e-3).float().mean() > 0.5
    assert (found.energies < 1e-4).float().mean() > 0.8


def test_energies_are_those_of_the_structures(problem, queries):
    found = decode(queries, problem, top_k=3)
    embedded = problem.surrogate.embed(found.structures).view(24, 3, -1)
    energies = (embedded - queries.unsqueeze(1)).square().sum(dim=2)
    torch.testing.assert_close(energies, found.energies, rtol=1e-4, atol=1e-5)
    assert (found.energies.diff(dim=1) >= 0).all()


def test_the_top_k_are_different_structures(problem, queries):
    found = decode(queries, problem, top_k=4, starts=2)
    keys = problem.space.keys(found.structures).view(24, 4, 2).tolist()
    assert all(len({tuple(key) for key in row}) == 4 for row in keys)


def test_an_input_decoded_alone_gets_the_answer_it_gets_in_a_batch(problem, queries):
    together = decode(queries, problem, steps=10)
    for row in (0, 7, 23):
        alone = decode(queries[row : row + 1], problem, steps=10)
        assert same(problem, alone.best, together.best[row : row + 1])
        torch.testing.assert_close(alone.energies[0], together.energies[row], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("start", ["best", "random"])
def test_decoding_in_chunks_changes_nothing(problem, queries, monkeypatch, start):
    whole = decode(queries, problem, top_k=2, trace=5, start=start, steps=10)
    monkeypatch.setattr(module, "CHUNK", 12)
    chunked = decode(queries, problem, top_k=2, trace=5, start=start, steps=10)
    assert same(problem, chunked.structures, whole.structures)
    torch.testing.assert_close(chunked.energies, whole.energies, rtol=1e-4, atol=1e-5)
    assert chunked.trace.steps == whole.trace.steps
    assert all(map(lambda left, right: same(problem, left, right), chunked.trace.structures, whole.trace.structures))


def test_random_starts_follow_the_seed(problem, queries):
    options = {"start": "random", "starts": 1, "steps": 1, "step_size": 1e-6}
    first = decode(queries, problem, seed=1, **options)
    assert same(problem, first.best, decode(queries, problem, seed=1, **options).best)
    assert not same(problem, first.best, decode(queries, problem, seed=2, **options).best)


def test_a_random_start_knows_its_energy(problem, queries):
    found = decode(queries, problem, start="random", starts=2, steps=1, step_size=1e-6, trace=1)
    at_start = problem.energy(queries).of(found.trace.structures[0])
    torch.testing.assert_close(found.trace.energies[0], at_start, rtol=1e-4, atol=1e-5)
    assert (found.energies[:, 0] <= at_start + 1e-5).all()


def test_the_trace_starts_at_the_best_candidate_and_holds_every_so_many_steps(problem, queries):
    queries = queries + 0.1  # no structure has energy zero
    found = decode(queries, problem, trace=4, steps=10, tolerance=0)
    assert found.trace.steps == [0, 4, 8]
    assert [len(structures) for structures in found.trace.structures] == [24, 24, 24]
    energies, rows = nearest(problem.energy(queries), problem, 1, Context())
    assert same(problem, found.trace.structures[0], problem.candidates.batch[rows[:, 0]])
    torch.testing.assert_close(found.trace.energies[0], energies[:, 0], rtol=1e-4, atol=1e-5)
    for structures, recorded in zip(found.trace.structures, found.trace.energies, strict=True):
        torch.testing.assert_close(problem.energy(queries).of(structures), recorded, rtol=1e-4, atol=1e-4)


def test_the_answer_is_the_best_structure_met_on_the_way(problem, queries):
    found = decode(queries + 0.1, problem, trace=1, starts=1, steps=30, step_size=3.0, tolerance=0)
    met = torch.stack(list(found.trace.energies)).amin(dim=0)
    torch.testing.assert_close(found.energies[:, 0], met, rtol=1e-6, atol=1e-9)
    assert (found.trace.energies[-1] > met + 1e-3).any(), "the last was not always the best, else this shows nothing"


def test_without_trace_nothing_is_recorded(problem, queries):
    assert decode(queries, problem).trace is None


def test_an_input_that_is_good_enough_takes_no_step(problem, monkeypatch):
    own = problem.candidates.embeddings[:5]
    monkeypatch.setattr(SquaredDistance, "at", None)  # calling it would fail
    found = decode(own, problem, starts=1, tolerance=1e-3)
    assert same(problem, found.best, problem.candidates.batch[:5])


def test_decoding_leaves_the_weights_and_the_candidates_untouched(predictor, pairs):
    model = predictor.model_
    parts = [*model.surrogate.encoder.parameters(), *model.regressor.network.parameters()]
    watched = [*parts, model.candidates.embeddings, model.candidates.batch.tokens]
    before = [tensor.detach().clone() for tensor in watched]
    predictor.predict(pairs[0][:10], decoder={"name": "pgd", "steps": 5, "starts": 2})
    assert all(map(torch.equal, watched, before))
    assert all(parameter.grad is None for parameter in parts)


def test_no_queries_give_no_structures(problem):
    found = decode(random_queries(problem, 0), problem, top_k=2)
    assert (len(found.structures), found.energies.shape) == (0, (0, 2))


def test_more_than_the_candidates_can_start_is_refused(problem, queries):
    few = dataclasses.replace(problem, candidates=Candidates(problem.candidates.batch[:1], queries[:1]))
    assert decode(queries, few).energies.shape == (24, 1)
    with pytest.raises(DataError, match=r"3 structures .* only 1 candidate\."):
        decode(queries, few, top_k=3)


def test_candidates_of_each_input_are_its_own_starts(problem, queries):
    candidates = problem.candidates
    own = Candidates(candidates.batch[:6], candidates.embeddings[:6], torch.tensor([1, 1, 1, 2, 2, 0]))
    options = {"starts": 3, "steps": 1, "step_size": 1e-6}
    found = decode(queries[:3], dataclasses.replace(problem, candidates=own), top_k=3, trace=1, **options)
    start = problem.space.keys(found.trace.structures[0])
    assert torch.equal(start[0], problem.space.keys(candidates.batch[5:6])[0])
    assert same(problem, found.best[:1], candidates.batch[5:6])
    assert found.energies.isinf().tolist() == [[False, True, True], [False, False, False], [False, False, True]]


def test_a_loss_without_gradient_is_a_configuration_error(predictor, pairs, monkeypatch):
    monkeypatch.setattr(type(predictor.model_.surrogate), "embed_at", Surrogate.embed_at)
    with pytest.raises(ConfigError, match=r"gradient of the loss, which surrogate 'contrastive' does not have.*candid"):
        predictor.predict(pairs[0][:1], decoder="pgd")
    assert predictor.predict(pairs[0][:1], decoder="candidates")


def test_repeated_marks_all_but_the_first_of_equal_keys():
    keys = torch.tensor([[[1, 1], [2, 1], [1, 1], [1, 2], [2, 1]]])
    assert repeated(keys).tolist() == [[False, False, True, False, True]]


def test_the_step_does_not_depend_on_the_scale_of_the_loss(problem, queries, monkeypatch):
    found = decode(queries, problem, steps=10)
    original = SquaredDistance.at
    monkeypatch.setattr(SquaredDistance, "at", lambda *args: 1024 * original(*args))
    assert same(problem, decode(queries, problem, steps=10).best, found.best)


def test_a_flat_loss_moves_nothing(problem, queries, monkeypatch):
    monkeypatch.setattr(SquaredDistance, "at", lambda _, point, _owner: 0 * point.tokens.sum(dim=(1, 2)))
    found = decode(queries, problem)
    best = CandidatesDecoder().decode(problem.energy(queries), problem, context=Context())
    assert same(problem, found.best, best.best)
    assert found.energies.max() < math.inf


def test_unknown_options_of_the_decoder_are_named(predictor):
    with pytest.raises(ConfigError, match=r"decoder\.step_sizes: unknown option; did you mean 'step_size'"):
        predictor.model_.decode(torch.zeros(1, 8), Choice(name="pgd", step_sizes=1), context=Context())


# -- the paper's plain form ---------------------------------------------------------------------------------------

PLAIN = {"starts": 1, "momentum": 0.0, "rule": "constant", "answer": "last", "tolerance": 0.0}


def test_the_plain_form_takes_the_papers_steps(problem, queries):
    space, surrogate = problem.space, problem.surrogate
    rows = nearest(problem.energy(queries), problem, 1, Context())[1][:, 0]
    point = space.relax(problem.candidates.batch[rows])
    for _ in range(7):
        leaf = point.tokens.clone().requires_grad_(True)
        surrogate.energy(queries).at(point.replace(tokens=leaf)).sum().backward()
        point = space.project(point.replace(tokens=leaf.detach() - 0.3 * leaf.grad))
    found = decode(queries, problem, steps=7, step_size=0.3, **PLAIN)
    assert same(problem, found.best, space.unrelax(point))


def test_the_last_point_may_be_worse_than_the_start_and_the_best_never_is(problem, queries):
    wild = {**PLAIN, "step_size": 50.0, "steps": 3}
    last = decode(queries, problem, **wild)
    best = decode(queries, problem, **{**wild, "answer": "best"})
    candidates = CandidatesDecoder().decode(problem.energy(queries), problem, context=Context())
    assert (last.energies > candidates.energies + 1e-3).any()
    assert (best.energies <= candidates.energies + 1e-5).all()
    embedded = problem.surrogate.embed(last.structures)
    torch.testing.assert_close((embedded - queries).square().sum(1, keepdim=True), last.energies)


def test_ends_come_before_starts_where_the_last_points_are_asked_for(problem, queries):
    ends = decode(queries, problem, top_k=1, **{**PLAIN, "step_size": 50.0, "steps": 1, "starts": 3})
    three = decode(queries, problem, top_k=3, **{**PLAIN, "step_size": 50.0, "steps": 1, "starts": 3})
    assert same(problem, ends.best, three.best)
    assert three.energies.isfinite().all()
