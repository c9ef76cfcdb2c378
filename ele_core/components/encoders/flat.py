"""The generic encoder: an MLP on flattened points, so that an output space can be trained without its own encoder."""

from __future__ import annotations

import math
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn

from ele_core.component import ComponentConfig
from ele_core.interfaces import Encoder, OutputSpace
from ele_core.types import MOST_LAYERS


class FlatEncoder(Encoder):
    """An MLP on the concatenated relaxed fields of a point. Does not use any symmetries of the structures."""

    class Config(ComponentConfig):
        """Options of the MLP."""

        width: int = Field(256, ge=1)
        """The number of units of each hidden layer."""
        layers: int = Field(2, ge=1, le=MOST_LAYERS)
        """The number of hidden layers."""

    config: Config

    def __init__(self, config: ComponentConfig | None, space: OutputSpace[Any, Any], dim: int) -> None:
        super().__init__(config, space, dim)
        self.fields = tuple(space.geometry)
        size = sum(math.prod(convex.point_shape) for convex in space.geometry.values())
        layers: list[nn.Module] = []
        for _ in range(self.config.layers):
            layers += [nn.Linear(size, self.config.width), nn.LayerNorm(self.config.width), nn.GELU()]
            size = self.config.width
        self.network = nn.Sequential(*layers, nn.Linear(size, dim))

    def forward(self, point: Any) -> Tensor:
        """A point of B structures → (B, dim)."""
        flat = [getattr(point, field).flatten(start_dim=1) for field in self.fields]
        return self.network(torch.cat(flat, dim=1))  # type: ignore[no-any-return]
