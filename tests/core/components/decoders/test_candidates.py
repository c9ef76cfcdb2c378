"""Decoding among candidates: exact, in chunks, several at a time, and with sets of one's own for each input."""

from __future__ import annotations

import dataclasses
import math
from itertools import pairwise

import pytest
import torch
from linear import linear_problem, random_queries

from ele_core.components.decoders import candidates as module
from ele_core.components.decoders.candidates import CandidatesDecoder, nearest
from ele_core.errors import DataError
from ele_core.model.model import share_of
from ele_core.runtime.context import Context
from ele_core.testing import SampleProblem
from ele_core.types import Candidates


@pytest.fixture(scope="module")
def problem() -> SampleProblem:
    return linear_problem(candidates=60)


def brute_force(query: torch.Tensor, problem: SampleProblem, rows: list[int]) -> list[tuple[float, int]]:
    energies = [float((problem.candidates.embeddings[row] - query).square().sum()) for row in rows]
    return sorted(zip(energies, rows, strict=True))


def owned(problem: SampleProblem, owner: list[int]) -> SampleProblem:
    candidates = problem.candidates
    own = Candidates(candidates.batch[: len(owner)], candidates.embeddings[: len(owner)], torch.tensor(owner))
    return dataclasses.replace(problem, candidates=own)


def test_the_best_candidates_are_those_of_brute_force_in_order(problem):
    queries = random_queries(problem, 9)
    energies, rows = nearest(problem.energy(queries), problem, 5, Context())
    for i, query in enumerate(queries):
        expected = brute_force(query, problem, list(range(60)))[:5]
        torch.testing.assert_close(
            energies[i], torch.tensor([energy for energy, _ in expected], dtype=torch.float64), rtol=1e-4, atol=1e-4
        )
        chosen = problem.candidates.embeddings[rows[i]]
        torch.testing.assert_close((chosen - query).square().sum(dim=1), energies[i], rtol=1e-4, atol=1e-4)


def test_a_candidate_is_found_by_its_own_embedding(problem):
    decoding = CandidatesDecoder().decode(problem.energy(problem.candidates.embeddings), problem, context=Context())
    found = problem.space.keys(decoding.best)
    assert torch.equal(found, problem.space.keys(problem.candidates.batch))
    torch.testing.assert_close(decoding.energies, torch.zeros(60, 1, dtype=torch.float64), rtol=0, atol=1e-4)


@pytest.mark.parametrize("cells", [1, 60, 150])
def test_decoding_in_chunks_changes_nothing(problem, monkeypatch, cells):
    queries = random_queries(problem, 7)
    energies, rows = nearest(problem.energy(queries), problem, 4, Context())
    monkeypatch.setattr(module, "CELLS", cells)
    in_chunks, rows_in_chunks = nearest(problem.energy(queries), problem, 4, Context())
    torch.testing.assert_close(in_chunks, energies, rtol=1e-4, atol=1e-5)
    assert torch.equal(rows_in_chunks[:, 0], rows[:, 0])


def test_structures_come_query_by_query_best_first(problem):
    queries = random_queries(problem, 6)
    decoding = CandidatesDecoder().decode(problem.energy(queries), problem, top_k=3, context=Context())
    assert (len(decoding.structures), decoding.energies.shape, decoding.top_k) == (18, (6, 3), 3)
    assert (decoding.energies.diff(dim=1) >= 0).all()
    embedded = problem.surrogate.embed(decoding.structures).view(6, 3, -1)
    energies = (embedded - queries.unsqueeze(1)).square().sum(dim=2)
    torch.testing.assert_close(energies, decoding.energies, rtol=1e-4, atol=1e-4)
    assert torch.equal(problem.space.keys(decoding.best), problem.space.keys(decoding.structures[::3]))


def test_no_queries_give_no_structures(problem):
    decoding = CandidatesDecoder().decode(
        problem.energy(random_queries(problem, 0)), problem, top_k=2, context=Context()
    )
    assert (len(decoding.structures), decoding.energies.shape) == (0, (0, 2))


def test_more_than_there_are_is_refused_with_the_number(problem):
    with pytest.raises(DataError, match=r"61 structures .* only 60 candidates.*top_k"):
        nearest(problem.energy(random_queries(problem, 2)), problem, 61, Context())


# -- a set for each input -----------------------------------------------------------------------------------------


def test_each_input_sees_its_own_candidates_only(problem):
    owner = [2, 0, 1, 0, 2, 2, 1, 0, 1]
    own, queries = owned(problem, owner), random_queries(problem, 3)
    energies, rows = nearest(problem.energy(queries), own, 3, Context())
    for i, query in enumerate(queries):
        expected = brute_force(query, problem, [row for row, of in enumerate(owner) if of == i])
        assert rows[i].tolist() == [row for _, row in expected]
        torch.testing.assert_close(
            energies[i], torch.tensor([energy for energy, _ in expected], dtype=torch.float64), rtol=1e-4, atol=1e-4
        )


def test_an_input_with_fewer_candidates_than_asked_for_has_infinite_energies_at_its_own_best(problem):
    own, queries = owned(problem, [1, 1, 1, 0]), random_queries(problem, 2)
    energies, rows = nearest(problem.energy(queries), own, 3, Context())
    assert energies[0, 0] < math.inf
    assert energies[0, 1:].tolist() == [math.inf, math.inf]
    assert rows[0].tolist() == [3, 3, 3]
    assert (energies[1] < math.inf).all()


@pytest.mark.parametrize(
    ("owner", "message"),
    [([0, 0, 2], "input 1 has none"), ([0, 1], "input 2 has none"), ([0, 1, 2, 3], "4 sets for 3")],
)
def test_sets_that_do_not_match_the_inputs_are_refused(problem, owner, message):
    with pytest.raises(DataError, match=message):
        nearest(problem.energy(random_queries(problem, 3)), owned(problem, owner), 1, Context())


# -- a share of them ----------------------------------------------------------------------------------------------


def test_a_smaller_share_is_contained_in_a_larger_one(problem):
    def rows(share: float, seed: int = 0) -> set[tuple[int, ...]]:
        chosen = share_of(problem.candidates, share, Context(seed))
        torch.testing.assert_close(problem.surrogate.embed(chosen.batch), chosen.embeddings)
        return {tuple(row) for row in chosen.embeddings.tolist()}

    shares = [rows(share) for share in (0.01, 0.1, 0.5, 1.0)]
    assert [len(share) for share in shares] == [1, 6, 30, 60]
    assert all(small < large for small, large in pairwise(shares))
    assert rows(0.5) == shares[2]
    assert rows(0.5, seed=1) != shares[2]


def test_sets_of_the_inputs_own_are_never_cut(problem):
    own = owned(problem, [0, 1, 2]).candidates
    assert share_of(own, 0.1, Context()) is own
