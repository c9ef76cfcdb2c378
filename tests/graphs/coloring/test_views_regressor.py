"""The regressor of `coloring`: predictions are averaged over the flips and rotations that training draws."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from linear import sequence_space
from torch.nn import functional

from ele_core.components.inputs.image import ImageInput
from ele_core.testing import LinearSurrogate
from ele_graphs.coloring.regressor import ViewsRegressor, views


def pictures(count: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, 4, 4, 3), dtype=np.uint8)


def fitted(picture: np.ndarray, flips: bool, rotations: bool) -> ImageInput:
    inputs = ImageInput(ImageInput.Config(flips=flips, rotations=rotations))
    inputs.fit([picture])
    return inputs


@pytest.mark.parametrize(("flips", "rotations", "count"), [(0, 0, 1), (1, 0, 4), (0, 1, 4), (1, 1, 8)])
def test_views_are_those_that_training_draws_each_once_and_the_picture_itself_first(flips, rotations, count) -> None:
    picture = pictures(1)[0]
    inputs = fitted(picture, bool(flips), bool(rotations))
    batch = inputs.pack([picture] * 200)
    found = views(batch[:1], bool(flips), bool(rotations))
    assert len(found) == count
    assert torch.equal(found[0].pixels, batch.pixels[:1])
    drawn = inputs.augment(batch, torch.Generator().manual_seed(0))
    assert {view.pixels.numpy().tobytes() for view in found} == {each.tobytes() for each in drawn.pixels.numpy()}
    assert len({view.pixels.numpy().tobytes() for view in found}) == count


@pytest.mark.parametrize("spherical", [False, True])
def test_predictions_are_averaged_over_views_and_normalised_again(spherical) -> None:
    inputs = fitted(pictures(1)[0], flips=True, rotations=True)
    surrogate = LinearSurrogate(LinearSurrogate.Config(dim=5), sequence_space())
    surrogate.spherical = spherical
    torch.manual_seed(0)
    backbone = {"name": "convolution", "widths": [8], "blocks": [1]}
    made = ViewsRegressor(ViewsRegressor.Config(backbone=backbone), inputs, surrogate)
    batch = inputs.pack(list(pictures(3)))
    alone = made._predict(batch)
    mean = sum(made._predict(view) for view in views(batch, True, True)) / 8
    assert not torch.allclose(made.predict(batch), alone)
    expected = functional.normalize(mean, dim=1) if spherical else mean
    assert torch.allclose(made.predict(batch), expected, atol=1e-6)
    for view in views(batch, True, True):
        assert torch.allclose(made.predict(view), made.predict(batch), atol=1e-5), "all views have one prediction"
