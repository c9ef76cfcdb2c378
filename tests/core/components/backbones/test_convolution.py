"""The convolutional backbone: its laws, its pooling and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from ele_core import ConfigError
from ele_core.components.backbones.convolution import ConvolutionBackbone
from ele_core.components.inputs.image import ImageInput
from ele_core.components.inputs.vector import VectorInput
from ele_core.testing import check_backbone

Config = ConvolutionBackbone.Config
SMALL = {"widths": (8, 16), "blocks": (1, 1), "hidden": 16}


def inputs_of(*shape: int) -> ImageInput:
    inputs = ImageInput()
    inputs.fit([np.zeros(shape, np.uint8)])
    return inputs


def made(inputs: ImageInput, **options: Any) -> ConvolutionBackbone:
    torch.manual_seed(0)
    return ConvolutionBackbone(Config(**{**SMALL, **options}), inputs, 5).eval()


@pytest.mark.parametrize(("norm", "pooling"), [("group", "additive"), ("batch", "sum-max")])
def test_the_backbone_keeps_every_law(norm: str, pooling: str) -> None:
    inputs = inputs_of(8, 8, 3)
    backbone = made(inputs, norm=norm, pooling=pooling)
    assert not [result for result in check_backbone(backbone, inputs) if result.status == "failed"]


@pytest.mark.parametrize("shape", [(1, 1, 1), (7, 5, 3), (9, 4, 2), (12, 12, 4)])
def test_pictures_of_any_size_are_read(shape: tuple[int, ...]) -> None:
    inputs = inputs_of(*shape)
    pictures = inputs.pack(list(np.random.default_rng(0).integers(0, 256, (3, *shape), dtype=np.uint8)))
    found = made(inputs, patch=4)(pictures)
    assert found.shape == (3, 5)
    assert found.isfinite().all()


def test_additive_pooling_adds_up_the_contributions_of_places() -> None:
    inputs = inputs_of(4, 8, 1)
    backbone = made(inputs, widths=(8,), blocks=(0,), patch=4, pooling="additive", norm="batch")
    backbone.stages[0].weight.data[:, :, :, 0] = 0  # places do not see their neighbours
    backbone.stages[0].weight.data[:, :, :, 2] = 0
    left, right = np.random.default_rng(0).integers(0, 256, (2, 4, 4), dtype=np.uint8)
    bias = backbone.head[2].bias

    def contribution(*places: np.ndarray) -> torch.Tensor:
        return backbone(inputs.pack([np.concatenate(places, axis=1)]))[0] - bias

    both = contribution(left, right)
    assert torch.allclose(both, (contribution(left, left) + contribution(right, right)) / 2, atol=1e-5)


def test_a_backbone_without_pictures_is_refused() -> None:
    vectors = VectorInput()
    vectors.fit([[1.0, 2.0]])
    with pytest.raises(ConfigError, match="reads pictures"):
        ConvolutionBackbone(Config(), vectors, 5)


@pytest.mark.parametrize("options", [{"blocks": (1,)}, {"widths": (8, 12)}, {"blocks": (1, -1)}, {"blocks": (1, 5000)}])
def test_impossible_sizes_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Config(**{**SMALL, **options})
