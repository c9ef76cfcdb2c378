"""A network on sets of numbered features: their learned vectors are summed, then residual layers follow."""

from __future__ import annotations

from typing import Any, Protocol, cast

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.nn import functional

from ele_core.component import ComponentConfig
from ele_core.components.inputs.bits import Bits
from ele_core.interfaces import InputSpace
from ele_core.networks import Backbone, require_batches
from ele_core.types import MOST_LAYERS

TYPICAL = 20
"""Features of an input for which the initial sum of their vectors has about unit variance."""


class BitsSpace(Protocol):
    """What the network needs from its input space, besides batches of `Bits`."""

    @property
    def size(self) -> int:
        """The number of features."""


class BagBackbone(Backbone):
    """x = Σ_p count_p e_p, then x ← x + B GELU(A norm(x)) in each layer, and a linear map of x.

    The sum costs as much as the features that an input has, not as many as there are. There is no norm on the way from
    the sum to the output, so a feature can add its contribution to the output; the layers learn what combinations
    of features add.
    """

    class Config(ComponentConfig):
        """The size of the network."""

        layers: int = Field(default=2, ge=0, le=MOST_LAYERS)
        """The number of residual layers; 0: the network is linear in the counts."""
        width: PositiveInt = 1024
        """The width of the vectors of features, and of the layers."""
        dropout: float = Field(default=0.0, ge=0, lt=1)
        """The share of hidden features dropped during training."""

    config: Config

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], dim: int) -> None:
        super().__init__(config, inputs, dim)
        options = self.config
        vectors = torch.randn(cast(BitsSpace, inputs).size + 1, options.width) / TYPICAL**0.5
        self.vectors = nn.Parameter(vectors)  # row 0 is padding, and not used
        self.layers = nn.Sequential(*(_Residual(options.width, options.dropout) for _ in range(options.layers)))
        self.last = nn.Linear(options.width, dim)

    @classmethod
    def accepts(cls, inputs: InputSpace[Any]) -> None:
        """Accept any input space whose batches (its attribute `Batch`) are `Bits`."""
        require_batches("bag", inputs, Bits, "sets of numbered features (input 'bits')")

    def forward(self, batch: Bits) -> Tensor:
        """Sets of features → (B, dim)."""
        summed = functional.embedding_bag(
            batch.numbers.int(),
            self.vectors,
            mode="sum",
            padding_idx=0,
            per_sample_weights=batch.counts.to(self.vectors.dtype),
        )
        outputs: Tensor = self.last(self.layers(summed))
        return outputs


class _Residual(nn.Module):
    """x + B GELU(A norm(x)), at first x itself."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.norm, self.first, self.second = nn.LayerNorm(width), nn.Linear(width, width), nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)
        nn.init.zeros_(self.second.weight)
        nn.init.zeros_(self.second.bias)

    def forward(self, vectors: Tensor) -> Tensor:
        """(B, width) → (B, width)."""
        hidden = functional.gelu(self.first(self.norm(vectors)))
        summed: Tensor = vectors + self.second(self.dropout(hidden))
        return summed
