"""What passes between a GPU and the CPU inside loops, seen on a pretended device: see docs/how-to/gpu.md."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from pretended import DEVICE, OnDevice, Pretended

from ele_core.components.decoders.gradient import GradientDecoder
from ele_core.components.decoders.search import BeamSearch, SearchDecoder
from ele_core.components.surrogates import contrastive
from ele_core.components.surrogates.contrastive import ContrastiveSurrogate
from ele_core.runtime.context import Context
from ele_core.runtime.device import CPU, seeded
from ele_core.types import Candidates, Choice, Problem
from ele_graphs.graphs import space as graph_space
from ele_graphs.molecules.space import MoleculeSpace
from ele_sequences.space import SequenceSpace

SMILES = ["CCO", "CC(C)O", "CCN", "C1CC1", "CC=O", "OCCO", "CC#N", "NCC=O", "CCC", "CCF", "COC", "C=CC"]
WORDS = ["abca", "bca", "cab", "aab", "abc", "bb", "ca", "cccc", "acac", "b", "abab", "bcbc"]
COMPILED = 9
"""Copies of a round of search on graphs with compiled moves: graphs and queries to the CPU, moved graphs back."""
WAITS_OF_A_STEP, WAITS_OF_A_ROUND = 40, 100
"""Operations of a step of pgd, and of a round of search, for which the CPU needs to know a size or a number."""


@pytest.fixture(params=["flat", "rgcn", "neighbourhoods"])
def trained(request) -> tuple[ContrastiveSurrogate, object]:
    """A surrogate on the CPU, and structures: what it learned does not matter here."""
    if request.param == "flat":
        space = SequenceSpace(SequenceSpace.Config(alphabet=tuple("abc"), length=5))
        outputs = space.pack(WORDS)
    else:
        space = MoleculeSpace(MoleculeSpace.Config(max_atoms=5))
        outputs = space.pack(SMILES)
    with seeded(0):
        encoder, additive = Choice(name=request.param), request.param == "neighbourhoods"
        made = ContrastiveSurrogate(ContrastiveSurrogate.Config(dim=6, encoder=encoder, spherical=not additive), space)
    if made.outline is not None:
        made.outline_on(outputs)
    return made, outputs


def decoded(decoder, surrogate, outputs, queries):
    """The first eight structures are the candidates of the queries."""
    candidates = Candidates(outputs[:8], surrogate.embed(outputs[:8]), None, surrogate)
    return decoder.decode(surrogate.energy(queries), Problem(surrogate.space, candidates), context=Context())


def transfers(decoder, trained) -> tuple[Counter[str], Counter[str], object]:
    """The copies and the waits of decoding four queries on the pretended device, and what was found."""
    surrogate, outputs = trained
    queries = surrogate.embed(outputs[8:])
    with Pretended() as seen:
        surrogate.to(DEVICE)
        decoded(decoder, surrogate, outputs, queries.to(DEVICE))  # what is sent once is there now
        seen.copies.clear()
        seen.waits.clear()
        found = decoded(decoder, surrogate, outputs, queries.to(DEVICE))
        copies, waits = seen.copies.copy(), seen.waits.copy()
        surrogate.to(CPU)
    return copies, waits, found


def pgd(steps: int) -> GradientDecoder:
    return GradientDecoder(GradientDecoder.Config(starts=2, steps=steps, tolerance=0))


def search(rounds: int) -> SearchDecoder:
    return SearchDecoder(SearchDecoder.Config(width=2, rounds=rounds, patience=9))


# -- the ruler ----------------------------------------------------------------------------------------------------


def test_copies_and_waits_are_seen_wherever_they_are_made():
    here = torch.arange(4.0)
    with Pretended() as seen:
        there = here.to(DEVICE)
        assert isinstance(there, OnDevice)
        assert isinstance(torch.tensor([1, 2], device=DEVICE), OnDevice)
        assert isinstance(torch.ones(2, device=DEVICE) + there[:2], OnDevice)
        assert seen.copies.total() == 2
        assert seen.waits.total() == 0
        assert there[there > 1].cpu().tolist() == [2.0, 3.0]
        assert there.sum().item() == 6.0
        assert there.tolist() == here.tolist()
        assert bool((there > 2).any())
        assert there.nonzero().shape == (3, 1)
    assert sum(count for place, count in seen.copies.items() if place.startswith("to the CPU")) == 2
    assert seen.waits.total() == 4


def test_tensors_of_both_devices_are_refused_as_by_a_gpu():
    with Pretended(), pytest.raises(RuntimeError, match="on the CPU and on the device"):
        torch.ones(2, device=DEVICE) + torch.ones(2)


# -- the loops ----------------------------------------------------------------------------------------------------


def test_embedding_sends_each_chunk_once_and_nothing_back(trained, monkeypatch):
    surrogate, outputs = trained
    monkeypatch.setattr(contrastive, "CHUNK", 4)
    fields, expected = len(outputs.as_dict()), surrogate.embed(outputs)
    with Pretended() as seen:
        surrogate.to(DEVICE)
        there = outputs.to(DEVICE)
        seen.copies.clear()
        embedded = surrogate.embed(there)
        assert not seen.copies
        surrogate.embed(outputs)
        assert seen.copies.total() == 3 * fields
        assert all(place.startswith("to the device") for place in seen.copies)
        torch.testing.assert_close(embedded.cpu(), expected)


def test_a_step_of_pgd_copies_nothing(trained):
    few, few_waits, _ = transfers(pgd(2), trained)
    many, many_waits, found = transfers(pgd(6), trained)
    assert many == few
    assert (many_waits - few_waits).total() <= WAITS_OF_A_STEP * 4, many_waits - few_waits
    queries = trained[0].embed(trained[1][8:])
    torch.testing.assert_close(found.energies, decoded(pgd(6), *trained, queries).energies)


@pytest.mark.parametrize("compiled", [False, True], ids=["tensors", "compiled"])
def test_a_round_of_search_copies_what_compiled_moves_need_and_nothing_else(trained, compiled, monkeypatch):
    surrogate, outputs = trained
    rounds = []
    expand = BeamSearch._expand
    monkeypatch.setattr(BeamSearch, "_expand", lambda *given: rounds.append(1) or expand(*given))
    monkeypatch.setattr(graph_space, "pays", lambda *_: compiled)
    few, few_waits, _ = transfers(search(1), trained)
    first = len(rounds) // 2
    many, many_waits, found = transfers(search(4), trained)
    more = (len(rounds) - 2 * first) // 2 - first
    assert more > 0
    needed = COMPILED * more if compiled and isinstance(surrogate.space, MoleculeSpace) else 0
    assert (many - few).total() <= needed, many - few
    assert (many_waits - few_waits).total() <= WAITS_OF_A_ROUND * more, many_waits - few_waits
    queries = surrogate.embed(outputs[8:])
    torch.testing.assert_close(found.energies, decoded(search(4), surrogate, outputs, queries).energies)
