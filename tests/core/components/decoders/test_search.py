"""Search: finds what moves can reach, scores nothing twice, each input for itself, on any surrogate."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from typing import Any

import pytest
import torch
from linear import linear_problem, random_queries, random_sequences, sequence_space
from torch import Tensor

from ele_core.components.decoders import search as module
from ele_core.components.decoders.candidates import CandidatesDecoder
from ele_core.components.decoders.gradient import GradientDecoder
from ele_core.components.decoders.search import SearchDecoder, contains, first_of_each, from_the_start
from ele_core.energies import SquaredDistance
from ele_core.errors import ConfigError
from ele_core.numerics.keys import member, ranks
from ele_core.runtime.context import Context
from ele_core.testing import LinearSurrogate, SampleProblem
from ele_core.types import Candidates


@pytest.fixture(scope="module")
def problem() -> SampleProblem:
    return linear_problem(candidates=30)


@pytest.fixture(scope="module")
def queries(problem: SampleProblem) -> Tensor:
    return random_queries(problem, 24)


@pytest.fixture
def scored(queries: Tensor, monkeypatch) -> list[tuple[int, ...]]:
    """The row of the query and the tokens of every structure that is scored from now on."""
    found: list[tuple[int, ...]] = []
    energy = SquaredDistance.of

    def noted(self: Any, batch: Any, owner: Tensor | None = None) -> Tensor:
        row = (self.asked(owner).unsqueeze(1) == queries.unsqueeze(0)).all(dim=2).int().argmax(dim=1)
        found.extend(map(tuple, torch.cat([row[:, None], batch.tokens.long()], dim=1).tolist()))
        return energy(self, batch, owner)

    monkeypatch.setattr(SquaredDistance, "of", noted)
    return found


def decode(queries: Tensor, problem: SampleProblem, top_k: int = 1, **options: Any) -> Any:
    decoder = SearchDecoder(SearchDecoder.Config(**options))
    return decoder.decode(problem.energy(queries), problem, top_k=top_k, context=Context())


def test_the_answer_is_never_worse_than_the_best_candidate(problem, queries):
    found = decode(queries, problem, width=1, rounds=1)
    best = CandidatesDecoder().decode(problem.energy(queries), problem, context=Context())
    assert (found.energies <= best.energies + 1e-9).all()
    assert (found.energies < best.energies - 1e-6).any()


def test_it_reaches_structures_that_no_candidate_is(problem, queries):
    found = decode(queries, problem)
    best = CandidatesDecoder().decode(problem.energy(queries), problem, context=Context())
    assert (best.energies > 1e-3).float().mean() > 0.5
    assert (found.energies < 1e-9).float().mean() > 0.9


def test_a_wider_beam_is_no_worse(problem, queries):
    narrow, wide = (decode(queries, problem, width=width).energies.mean() for width in (1, 6))
    assert wide <= narrow + 1e-9


def test_energies_are_those_of_the_structures_and_the_structures_are_different(problem, queries):
    found = decode(queries, problem, top_k=4)
    embedded = problem.surrogate.embed(found.structures).view(24, 4, -1)
    torch.testing.assert_close((embedded - queries.unsqueeze(1)).square().sum(dim=2), found.energies)
    assert (found.energies.diff(dim=1) >= 0).all()
    keys = problem.space.keys(found.structures).view(24, 4, 2).tolist()
    assert all(len({tuple(key) for key in row}) == 4 for row in keys)


def test_more_is_found_than_there_are_candidates(problem, queries):
    one = Candidates(problem.candidates.batch[:1], problem.candidates.embeddings[:1])
    found = decode(queries, dataclasses.replace(problem, candidates=one), top_k=3)
    assert found.energies.isfinite().all()


def test_an_input_searched_alone_gets_the_answer_it_gets_in_a_batch(problem, queries):
    together = decode(queries, problem, width=2)
    for row in (0, 7, 23):
        alone = decode(queries[row : row + 1], problem, width=2)
        assert torch.equal(problem.space.keys(alone.best), problem.space.keys(together.best[row : row + 1]))


def test_chunks_change_nothing(problem, queries, monkeypatch):
    whole = decode(queries, problem, width=2, trace=True)
    monkeypatch.setattr(module, "CHUNK", 5)
    parts = decode(queries, problem, width=2, trace=True)
    assert torch.equal(problem.space.keys(whole.structures), problem.space.keys(parts.structures))
    assert torch.equal(whole.energies, parts.energies)
    assert [energy.tolist() for energy in whole.trace.energies] == [energy.tolist() for energy in parts.trace.energies]


def test_chunks_whose_paths_differ_in_length_make_one_trace(problem, queries, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 6)
    mixed = torch.cat([problem.candidates.embeddings[:6], queries[:6]])
    found = decode(mixed, problem, trace=True)
    assert len(found.trace.steps) > 1
    assert {len(structures) for structures in found.trace.structures} == {12}
    assert torch.equal(problem.space.keys(found.trace.structures[-1]), problem.space.keys(found.best))
    start, end = (problem.space.keys(found.trace.structures[at][:6]) for at in (0, -1))
    assert torch.equal(start, end), "a candidate that is the answer stays where it is"


def test_no_structure_of_an_input_is_scored_twice(problem, queries, scored):
    decode(queries, problem)
    assert len(scored) > 1000
    assert len(set(scored)) == len(scored)


def test_screened_moves_cost_less_and_still_help(problem, queries, scored):
    everything = decode(queries, problem)
    all_moves = len(scored)
    scored.clear()
    screened = decode(queries, problem, moves=4)
    assert len(scored) < all_moves / 2
    best = CandidatesDecoder().decode(problem.energy(queries), problem, context=Context())
    assert everything.energies.mean() <= screened.energies.mean() + 1e-9
    assert screened.energies.mean() < best.energies.mean() / 2


def test_it_needs_no_gradient(problem, queries, monkeypatch):
    monkeypatch.setattr(SquaredDistance, "smooth", False)
    monkeypatch.setattr(SquaredDistance, "at", None)
    SearchDecoder().accepts(problem.energy(queries))
    with pytest.raises(ConfigError, match="gradient"):
        SearchDecoder(SearchDecoder.Config(pgd={})).accepts(problem.energy(queries))
    assert decode(queries, problem, moves=10).energies.isfinite().all()


def test_the_trace_is_the_path_of_single_edits_from_a_candidate_to_the_answer(problem, queries):
    found = decode(queries, problem, top_k=3, trace=True)
    paths = [problem.space.keys(structures) for structures in found.trace.structures]
    assert member(paths[0], of=problem.space.keys(problem.candidates.batch)).all()
    assert torch.equal(paths[-1], problem.space.keys(found.best))
    assert (paths[-1] != paths[-2]).any(), "the longest path is no longer than it has to be"
    for before, structures, after in zip(paths, found.trace.structures, paths[1:], strict=False):
        moved, row = problem.space.moves.neighbours(structures)
        reached = torch.cat([row.unsqueeze(1), problem.space.keys(moved)], dim=1)
        step = torch.cat([torch.arange(24).unsqueeze(1), after], dim=1)
        stayed = (before == after).all(dim=1)
        assert (stayed | member(step, of=reached)).all()
    assert decode(queries, problem).trace is None


def test_a_shorter_path_repeats_its_answer_at_the_end(problem, queries):
    found = decode(queries, problem, trace=True)
    keys = torch.stack([problem.space.keys(structures) for structures in found.trace.structures])
    stayed = (keys.diff(dim=0) == 0).all(dim=2)
    assert list(found.trace.steps) == list(range(len(keys)))
    assert (stayed.long().diff(dim=0) >= 0).all(), "no edit follows after a path has come to its end"
    assert len(set((~stayed).sum(dim=0).tolist())) > 1, "paths of different lengths, else this shows nothing"


def test_the_energies_of_the_trace_are_those_of_its_structures(problem, queries):
    found = decode(queries, problem, top_k=2, trace=True)
    for structures, energies in zip(found.trace.structures, found.trace.energies, strict=True):
        torch.testing.assert_close(energies, problem.energy(queries).of(structures))
    torch.testing.assert_close(found.trace.energies[-1], found.energies[:, 0])


def test_a_trace_changes_no_answer_and_scores_nothing_more(problem, queries, scored):
    plain = decode(queries, problem, top_k=3)
    without = list(scored)
    scored.clear()
    traced = decode(queries, problem, top_k=3, trace=True)
    assert scored == without
    assert torch.equal(problem.space.keys(plain.structures), problem.space.keys(traced.structures))
    assert torch.equal(plain.energies, traced.energies)


def test_an_answer_that_was_a_candidate_has_a_path_of_one_structure(problem):
    own = problem.candidates.embeddings[:6]
    found = decode(own, problem, trace=True)
    assert list(found.trace.steps) == [0]
    assert torch.equal(problem.space.keys(found.trace.structures[0]), problem.space.keys(problem.candidates.batch[:6]))


def test_no_queries_give_an_empty_decoding(problem, queries):
    found = decode(queries[:0], problem, top_k=2)
    assert (len(found.structures), tuple(found.energies.shape)) == (0, (0, 2))


def test_sorting_helpers():
    assert ranks(torch.tensor([0, 0, 2, 2, 2])).tolist() == [0, 1, 0, 1, 2]
    assert first_of_each(torch.tensor([5, 3, 5, 3, 9])).tolist() == [0, 1, 4]
    assert from_the_start(torch.tensor([[9, 8, 7], [5, 8, 6], [2, 8, 6]])).tolist() == [[2, 8, 6], [5, 8, 7], [9, 8, 7]]
    assert contains(torch.tensor([1, 4, 7]), torch.tensor([7, 2, 8, 1])).tolist() == [True, False, False, True]


def test_a_budget_bounds_what_is_scored_for_each_input(problem, queries, scored):
    decode(queries, problem, budget=25)
    assert max(Counter(row for row, *_ in scored).values()) == 25


def test_it_can_start_from_what_descent_finds(problem, queries):
    options = {"steps": 20, "starts": 4}
    descent = GradientDecoder(GradientDecoder.Config(**options)).decode(
        problem.energy(queries), problem, context=Context()
    )
    found = decode(queries, problem, width=1, rounds=1, pgd=options)
    assert (found.energies <= descent.energies + 1e-9).all()
    assert found.energies.mean() < decode(queries, problem, width=1, rounds=1).energies.mean()


def test_an_input_stops_after_rounds_without_a_better_structure(problem, queries, scored):
    impatient = decode(queries, problem, patience=1)
    few = len(scored)
    scored.clear()
    patient = decode(queries, problem, patience=12)
    assert few < len(scored)
    assert (patient.energies <= impatient.energies + 1e-9).all()


# -- effort ---------------------------------------------------------------------------------------------------------


class Judged(SquaredDistance):
    """A squared distance that knows how high those of truths usually are: `-inf` for one that never is low enough."""

    usual = -math.inf


@pytest.fixture(scope="module")
def hard() -> SampleProblem:
    """Long sequences under an embedding of few dimensions: a narrow beam ends in a local minimum."""
    space = sequence_space(length=8)
    surrogate = LinearSurrogate(LinearSurrogate.Config(dim=4), space)
    batch = random_sequences(space, 60, seed=1)
    return SampleProblem(space, Candidates(batch, surrogate.embed(batch)), surrogate=surrogate)


def decode_judged(kind: type[SquaredDistance], problem: SampleProblem, effort: int, **options: Any) -> Any:
    energy = kind(problem.surrogate, random_queries(problem, 24))
    decoder = SearchDecoder(SearchDecoder.Config(width=1, effort=effort))
    return decoder.decode(energy, problem, context=Context(), **options)


def test_effort_is_never_worse_and_better_where_no_answer_convinces(hard):
    before, improved = decode_judged(Judged, hard, 0).energies, []
    for effort in (1, 2, 3):
        energies = decode_judged(Judged, hard, effort).energies
        assert (energies <= before).all()
        improved.append(int((energies < before - 1e-3).sum()))
        before = energies
    assert min(improved) >= 4
    torch.testing.assert_close(before, decode_judged(Judged, hard, 3, top_k=3).energies[:, :1])


@pytest.mark.parametrize("usual", [None, math.inf])
def test_effort_changes_nothing_if_no_energy_is_known_to_be_usual_or_all_are(hard, usual, monkeypatch):
    monkeypatch.setattr(Judged, "usual", usual)
    without = decode_judged(Judged, hard, 0, trace=True)
    plain = decode_judged(SquaredDistance, hard, 3, trace=True)
    found = decode_judged(Judged, hard, 3, trace=True)
    for other in (plain, found):
        assert torch.equal(other.energies, without.energies)
        assert torch.equal(hard.space.keys(other.best), hard.space.keys(without.best))
        assert len(other.trace.steps) == len(without.trace.steps)


def test_effort_goes_to_the_inputs_whose_answers_do_not_convince_and_to_no_others(hard, monkeypatch):
    queries, counts = random_queries(hard, 24), Counter()
    energy = SquaredDistance.of

    def counted(self: Any, batch: Any, owner: Tensor | None = None) -> Tensor:
        row = (self.asked(owner).unsqueeze(1) == queries.unsqueeze(0)).all(dim=2).int().argmax(dim=1)
        counts.update(row.tolist())
        return energy(self, batch, owner)

    monkeypatch.setattr(SquaredDistance, "of", counted)
    before = decode_judged(Judged, hard, 0).energies[:, 0]
    scored = dict(counts)
    usual = before.median().item()
    monkeypatch.setattr(Judged, "usual", usual)
    counts.clear()
    after = decode_judged(Judged, hard, 3).energies[:, 0]
    convincing = before <= usual
    assert 6 < int(convincing.sum()) < 18
    assert torch.equal(after[convincing], before[convincing])
    assert (after[~convincing] < before[~convincing] - 1e-3).any()
    for row, own in enumerate(convincing.tolist()):
        assert (counts[row] <= scored[row]) is own


def test_a_beam_that_may_grow_starts_from_more_candidates(hard):
    starts: list[int] = []

    class Noted(CandidatesDecoder):
        def decode(self, *given: Any, top_k: int = 1, **options: Any) -> Any:
            starts.append(top_k)
            return super().decode(*given, top_k=top_k, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CandidatesDecoder", Noted)
        for effort in (0, 2, 7):
            decode_judged(Judged, hard, effort)
            decode_judged(SquaredDistance, hard, effort)
    assert starts == [1, 1, 4, 1, 60, 1], "never more than there are, and one for energies without a usual one"
