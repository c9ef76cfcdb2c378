"""Energies: squared, weighted and sums; they agree with each other, guide every decoder, and are saved with a model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from linear import linear_problem, outputs_only, random_queries, random_sequences, sequence_space
from torch import Tensor

from ele_core import StructuredPredictor
from ele_core.components.decoders.candidates import CandidatesDecoder
from ele_core.components.decoders.gradient import GradientDecoder
from ele_core.components.decoders.search import SearchDecoder
from ele_core.components.regressors import measured
from ele_core.components.surrogates.parts import PartsSurrogate
from ele_core.energies import RIVALS, SquaredDistance, SumOfEnergies, WeightedDistance, fit_weights, rivals_of
from ele_core.interfaces import Energy
from ele_core.numerics.error_model import ErrorModel
from ele_core.runtime.context import Context
from ele_core.testing import LinearSurrogate, SampleProblem
from ele_core.types import Candidates, Choice, Problem
from ele_graphs.coloring.pictures import draw_block
from ele_graphs.coloring.space import CellGraphSpace
from ele_graphs.graphs.batch import Graphs
from ele_sequences.space import Tokens

DIM = 256


@pytest.fixture(scope="module")
def graphs() -> Graphs:
    import numpy as np

    drawn = draw_block(6, np.random.default_rng(0))
    return Graphs(torch.from_numpy(drawn.nodes), torch.from_numpy(drawn.edges))


@pytest.fixture(scope="module")
def base(graphs: Graphs) -> PartsSurrogate:
    made = PartsSurrogate(PartsSurrogate.Config(dim=DIM), CellGraphSpace(CellGraphSpace.Config(max_nodes=6)))
    made.fit(outputs_only(graphs, graphs[:5]), Context())
    return made


def unsure(embeddings: Tensor) -> Tensor:
    """Predictions that know some directions of the embedding well, and others hardly."""
    generator = torch.Generator().manual_seed(0)
    basis = torch.linalg.qr(torch.randn(DIM, DIM, generator=generator)).Q
    trust = torch.linspace(0, 1, DIM).square()
    mean = embeddings.mean(dim=0)
    noise = 0.03 * torch.randn(embeddings.shape, generator=generator) * (1.1 - trust)
    return mean + ((embeddings - mean) @ basis * trust + noise) @ basis.T


@pytest.fixture(scope="module")
def errors(base: PartsSurrogate, graphs: Graphs) -> ErrorModel:
    embeddings = base.embed(graphs)
    return ErrorModel(DIM).fit(unsure(embeddings)[100:], embeddings[100:])


# -- weighted ------------------------------------------------------------------------------------------------------


def test_the_energies_of_one_and_of_all_agree(base, errors, graphs):
    embeddings = base.embed(graphs[:20])
    energy = WeightedDistance(base, unsure(embeddings), errors)
    every = energy.among(Candidates(graphs[:20], embeddings))
    torch.testing.assert_close(energy.of(graphs[:20]), every.diagonal(), rtol=1e-3, atol=1e-4)


def test_search_finds_what_the_plain_energies_miss(base, errors, graphs):
    queries = unsure(base.embed(graphs))[:60]
    keys = base.space.keys(graphs[:60])
    problem = Problem(base.space, Candidates(graphs[500:600], base.embed(graphs[500:600])))
    found = {}
    for energy in (base.energy(queries), WeightedDistance(base, queries, errors)):
        decoded = SearchDecoder(SearchDecoder.Config(width=4)).decode(energy, problem, context=Context())
        found[type(energy)] = (base.space.keys(decoded.best) == keys).all(dim=1).float().mean().item()
    assert found[WeightedDistance] > found[SquaredDistance] + 0.4


@pytest.fixture
def fitted(pairs, tiny, monkeypatch) -> Callable[..., StructuredPredictor]:
    """Fit a predictor whose regressor has `options`; a hundred pairs are enough to measure errors."""
    monkeypatch.setattr(measured, "LEAST_PAIRS", 100)

    def fit(**options: Any) -> StructuredPredictor:
        sections = {**tiny, "regressor": {**tiny["regressor"], **options}}
        return StructuredPredictor("sequence", **sections, decoder="search").fit(*pairs, validation=20)

    return fit


@pytest.fixture
def weighted(fitted) -> StructuredPredictor:
    """A predictor whose energies weigh errors, whatever the validation pairs say."""
    predictor = fitted()
    predictor.model_.regressor.use_mode(measured.WEIGHTED)
    return predictor


def test_a_regressor_weighs_its_errors_and_a_saved_model_decodes_the_same(pairs, weighted, tmp_path: Path):
    predictor = weighted
    model = predictor.model_
    errors = model.regressor.errors
    assert not torch.equal(errors.root, torch.eye(model.surrogate.dim))
    assert isinstance(model.regressor.energy(torch.zeros(1, model.surrogate.dim)), WeightedDistance)
    predictor.save(tmp_path / "model")
    again = StructuredPredictor.load(tmp_path / "model")
    assert torch.equal(again.model_.regressor.errors.mixed, errors.mixed)
    assert torch.equal(again.model_.regressor.errors.usual, errors.usual)
    for decoder in ("search", "pgd"):
        assert again.predict(pairs[0][:5], decoder=decoder) == predictor.predict(pairs[0][:5], decoder=decoder)


def test_pgd_descends_along_weighted_energies(pairs, weighted):
    model = weighted.model_
    assert model.regressor.errors is not None
    queries = model.queries(pairs[0][:6])
    energy = model.regressor.energy(queries)
    candidates = model.decode(queries, Choice(name="candidates"), context=Context())
    found = model.decode(queries, Choice(name="pgd"), context=Context())
    torch.testing.assert_close(found.energies[:, 0], energy.of(found.best), rtol=1e-4, atol=1e-5)
    assert (found.energies <= candidates.energies + 1e-5).all()


def test_the_oracle_decodes_what_is_predicted_on_average(pairs, weighted):
    model = weighted.model_
    batch = model.space.pack(pairs[1][:3])
    expected = model.regressor.errors.expected(model.surrogate.embed(batch))
    torch.testing.assert_close(model.regressor.ideal_queries(batch), expected)


def test_without_the_option_nothing_is_weighted(fitted):
    model = fitted(weigh_errors=False).model_
    assert list(model.regressor.modes) == []
    assert model.regressor.errors is None
    assert isinstance(model.regressor.energy(torch.zeros(1, model.surrogate.dim)), SquaredDistance)
    batch = model.space.pack(["17", "42"])
    assert torch.equal(model.regressor.ideal_queries(batch), model.surrogate.embed(batch))


def test_an_energy_without_an_estimate_stays_without_one():
    space = sequence_space()
    plain = LinearSurrogate(LinearSurrogate.Config(dim=12), space)
    batch = random_sequences(space, 3)
    queries = plain.embed(batch)
    made = WeightedDistance(plain, queries.roll(1, 0), ErrorModel(12))
    assert plain.energy(queries).near(batch) is None
    assert made.near(batch) is None
    torch.testing.assert_close(made.of(batch), plain.energy(queries.roll(1, 0)).of(batch))


# -- every energy that is smooth, for every decoder ----------------------------------------------------------------


@pytest.fixture(scope="module")
def problem() -> SampleProblem:
    return linear_problem(candidates=30)


def other_surrogate(problem: SampleProblem) -> LinearSurrogate:
    """Another linear embedding of the same space."""
    made = LinearSurrogate(LinearSurrogate.Config(dim=7), problem.space)
    made.restore({"weights": made.weights.roll(3, 0)})
    return made


def some_errors(dim: int) -> ErrorModel:
    generator = torch.Generator().manual_seed(3)
    truths = torch.randn(400, dim, generator=generator)
    shrunk = truths * torch.linspace(0.1, 1, dim)
    return ErrorModel(dim).double().fit(shrunk + 0.1 * torch.randn(truths.shape, generator=generator), truths)


def smooth_energies(problem: SampleProblem, count: int) -> dict[str, Energy]:
    structures = random_sequences(problem.space, count, seed=2)
    first, other = problem.surrogate, other_surrogate(problem)
    plain = first.energy(first.embed(structures))
    errors = some_errors(first.dim)
    weighted = WeightedDistance(first, errors.expected(first.embed(structures)), errors)
    return {
        "weighted": weighted,
        "sum": SumOfEnergies([plain, other.energy(other.embed(structures))], [1.0, 0.5]),
        "sum of sums": SumOfEnergies([SumOfEnergies([plain, weighted], [0.3, 0.7]), weighted], [2.0, 1.0]),
    }


NAMES = ["weighted", "sum", "sum of sums"]


@pytest.mark.parametrize("name", NAMES)
def test_the_gradient_agrees_with_finite_differences(problem, name):
    energy = smooth_energies(problem, 3)[name]
    assert energy.smooth
    tokens = problem.space.geometry["tokens"].sample(4, torch.Generator().manual_seed(0), torch.float64)
    owner = torch.tensor([0, 2, 1, 2])
    assert torch.autograd.gradcheck(lambda leaf: energy.at(Tokens(leaf), owner), (tokens.requires_grad_(True),))


@pytest.mark.parametrize("name", NAMES)
def test_all_ways_to_an_energy_agree(problem, name):
    energy, batch = smooth_energies(problem, 5)[name], problem.candidates.batch
    candidates = Candidates(batch, problem.candidates.embeddings, surrogate=problem.surrogate)
    table = energy.among(candidates)
    owner = torch.arange(5).repeat_interleave(len(batch))
    every = batch[torch.arange(len(batch)).repeat(5)]
    torch.testing.assert_close(energy.of(every, owner).view(5, -1), table)
    torch.testing.assert_close(energy.at(problem.space.relax(every), owner).view(5, -1), table)
    torch.testing.assert_close(Energy.among(energy, candidates), table)
    rows = torch.tensor([3, 1])
    torch.testing.assert_close(energy[rows].among(candidates), table[rows])
    torch.testing.assert_close(energy[1:4].among(candidates[2:9]), table[1:4, 2:9])
    assert len(energy[1:4]) == 3
    assert torch.equal(energy[rows].identities(), energy.identities()[rows])
    assert len(energy.identities().unique()) == 5


@pytest.mark.parametrize("name", NAMES)
def test_every_decoder_takes_it(problem, name):
    energy = smooth_energies(problem, 12)[name]
    own = dataclasses.replace(problem.candidates, surrogate=problem.surrogate)
    asked = dataclasses.replace(problem, candidates=own)
    best = CandidatesDecoder().decode(energy, asked, context=Context())
    for decoder in (SearchDecoder(), GradientDecoder(), GradientDecoder(GradientDecoder.Config(start="random"))):
        decoder.accepts(energy)
        found = decoder.decode(energy, asked, context=Context())
        torch.testing.assert_close(found.energies[:, 0], energy.of(found.best))
    for decoder in (SearchDecoder(), GradientDecoder()):
        found = decoder.decode(energy, asked, context=Context())
        assert (found.energies <= best.energies + 1e-6).all()
        assert found.energies.mean() < 0.7 * best.energies.mean()


# -- sums ----------------------------------------------------------------------------------------------------------


def test_terms_of_another_surrogate_embed_the_candidates_once(problem, monkeypatch):
    other = other_surrogate(problem)
    candidates = dataclasses.replace(problem.candidates, surrogate=problem.surrogate)
    queries = random_sequences(problem.space, 4, seed=2)
    energy = SumOfEnergies([p.energy(p.embed(queries)) for p in (problem.surrogate, other)], [1.0, 1.0])
    first = energy.among(candidates)
    monkeypatch.setattr(LinearSurrogate, "embed", None)  # calling it would fail
    assert torch.equal(energy.among(candidates), first)
    torch.testing.assert_close(energy.among(candidates[:5]), first[:, :5])


def test_the_estimate_of_a_sum_adds_up_those_of_its_terms(base, graphs):
    wide = PartsSurrogate(PartsSurrogate.Config(dim=2 * DIM), base.space)
    wide.fit(outputs_only(graphs, graphs[:5]), Context())
    batch, features = graphs[:6], base.space.features(graphs[10:16])
    first, second = (p.energy(p.embed(graphs[20:26])) for p in (base, wide))
    blind = LinearSurrogate(LinearSurrogate.Config(dim=5), base.space)
    third = blind.energy(blind.embed(graphs[20:26]))
    found = SumOfEnergies([first, second, third], [0.5, 2.0, 1.0]).near(batch)
    expected = 0.5 * first.near(batch).of(features) + 2 * second.near(batch).of(features)
    torch.testing.assert_close(found.of(features), expected, rtol=1e-4, atol=1e-4)
    assert SumOfEnergies([third], [1.0]).near(batch) is None


def test_a_sum_with_a_term_without_a_gradient_has_none(problem, base, graphs):
    structures = random_sequences(problem.space, 2)
    smooth = problem.energy(problem.surrogate.embed(structures))
    assert not SumOfEnergies([smooth, base.energy(base.embed(graphs[:2]))], [1.0, 1.0]).smooth


@pytest.mark.parametrize("terms", [0, 1, 2])
def test_terms_that_do_not_go_together_are_refused(problem, terms):
    energy = problem.energy(random_queries(problem, 3))
    given = {0: ([], []), 1: ([energy], [1.0, 2.0]), 2: ([energy, energy[:2]], [1.0, 2.0])}[terms]
    with pytest.raises(ValueError, match="as many queries each"):
        SumOfEnergies(*given)


def test_fitted_weights_beat_each_term_and_ignore_noise(problem):
    """Of two embeddings each sees one half of the places; a third term knows nothing."""
    space, truths = problem.space, random_sequences(problem.space, 60, seed=7)
    half = [LinearSurrogate(LinearSurrogate.Config(dim=12), space) for _ in range(3)]
    rows = half[0].weights.shape[0]
    for number, each in enumerate(half[:2]):
        seen = (torch.arange(rows) < rows // 2) == (number == 0)
        each.restore({"weights": each.weights * seen[:, None] * (1 if number == 0 else 20)})
    generator = torch.Generator().manual_seed(0)
    queries = [each.embed(truths) for each in half]
    queries[2] = queries[2][torch.randperm(len(truths), generator=generator)]
    noisy = [q + 0.1 * q.std() * torch.randn(q.shape, generator=generator, dtype=q.dtype) for q in queries]
    terms = [each.energy(q) for each, q in zip(half, noisy, strict=True)]
    candidates = Candidates(problem.candidates.batch, half[0].embed(problem.candidates.batch), surrogate=half[0])
    weights = fit_weights([term[:30] for term in terms], truths[:30], Problem(space, candidates))
    assert all(weight >= 0 for weight in weights)
    assert weights[0] > 5 * weights[1] > 0, "the second term is twenty times as long"
    known = Problem(space, dataclasses.replace(candidates, others={}))

    def exact(energy: Energy) -> float:
        found = SearchDecoder().decode(energy, known, context=Context())
        return (space.keys(found.best) == space.keys(truths[30:])).all(dim=1).float().mean().item()

    alone = [exact(term[30:]) for term in terms]
    assert exact(SumOfEnergies([term[30:] for term in terms], weights)) > max(alone) + 0.2
    assert (
        weights[2] * terms[2].of(truths).mean()
        < 0.2 * weights[0] * terms[0].of(truths.map(lambda t: t.roll(1, 0))).mean()
    )


def test_rivals_are_other_structures_each_once(problem):
    truths = random_sequences(problem.space, 8, seed=7)
    rivals, owner = rivals_of([problem.energy(problem.surrogate.embed(truths))], truths, problem)
    keys = problem.space.keys(rivals)
    assert (keys != problem.space.keys(truths)[owner]).any(dim=1).all()
    assert len(torch.cat([owner[:, None], keys], dim=1).unique(dim=0)) == len(owner)
    assert owner.bincount(minlength=8).max() <= 3 * RIVALS
