"""A residual convolutional network on pictures."""

from __future__ import annotations

import math
from typing import Any, Literal, Protocol, Self, cast

import torch
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn
from torch.nn import functional

from ele_core.component import ComponentConfig
from ele_core.components.backbones.pooling import Pooling, head, pool, pooled_width
from ele_core.components.inputs.image import FULL, Pictures
from ele_core.interfaces import InputSpace
from ele_core.networks import Backbone, require_batches
from ele_core.types import MOST_LAYERS

Norm = Literal["group", "batch"]
GROUP = 8
"""Channels that a group norm normalises together."""


class PictureSpace(Protocol):
    """What the network needs from its input space, besides batches of `Pictures`."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels."""


class ConvolutionBackbone(Backbone):
    """Square patches, stages of residual blocks of two 3 × 3 convolutions, pooling over places, two linear layers.

    Each stage has half the resolution of the one before.
    """

    class Config(ComponentConfig):
        """The size of the network."""

        patch: PositiveInt = 2
        """Pixels along each side of a patch; the network begins with one vector per patch."""
        widths: tuple[PositiveInt, ...] = Field(default=(32, 64), min_length=1, max_length=8)
        """The number of features of each stage."""
        blocks: tuple[int, ...] = Field(default=(1, 3), min_length=1, max_length=8)
        """The number of residual blocks of each stage."""
        norm: Norm = "group"
        """How features are normalised: in groups of eight features of each picture, or each feature over a batch, which
        is faster."""
        pooling: Pooling = "sum-max"
        """How the vectors of places become one; `sum-max` concatenates their sum and their maximum. `additive` sums
        after the head's hidden layer, so each place adds its contribution to the output: for embeddings that add
        up parts (surrogate `parts`)."""
        hidden: PositiveInt = 256
        """The width between the two linear layers."""

        @model_validator(mode="after")
        def _check(self) -> Self:
            if len(self.widths) != len(self.blocks):
                msg = f"`widths` has {len(self.widths)} stages, but `blocks` has {len(self.blocks)}"
                raise ValueError(msg)
            if not all(0 <= count <= MOST_LAYERS for count in self.blocks):
                msg = f"`blocks` must be between 0 and {MOST_LAYERS}"
                raise ValueError(msg)
            if self.norm == "group" and any(width % GROUP for width in self.widths):
                msg = f"with norm 'group', `widths` must be multiples of {GROUP}"
                raise ValueError(msg)
            return self

    config: Config

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], dim: int) -> None:
        super().__init__(config, inputs, dim)
        options = self.config
        channels = cast(PictureSpace, inputs).shape[2] * options.patch**2
        stages: list[nn.Module] = [nn.Conv2d(channels, options.widths[0], 3, padding=1)]
        for stage, (width, count) in enumerate(zip(options.widths, options.blocks, strict=True)):
            if stage:
                stages.append(halved(options.widths[stage - 1], width, options.norm))
            stages += [Residual(width, options.norm) for _ in range(count)]
        last = options.widths[-1]
        self.stages = nn.Sequential(*stages, normed(last, options.norm))
        pooled = last if options.pooling == "additive" else pooled_width(last, options.pooling)
        self.head = head(pooled, options.hidden, dim)
        for weight in self.stages.parameters():
            if weight.dim() == 4:  # a convolution: this order is faster on a CPU
                weight.data = weight.data.contiguous(memory_format=torch.channels_last)

    @classmethod
    def accepts(cls, inputs: InputSpace[Any]) -> None:
        """Accept any input space whose batches (its attribute `Batch`) are `Pictures`."""
        require_batches("convolution", inputs, Pictures, "pictures (input 'image')")

    def forward(self, batch: Pictures) -> Tensor:
        """Pictures → (B, dim)."""
        first, activation, last = self.head
        if len(batch) == 0:  # a norm over a batch does not accept an empty one
            return torch.zeros(0, self.dim, device=batch.device)
        places = self.stages(self._patches(batch)).flatten(2).transpose(1, 2)  # (B, L, width)
        every = torch.ones(places.shape[:2], dtype=torch.bool, device=places.device)
        if self.config.pooling == "additive":
            contributions = activation(first(places))
            outputs: Tensor = last(pool(contributions, every, "sum") / math.sqrt(places.shape[1]))
        else:
            outputs = self.head(pool(places, every, self.config.pooling))
        return outputs

    def _patches(self, batch: Pictures) -> Tensor:
        """(B, H, W, C) bytes → (B, C p², H / p, W / p) floats between −1 and 1, the border repeated where needed."""
        patch = self.config.patch
        pixels = batch.pixels.permute(0, 3, 1, 2).float() * (2 / FULL) - 1
        more = [-side % patch for side in pixels.shape[2:]]
        pixels = functional.pad(pixels, (0, more[1], 0, more[0]), mode="replicate") if any(more) else pixels
        return functional.pixel_unshuffle(pixels, patch).contiguous(memory_format=torch.channels_last)


class Residual(nn.Module):
    """x + f(x), with f two 3 × 3 convolutions, each after a norm and a ReLU; f is zero at first."""

    def __init__(self, width: int, norm: Norm) -> None:
        super().__init__()
        first, second = (nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(2))
        nn.init.zeros_(second.weight)
        self.layers = nn.Sequential(
            *(nn.Sequential(normed(width, norm), nn.ReLU(), layer) for layer in (first, second))
        )

    def forward(self, features: Tensor) -> Tensor:
        """(B, width, H, W) → the same shape."""
        changed: Tensor = self.layers(features)
        return features + changed


def halved(before: int, width: int, norm: Norm) -> nn.Sequential:
    """A norm, a ReLU and a convolution that joins four neighbours; at an odd border, the last ones alone."""
    joined = nn.Conv2d(before, width, 2, stride=2)
    return nn.Sequential(normed(before, norm), nn.ReLU(), Even(), joined)


class Even(nn.Module):
    """Repeat the last line and the last column of features where their number is odd."""

    def forward(self, features: Tensor) -> Tensor:
        """(B, width, H, W) → the same with even H and W."""
        high, wide = (side % 2 for side in features.shape[2:])
        return functional.pad(features, (0, wide, 0, high), mode="replicate") if high or wide else features


def normed(width: int, norm: Norm) -> nn.Module:
    """The normalisation of features."""
    return nn.BatchNorm2d(width) if norm == "batch" else nn.GroupNorm(width // GROUP, width)
