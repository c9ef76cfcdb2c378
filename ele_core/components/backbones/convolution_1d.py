"""A residual convolutional network over time."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Protocol, cast

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.nn import functional

from ele_core.component import ComponentConfig
from ele_core.components.backbones.pooling import head, pool, spans
from ele_core.components.inputs.signal import Signals
from ele_core.interfaces import InputSpace
from ele_core.networks import Backbone, require_batches
from ele_core.types import MOST_LAYERS

FIRST_KERNEL, KERNEL = 7, 3
"""The times that the first convolution and all others see."""
DILATIONS = (1, 2, 4, 8)
"""The distances between the times that a residual block sees, in turn."""
MOST_HALVINGS = 20


class SignalSpace(Protocol):
    """What the network needs from its input space, besides batches of `Signals`."""

    @property
    def channels(self) -> int:
        """The number of channels."""


class Convolution1dBackbone(Backbone):
    """A convolution, others that halve the resolution, residual blocks of dilated ones, pooling, two linear layers.

    The states are those at the times that are left. Their means over equal spans of time are pooled, and their maximum.
    The result does not depend on the padding, nor on the other signals of the batch.
    """

    class Config(ComponentConfig):
        """The size of the network."""

        width: PositiveInt = 64
        """The number of features at each time."""
        halvings: int = Field(default=2, ge=0, le=MOST_HALVINGS)
        """How often the number of times is halved before the residual blocks."""
        blocks: int = Field(default=4, ge=0, le=MOST_LAYERS)
        """The number of residual blocks of two convolutions; they see further and further, then closely again."""
        spans: PositiveInt = 8
        """The number of equal spans of time whose means are pooled."""
        dropout: float = Field(default=0.0, ge=0, lt=1)
        """The share of features dropped in residual blocks and before the last layers during training."""
        hidden: PositiveInt = 256
        """The width between the two linear layers."""

    config: Config
    spread: ClassVar[bool] = True

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], dim: int) -> None:
        super().__init__(config, inputs, dim)
        options = self.config
        width = options.width
        self.first = nn.Conv1d(cast(SignalSpace, inputs).channels, width, FIRST_KERNEL, padding=FIRST_KERNEL // 2)
        self.halved = nn.ModuleList(Convolution(width, stride=2) for _ in range(options.halvings))
        distances = [DILATIONS[block % len(DILATIONS)] for block in range(options.blocks)]
        self.blocks = nn.ModuleList(Residual(width, distance, options.dropout) for distance in distances)
        self.last = nn.LayerNorm(width)
        self.place = nn.Linear(2 * PERIODS, width)
        self.dropout = nn.Dropout(options.dropout)
        self.head = head((options.spans + 1) * width, options.hidden, dim)

    @classmethod
    def accepts(cls, inputs: InputSpace[Any]) -> None:
        """Accept any input space whose batches (its attribute `Batch`) are `Signals`."""
        require_batches("convolution-1d", inputs, Signals, "signals (input 'signal')")

    def forward(self, batch: Signals) -> Tensor:
        """Signals → (B, dim)."""
        return self.attended(batch)[0]

    @property
    def state_width(self) -> int:
        """The features at each time."""
        return self.config.width

    def attended(self, batch: Signals) -> tuple[Tensor, Tensor, Tensor]:
        """The output, and the states at the times that are left, which know their place."""
        batch = batch.trimmed()
        lengths, features = batch.lengths.long(), batch.values.transpose(1, 2)
        features = self.first(features)
        for layer in self.halved:
            features, lengths = layer(features, times(lengths, features)), (lengths + 1) // 2
        mask = times(lengths, features)
        for block in self.blocks:
            features = block(features, mask)
        states, known = self.last(features.transpose(1, 2)), mask[:, 0]
        pooled = torch.cat([spans(states, known, self.config.spans).flatten(1), pool(states, known, "max")], dim=1)
        return self.head(self.dropout(pooled)), states + self.place(places(states)), known


class Convolution(nn.Module):
    """A norm of the features at each time, a GELU and a convolution."""

    def __init__(self, width: int, stride: int = 1, distance: int = 1) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.layer = nn.Conv1d(width, width, KERNEL, stride, padding=distance * (KERNEL // 2), dilation=distance)

    def forward(self, features: Tensor, mask: Tensor) -> Tensor:
        """(B, width, T), of the times where `mask` (B, 1, T) is True → (B, width, T or ⌈T / 2⌉)."""
        normed = functional.gelu(self.norm(features.transpose(1, 2))).transpose(1, 2)
        found: Tensor = self.layer(normed * mask)
        return found


class Residual(nn.Module):
    """x + f(x), with f two convolutions; f is zero at first."""

    def __init__(self, width: int, distance: int, dropout: float) -> None:
        super().__init__()
        self.before, self.after = (Convolution(width, distance=distance) for _ in range(2))
        self.dropout = nn.Dropout(dropout)
        for weight in self.after.layer.parameters():
            nn.init.zeros_(weight)

    def forward(self, features: Tensor, mask: Tensor) -> Tensor:
        """(B, width, T) → the same shape."""
        changed: Tensor = self.after(self.dropout(self.before(features, mask)), mask)
        return features + changed


def times(lengths: Tensor, features: Tensor) -> Tensor:
    """(B, 1, T) True at the times that signals (B, …, T) of these lengths have."""
    return (torch.arange(features.shape[-1], device=lengths.device) < lengths[:, None])[:, None]


PERIODS = 8
"""Waves of different periods that tell a place."""


def places(states: Tensor) -> Tensor:
    """(T, 2 · PERIODS): the sine and cosine of each time, with periods from 4 to 4 · 2^7 states."""
    time = torch.arange(states.shape[1], device=states.device, dtype=states.dtype)
    periods = 4 * 2.0 ** torch.arange(PERIODS, device=states.device, dtype=states.dtype)
    angles = 2 * math.pi * time[:, None] / periods
    return torch.cat([angles.sin(), angles.cos()], dim=1)
