"""What a decoder found and the proposals, ranked together by the whole energy; and search from proposals."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from linear import linear_problem, random_queries, random_sequences

from ele_core.components.decoders.search import SearchDecoder
from ele_core.energies import SquaredDistance
from ele_core.model.model import ranked
from ele_core.runtime.context import Context
from ele_core.testing import SampleProblem
from ele_core.types import Decoding, Proposals, Trace
from ele_sequences.space import SequenceSpace

QUERIES, PROPOSED = 4, 6


def asked(**changes: Any) -> tuple[SampleProblem, SquaredDistance, Any]:
    """A problem with proposals, an energy of four queries, and structures that a decoder may have found."""
    problem = linear_problem()
    batch = random_sequences(problem.space, PROPOSED * QUERIES, seed=9)  # type: ignore[arg-type]
    owner = torch.arange(len(batch)) % QUERIES
    problem = dataclasses.replace(problem, proposals=Proposals(batch, owner), **changes)
    energy = problem.energy(random_queries(problem, QUERIES))
    return problem, energy, random_sequences(problem.space, 5 * QUERIES, seed=5)  # type: ignore[arg-type, return-value]


def decoding(energy: SquaredDistance, batch: Any) -> Decoding:
    width = len(batch) // len(energy)
    values = energy.of(batch, torch.arange(len(energy)).repeat_interleave(width)).view(len(energy), width)
    return Decoding(batch, values)


def rows(found: Decoding, problem: SampleProblem) -> torch.Tensor:
    return problem.space.keys(found.structures).view(*found.energies.shape, 2)


def test_the_best_of_both_come_first_each_once():
    problem, energy, batch = asked()
    found = ranked(energy, decoding(energy, batch), problem, 4)
    assert problem.proposals is not None
    for query in range(QUERIES):
        own = type(batch).cat(
            [problem.proposals.batch[problem.proposals.owner == query], batch[5 * query : 5 * query + 5]]
        )
        keys = {tuple(key): row for row, key in enumerate(problem.space.keys(own).tolist())}
        values = energy[query : query + 1].of(own, torch.zeros(len(own), dtype=torch.long))
        least = sorted(float(values[row]) for row in keys.values())[:4]
        assert found.energies[query].tolist() == pytest.approx(least)
        assert len({tuple(key) for key in rows(found, problem)[query].tolist()}) == 4


@pytest.mark.parametrize("ranked_first", [2, 24])
def test_more_structures_never_change_the_first_ones(monkeypatch, ranked_first):
    monkeypatch.setattr("ele_core.model.model.RANKED", ranked_first)
    problem, energy, batch = asked()
    few, many = (ranked(energy, decoding(energy, batch), problem, count) for count in (2, 9))
    assert torch.equal(rows(many, problem)[:, :2], rows(few, problem))
    assert torch.equal(many.energies[:, :2], few.energies)
    assert bool((many.energies.diff(dim=1) >= 0).all())


def test_constraints_hold_for_proposals_too():
    problem, energy, batch = asked()
    rules = problem.space.rules
    bound = [rules.Constraint.model_validate({"length": 3}), None, rules.Constraint.model_validate({"length": 3}), None]
    problem = dataclasses.replace(problem, constraints=bound)
    found = decoding(energy, batch)
    kept = problem.satisfied(batch, torch.arange(QUERIES).repeat_interleave(5)).view(QUERIES, 5)
    found = dataclasses.replace(found, energies=found.energies.masked_fill(~kept, torch.inf))
    answers = ranked(energy, found, problem, 3)
    there = answers.energies.flatten().isfinite()
    assert isinstance(problem.space, SequenceSpace)
    texts = problem.space.unpack(answers.structures)
    for place in there.nonzero().flatten().tolist():
        assert place // 3 in (1, 3) or len(texts[place]) == 3
    assert there.view(QUERIES, 3)[1].all()


def test_missing_structures_have_an_infinite_energy_and_stay_last():
    problem, energy, batch = asked()
    found = ranked(energy, decoding(energy, batch), problem, 20)
    assert found.energies[:, :5].isfinite().all()
    assert found.energies[:, -1].isinf().all()


def test_a_trace_ends_in_the_answer():
    problem, energy, batch = asked()
    first = batch[torch.arange(0, len(batch), 5)]
    trace = Trace([0, 7], [first, first], [energy.of(first), energy.of(first)])
    found = ranked(energy, dataclasses.replace(decoding(energy, batch), trace=trace), problem, 3)
    assert found.trace is not None
    assert list(found.trace.steps) == [0, 7, 8]
    assert torch.equal(problem.space.keys(found.trace.structures[-1]), rows(found, problem)[:, 0])
    assert torch.equal(found.trace.energies[-1], found.energies[:, 0])


def test_search_begins_with_proposals():
    problem, energy, _ = asked()
    truths = random_sequences(problem.space, QUERIES, seed=2)  # type: ignore[arg-type]
    given = dataclasses.replace(problem, proposals=Proposals(truths, torch.arange(QUERIES)))
    still = SearchDecoder(SearchDecoder.Config(rounds=1, width=1, moves=1, effort=1))
    found = still.decode(energy, given, top_k=1, context=Context())
    assert torch.equal(problem.space.keys(found.structures), problem.space.keys(truths))
    none = Proposals(truths[:0], torch.zeros(0, dtype=torch.long))
    without = [
        still.decode(energy, dataclasses.replace(problem, proposals=each), top_k=2, context=Context())
        for each in (None, none)
    ]
    assert torch.equal(*(each.energies for each in without))
