"""The embedding that adds up parts: distances count differing parts, and the scale is all it learns."""

from __future__ import annotations

import pytest
import torch
from linear import outputs_only, random_sequences, sequence_space

from ele_core.components.surrogates import parts
from ele_core.components.surrogates.parts import PartsSurrogate
from ele_core.errors import ModelError
from ele_core.runtime.context import Context

SPACE = sequence_space(length=12, alphabet="abcdefgh")


def surrogate(dim: int = 2048) -> PartsSurrogate:
    return PartsSurrogate(PartsSurrogate.Config(dim=dim), SPACE)


def test_distances_grow_with_the_number_of_differing_parts():
    made = surrogate()
    embedded = made.embed(SPACE.pack(["abcdefgh", "abcdefga", "abcdehgb", "hgfedcba", "hhhh"]))
    distances = (embedded[1:] - embedded[0]).square().sum(dim=1)
    assert distances.tolist() == sorted(distances.tolist())
    assert distances[-1] > 5 * distances[0]


def test_squared_distances_are_almost_those_of_the_features():
    made, batch = surrogate(), random_sequences(SPACE, 30)
    features = SPACE.features(batch)
    vocabulary = features.keys.unique()
    dense = features.within(vocabulary).transposed(len(vocabulary)).T
    expected, found = torch.cdist(dense, dense).square(), torch.cdist(made.embed(batch), made.embed(batch)).square()
    apart = ~torch.eye(30, dtype=torch.bool)
    assert float((found / expected)[apart].sub(1).abs().max()) < 0.25
    assert float((found / expected)[apart].sub(1).abs().mean()) < 0.05


def test_embeddings_have_a_mean_squared_distance_of_one_from_their_mean():
    made, batch = surrogate(64), random_sequences(SPACE, 200)
    made.fit(outputs_only(batch, batch[:5]), Context())
    embedded = made.embed(batch)
    assert float((embedded - embedded.mean(dim=0)).square().sum(dim=1).mean()) == pytest.approx(1.0, rel=1e-4)


def test_outputs_that_are_all_equal_have_a_scale():
    made, batch = surrogate(16), SPACE.pack(["abc"] * 5)
    made.fit(outputs_only(batch, batch), Context())
    assert made.scale.tolist() == [1.0]


def test_the_embedding_does_not_depend_on_what_was_embedded_before(monkeypatch):
    batch = random_sequences(SPACE, 60)
    expected = surrogate(32).embed(batch)
    monkeypatch.setattr(parts, "KNOWN", 100)  # vectors are forgotten and made again
    made = surrogate(32)
    torch.testing.assert_close(torch.cat([made.embed(batch[row : row + 1]) for row in range(60)]), expected)
    assert len(made._parts) <= 100


@pytest.mark.parametrize("scale", [torch.zeros(1), torch.ones(2), torch.tensor([torch.nan]), torch.tensor([-1.0])])
def test_a_scale_that_is_not_a_positive_number_is_refused(scale):
    with pytest.raises(ModelError, match="not a positive number"):
        surrogate().restore({"scale": scale})
