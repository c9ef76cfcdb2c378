"""Weighted energies: they agree with each other, guide `search`, and are saved with the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from linear import random_sequences, sequence_space
from torch import Tensor

from ele_core import StructuredPredictor
from ele_core.components.decoders.search import SearchDecoder
from ele_core.components.surrogates.parts import PartsSurrogate
from ele_core.components.surrogates.weighted import WeightedSurrogate
from ele_core.numerics.error_model import ErrorModel
from ele_core.runtime.context import Context
from ele_core.types import Candidates, Choice, Problem
from ele_graphs.coloring.pictures import draw_block
from ele_graphs.coloring.space import CellGraphSpace
from ele_graphs.graphs.batch import Graphs

DIM = 256


@pytest.fixture(scope="module")
def graphs() -> Graphs:
    import numpy as np

    drawn = draw_block(6, np.random.default_rng(0))
    return Graphs(torch.from_numpy(drawn.nodes), torch.from_numpy(drawn.edges))


@pytest.fixture(scope="module")
def base(graphs: Graphs) -> PartsSurrogate:
    made = PartsSurrogate(PartsSurrogate.Config(dim=DIM), CellGraphSpace(CellGraphSpace.Config(max_nodes=6)))
    made.fit(graphs, graphs[:5], None, Context())
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
def weighted(base: PartsSurrogate, graphs: Graphs) -> WeightedSurrogate:
    embeddings = base.embed(graphs)
    return WeightedSurrogate(base, ErrorModel(DIM).fit(unsure(embeddings)[100:], embeddings[100:]))


def test_the_energies_of_one_and_of_all_agree(weighted, graphs):
    embeddings = weighted.embed(graphs[:20])
    queries = unsure(embeddings)
    every = weighted.energies(queries, embeddings)
    torch.testing.assert_close(weighted.energy(queries, graphs[:20]), every.diagonal(), rtol=1e-3, atol=1e-4)


def test_search_finds_what_the_plain_energies_miss(base, weighted, graphs):
    queries = unsure(base.embed(graphs))[:60]
    keys = base.space.keys(graphs[:60])
    found = {}
    for name, surrogate in (("plain", base), ("weighted", weighted)):
        problem = Problem(base.space, surrogate, Candidates(graphs[500:600], base.embed(graphs[500:600])))
        decoded = SearchDecoder(SearchDecoder.Config(width=4)).decode(queries, problem, context=Context())
        found[name] = (base.space.keys(decoded.best) == keys).all(dim=1).float().mean().item()
    assert found["weighted"] > found["plain"] + 0.4


def fitted(pairs: Any, tiny: dict[str, Any]) -> StructuredPredictor:
    sections = {**tiny, "regressor": {**tiny["regressor"], "weigh_errors": True}}
    return StructuredPredictor("sequence", **sections, decoder="search").fit(*pairs, validation=20)


def test_a_regressor_weighs_its_errors_and_a_saved_model_decodes_the_same(pairs, tiny, tmp_path: Path):
    predictor = fitted(pairs, tiny)
    model = predictor.model_
    errors = model.regressor.errors
    assert not torch.equal(errors.root, torch.eye(model.surrogate.dim))
    assert isinstance(model.weighted(model.decoder(Choice(name="search"))), WeightedSurrogate)
    assert model.weighted(model.decoder(Choice(name="pgd"))) is model.surrogate, "pgd needs the gradient"
    predictor.save(tmp_path / "model")
    again = StructuredPredictor.load(tmp_path / "model")
    assert torch.equal(again.model_.regressor.errors.gain, errors.gain)
    assert again.predict(pairs[0][:5]) == predictor.predict(pairs[0][:5])


def test_the_oracle_decodes_what_is_predicted_on_average(pairs, tiny):
    model = fitted(pairs, tiny).model_
    batch = model.space.pack(pairs[1][:3])
    embeddings = model.surrogate.embed(batch)
    assert torch.equal(model.perfect_queries(batch, Choice(name="pgd")), embeddings)
    torch.testing.assert_close(model.perfect_queries(batch), model.regressor.errors.expected(embeddings))


def test_without_the_option_nothing_is_weighted(predictor):
    model = predictor.model_
    assert model.regressor.errors is None
    assert model.weighted(model.decoder(Choice(name="search"))) is model.surrogate


def test_a_surrogate_without_an_estimate_stays_without_one():
    from ele_core.testing import LinearSurrogate

    space = sequence_space()
    plain = LinearSurrogate(LinearSurrogate.Config(dim=12), space)
    made, batch = WeightedSurrogate(plain, ErrorModel(12)), random_sequences(space, 3)
    queries = plain.embed(batch)
    assert made.estimate(queries) is None
    assert made.estimate_near(queries, batch) is None
    torch.testing.assert_close(made.energy(queries.roll(1, 0), batch), plain.energy(queries.roll(1, 0), batch))
