"""Constraints: every decoder answers only structures that satisfy them, each input by its own."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from linear import linear_problem, random_queries, random_sequences
from torch import Tensor

from ele_core.components.decoders import constraints as module
from ele_core.components.decoders.candidates import CandidatesDecoder
from ele_core.components.decoders.constraints import Constraints, digest_of, satisfying_rows
from ele_core.components.decoders.gradient import GradientDecoder
from ele_core.components.decoders.search import SearchDecoder
from ele_core.interfaces import Decoder
from ele_core.runtime.context import Context
from ele_core.testing import SampleProblem
from ele_core.types import Candidates, Decoding
from ele_sequences.space import SequenceConstraint, SequenceSpace

DECODERS = (
    CandidatesDecoder(),
    SearchDecoder(),
    SearchDecoder(SearchDecoder.Config(pgd=GradientDecoder.Config(starts=4, steps=5))),
    GradientDecoder(GradientDecoder.Config(starts=4, steps=5)),
    GradientDecoder(GradientDecoder.Config(starts=4, steps=5, start="random")),
    GradientDecoder(GradientDecoder.Config(starts=4, steps=5, answer="last")),
)
NAMES = ("candidates", "search", "search from pgd", "pgd", "pgd random", "pgd last")
every_decoder = pytest.mark.parametrize("decoder", DECODERS, ids=NAMES)
IMPOSSIBLE = SequenceConstraint(prefix="z")


@pytest.fixture(scope="module")
def problem() -> SampleProblem:
    return linear_problem(candidates=40)


@pytest.fixture(scope="module")
def queries(problem: SampleProblem) -> Tensor:
    return random_queries(problem, 12)


def constrained(problem: SampleProblem, constraints: list[Any]) -> SampleProblem:
    return dataclasses.replace(problem, constraints=constraints)


def decode(decoder: Decoder, queries: Tensor, problem: SampleProblem, **options: Any) -> Decoding:
    return decoder.decode(problem.energy(queries), problem, context=Context(), **options)


def mixed(count: int) -> list[SequenceConstraint | None]:
    """Different constraints, and inputs without."""
    kinds = [SequenceConstraint(prefix="a"), None, SequenceConstraint(length=3), SequenceConstraint(contains="bc")]
    return [kinds[number % len(kinds)] for number in range(count)]


@every_decoder
@pytest.mark.parametrize("top_k", [1, 3])
def test_every_answer_satisfies_the_constraint_of_its_input(decoder, problem, queries, top_k):
    given = mixed(len(queries))
    found = decode(decoder, queries, constrained(problem, given), top_k=top_k)
    assert found.energies[:, 0].isfinite().all()
    for row, constraint in enumerate(given):
        if constraint is not None:
            there = found.energies[row].isfinite()
            own = found.structures[row * top_k : (row + 1) * top_k][there]
            assert problem.space.rules.satisfies(own, constraint).all()
    repeated = queries.repeat_interleave(top_k, dim=0)
    finite = found.energies.flatten().isfinite()
    expected = problem.energy(repeated).of(found.structures)
    torch.testing.assert_close(expected[finite], found.energies.flatten()[finite], rtol=1e-4, atol=1e-4)


@every_decoder
def test_an_input_without_a_constraint_is_decoded_as_if_nobody_had_one(decoder, problem, queries):
    given = mixed(len(queries))
    free = [row for row, constraint in enumerate(given) if constraint is None]
    alone, together = (decode(decoder, queries, each) for each in (problem, constrained(problem, given)))
    assert torch.equal(alone.energies[free], together.energies[free])
    assert torch.equal(alone.structures.tokens[free], together.structures.tokens[free])


@every_decoder
def test_the_result_of_an_input_does_not_depend_on_the_constraints_of_others(decoder, problem, queries):
    given = mixed(len(queries))
    together = decode(decoder, queries, constrained(problem, given))
    for row in (0, 2, 3):
        alone = decode(decoder, queries[row : row + 1], constrained(problem, given[row : row + 1]))
        torch.testing.assert_close(alone.energies[0], together.energies[row])


@every_decoder
def test_if_no_structure_satisfies_the_constraint_energies_are_infinite(decoder, problem, queries):
    found = decode(decoder, queries, constrained(problem, [IMPOSSIBLE, *[None] * (len(queries) - 1)]), top_k=2)
    assert found.energies[0].isinf().all()
    assert found.energies[1:].isfinite().all()
    assert len(found.structures) == 2 * len(queries)


@every_decoder
def test_candidates_of_their_own_are_judged_by_the_constraint_of_their_input(decoder, problem, queries):
    owner = torch.arange(len(problem.candidates)) % len(queries)
    own = Candidates(problem.candidates.batch, problem.candidates.embeddings, owner)
    given = [SequenceConstraint(length=5), *[None] * (len(queries) - 1)]
    found = decode(decoder, queries, constrained(dataclasses.replace(problem, candidates=own), given))
    kept = problem.space.rules.satisfies(own.batch[owner == 0], given[0])
    assert found.energies[0].isfinite().all() or not kept.any()
    if found.energies[0].isfinite().all():
        assert problem.space.rules.satisfies(found.structures[:1], given[0]).all()


def test_candidates_gives_the_nearest_that_satisfies(problem, queries):
    constraint = SequenceConstraint(prefix="b")
    found = decode(CandidatesDecoder(), queries, constrained(problem, [constraint] * len(queries)))
    kept = problem.space.rules.satisfies(problem.candidates.batch, constraint)
    energies = problem.energy(queries).among(problem.candidates[kept])
    torch.testing.assert_close(found.energies[:, 0], energies.amin(dim=1))


def test_search_finds_structures_that_satisfy_if_no_candidate_does(problem, queries):
    constraint = SequenceConstraint(prefix="cab", length=5)
    kept = ~problem.space.rules.satisfies(problem.candidates.batch, SequenceConstraint(prefix="ca"))
    batch, embeddings = problem.candidates.batch[kept], problem.candidates.embeddings[kept]
    narrowed = dataclasses.replace(problem, candidates=Candidates(batch, embeddings))
    found = decode(SearchDecoder(), queries, constrained(narrowed, [constraint] * len(queries)))
    assert found.energies.isfinite().all()
    assert problem.space.rules.satisfies(found.structures, constraint).all()


def test_search_finds_the_best_that_satisfies_in_spite_of_a_wrong_query(problem):
    """Queries halfway to another structure: the constraint leads back to the truth."""
    space = problem.space
    assert isinstance(space, SequenceSpace)
    truths = random_sequences(space, 30, seed=5)
    queries = problem.surrogate.embed(truths)
    noisy = queries + 0.35 * torch.randn(queries.shape, generator=torch.Generator().manual_seed(3), dtype=queries.dtype)
    given = [SequenceConstraint(prefix=text[:2], length=len(text)) for text in space.unpack(truths)]
    free, bound = (decode(SearchDecoder(), noisy, each) for each in (problem, constrained(problem, given)))
    exact = [(space.keys(found.best) == space.keys(truths)).all(dim=1).float().mean() for found in (free, bound)]
    assert exact[1] > exact[0]


def test_patience_does_not_stop_a_search_whose_violation_still_falls(problem, queries):
    constraint = SequenceConstraint(prefix="ccccc")
    kept = (problem.candidates.batch.tokens != 3).all(dim=1)  # no candidate has a c
    batch, embeddings = problem.candidates.batch[kept], problem.candidates.embeddings[kept]
    narrowed = dataclasses.replace(problem, candidates=Candidates(batch, embeddings))
    found = decode(SearchDecoder(), queries, constrained(narrowed, [constraint] * len(queries)))
    assert problem.space.unpack(found.best) == ["ccccc"] * len(queries)


def test_a_trace_ends_at_the_answer(problem, queries):
    found = SearchDecoder().decode(
        problem.energy(queries), constrained(problem, mixed(len(queries))), trace=True, context=Context()
    )
    assert found.trace is not None
    assert torch.equal(problem.space.keys(found.trace.structures[-1]), problem.space.keys(found.best))


def test_equal_constraints_are_judged_once(problem, queries, monkeypatch):
    judged: list[SequenceConstraint] = []
    satisfies = SequenceSpace.Rules.satisfies

    def noted(self: Any, batch: Any, constraint: SequenceConstraint) -> Tensor:
        judged.append(constraint)
        return satisfies(self, batch, constraint)

    monkeypatch.setattr(SequenceSpace.Rules, "satisfies", noted)
    fresh = Candidates(problem.candidates.batch, problem.candidates.embeddings)
    given = [SequenceConstraint(prefix="ab"[number % 2]) for number in range(len(queries))]
    for _ in range(2):
        decode(CandidatesDecoder(), queries, constrained(dataclasses.replace(problem, candidates=fresh), given))
    assert len(judged) == 2


def test_only_the_last_constraints_are_remembered(problem, monkeypatch):
    monkeypatch.setattr(module, "REMEMBERED", 2)
    fresh = dataclasses.replace(problem, candidates=Candidates(problem.candidates.batch, problem.candidates.embeddings))
    for length in range(5):
        given = constrained(fresh, [SequenceConstraint(length=length)])
        satisfying_rows(given, Constraints.of(given, 1, torch.device("cpu")), 0)
    assert len(fresh.candidates.satisfying) == 2


def test_candidates_are_read_once_for_several_constraints(problem, queries, monkeypatch):
    read, batch = [], problem.candidates.batch
    chunks = type(batch).chunks
    monkeypatch.setattr(type(batch), "chunks", lambda self, size: read.append(len(self)) or chunks(self, size))
    monkeypatch.setattr(module, "AT_ONCE", 3)
    fresh = dataclasses.replace(problem, candidates=Candidates(batch, problem.candidates.embeddings))
    lengths = [number % 4 for number in range(len(queries))]
    given = constrained(fresh, [SequenceConstraint(length=length) for length in lengths])
    constraints = Constraints.of(given, len(queries), torch.device("cpu"))
    for place, length in enumerate(dict.fromkeys(lengths)):
        rows = satisfying_rows(given, constraints, place)
        kept = problem.rules.satisfies(batch, SequenceConstraint(length=length))
        assert torch.equal(rows, kept.nonzero().flatten())
    assert read == [len(batch)]


def test_constraints_that_are_all_none_are_none(problem):
    assert Constraints.of(constrained(problem, [None, None]), 2, torch.device("cpu")) is None


def test_digests_differ_for_different_constraints():
    one, other = SequenceConstraint(length=3), SequenceConstraint(length=4)
    assert digest_of([one, None]) != digest_of([None, one])
    assert digest_of([one, None]) != digest_of([other, None])
    assert digest_of([one]) == digest_of([SequenceConstraint(length=3)])
