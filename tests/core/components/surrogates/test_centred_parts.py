"""Directions of sums of parts from their mean: of norm 1, restored exactly, with an estimate that ranks structures."""

from __future__ import annotations

import pytest
import torch
from linear import outputs_only, random_sequences, sequence_space

from ele_core.components.surrogates.parts import CentredPartsSurrogate
from ele_core.errors import ModelError
from ele_core.runtime.context import Context
from ele_core.types import Candidates

SPACE = sequence_space(length=12, alphabet="abcdefgh")


def fitted(dim: int = 512) -> CentredPartsSurrogate:
    made, batch = CentredPartsSurrogate(CentredPartsSurrogate.Config(dim=dim), SPACE), random_sequences(SPACE, 200)
    made.fit(outputs_only(batch, batch[:5]), Context())
    return made


def test_embeddings_have_norm_one_and_directions_from_the_mean_cancel():
    made = fitted()
    embedded = made.embed(random_sequences(SPACE, 200))
    torch.testing.assert_close(embedded.norm(dim=1), torch.ones(200))
    assert embedded.mean(dim=0).norm() < 0.2


def test_a_weak_prediction_is_nearest_to_its_own_structure_rather_than_to_the_most_ordinary():
    made, batch = fitted(), random_sequences(SPACE, 200)
    added = made.added(batch)
    weak = torch.nn.functional.normalize(0.1 * (added - made.mean), dim=1)
    assert torch.equal(made.energy(weak).among(Candidates(batch, made.embed(batch))).argmin(dim=1), torch.arange(200))


def test_the_estimate_ranks_structures_like_the_energies():
    made, batch = fitted(), random_sequences(SPACE, 100)
    queries = made.embed(random_sequences(SPACE, 100, seed=5)) + made.embed(batch)
    queries = torch.nn.functional.normalize(queries, dim=1)
    estimated = made.energy(queries[:1].expand(100, -1)).near(batch).of(SPACE.features(batch))
    exact = made.energy(queries[:1]).among(Candidates(batch, made.embed(batch)))[0]
    ranks = torch.stack([estimated.argsort().argsort(), exact.argsort().argsort()]).double()
    assert torch.corrcoef(ranks)[0, 1] > 0.8


def test_a_restored_surrogate_embeds_the_same():
    made, fresh = fitted(32), CentredPartsSurrogate(CentredPartsSurrogate.Config(dim=32), SPACE)
    fresh.restore(made.state())
    batch = random_sequences(SPACE, 5)
    assert torch.equal(fresh.embed(batch), made.embed(batch))


def test_a_mean_of_another_shape_is_refused():
    with pytest.raises(ModelError, match="another shape"):
        fitted(32).restore({"scale": torch.ones(1), "mean": torch.zeros(5)})
