"""Asking for more structures never changes the first ones, whatever the decoder."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from linear import linear_problem, random_queries

from ele_core.components.decoders.candidates import CandidatesDecoder, nearest
from ele_core.components.decoders.gradient import GradientDecoder
from ele_core.components.decoders.search import SearchDecoder
from ele_core.interfaces import Decoder
from ele_core.runtime.context import Context
from ele_core.testing import SampleProblem
from ele_sequences.space import SequenceConstraint

DECODERS = {
    "candidates": CandidatesDecoder(),
    "pgd": GradientDecoder(GradientDecoder.Config(starts=3, steps=10)),
    "pgd, last": GradientDecoder(GradientDecoder.Config(starts=3, steps=10, answer="last")),
    "pgd, random": GradientDecoder(GradientDecoder.Config(starts=3, steps=10, start="random")),
    "search": SearchDecoder(SearchDecoder.Config(width=2, rounds=3)),
    "search, few moves": SearchDecoder(SearchDecoder.Config(width=1, rounds=2, moves=3)),
    "search, budget": SearchDecoder(SearchDecoder.Config(width=2, budget=20)),
    "search after pgd": SearchDecoder(SearchDecoder.Config(width=2, rounds=2, pgd={"starts": 3, "steps": 3})),
}


@pytest.fixture(scope="module")
def problem() -> SampleProblem:
    return linear_problem(candidates=40, length=6)


def decoded(decoder: Decoder, problem: SampleProblem, top_k: int) -> Any:
    queries = random_queries(problem, 15) + 0.05
    return decoder.decode(problem.energy(queries), problem, top_k=top_k, context=Context())


@pytest.mark.parametrize("bound", [False, True], ids=["free", "bound"])
@pytest.mark.parametrize("name", DECODERS)
def test_the_first_answers_do_not_depend_on_how_many_are_asked_for(problem, name, bound):
    if bound:
        given = [SequenceConstraint(prefix="b") if row % 2 else None for row in range(15)]
        problem = dataclasses.replace(problem, constraints=given)
    few, some, many = (decoded(DECODERS[name], problem, top_k) for top_k in (1, 4, 20))
    for fewer, more in ((few, some), (few, many), (some, many)):
        torch.testing.assert_close(more.energies[:, : fewer.top_k], fewer.energies, rtol=1e-9, atol=1e-9)
        first = more.ranks(0, fewer.top_k)
        there = fewer.energies.flatten().isfinite()
        keys = (problem.space.keys(batch)[there] for batch in (first.structures, fewer.structures))
        assert torch.equal(*keys)
    assert few.energies.isfinite().all()
    if "random" not in name and not bound:
        assert many.energies.isfinite().all(), "candidates fill up what was not found"
    if "last" not in name:
        assert (many.energies.nan_to_num(posinf=1e9).diff(dim=1) >= 0).all()


@pytest.mark.parametrize("name", [name for name in DECODERS if "random" not in name])
def test_a_decoder_tells_the_least_energy_of_a_candidate(problem, name):
    queries = random_queries(problem, 15) + 0.05
    expected = nearest(problem.energy(queries), problem, 1, Context())[0][:, 0]
    torch.testing.assert_close(decoded(DECODERS[name], problem, 2).nearest, expected)
