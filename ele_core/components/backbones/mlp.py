"""A multilayer perceptron on vectors."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal, Protocol, cast

from pydantic import Field, PositiveInt
from torch import Tensor, nn

from ele_core.component import ComponentConfig
from ele_core.components.inputs.vector import Vectors
from ele_core.interfaces import InputSpace
from ele_core.networks import Backbone, require_batches
from ele_core.types import MOST_LAYERS


class VectorSpace(Protocol):
    """What the perceptron needs from its input space, besides batches of `Vectors`."""

    @property
    def dimension(self) -> int:
        """The number of features."""


class MLPBackbone(Backbone):
    """Linear layers, each but the last followed by a layer norm, an activation and dropout."""

    class Config(ComponentConfig):
        """The size of the network."""

        hidden: tuple[PositiveInt, ...] = Field(default=(256, 256), max_length=MOST_LAYERS)
        """The widths of the hidden layers; empty: the backbone is linear."""
        activation: Literal["gelu", "relu"] = "gelu"
        """The function between layers."""
        layer_norm: bool = True
        """Whether hidden features are normalised before the activation."""
        dropout: float = Field(default=0.0, ge=0, lt=1)
        """The share of hidden features dropped during training."""

    config: Config

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], dim: int) -> None:
        super().__init__(config, inputs, dim)
        widths = [cast(VectorSpace, inputs).dimension, *self.config.hidden]
        blocks = [self._block(*pair) for pair in pairwise(widths)]
        self.network = nn.Sequential(*blocks, nn.Linear(widths[-1], dim))

    @classmethod
    def accepts(cls, inputs: InputSpace[Any]) -> None:
        """Accept any input space whose batches (its attribute `Batch`) are `Vectors`."""
        require_batches("mlp", inputs, Vectors, "vectors (input 'vector')")

    def forward(self, batch: Vectors) -> Tensor:
        """Vectors → (B, dim)."""
        outputs: Tensor = self.network(batch.values)
        return outputs

    def _block(self, inputs: int, outputs: int) -> nn.Sequential:
        options = self.config
        return nn.Sequential(
            nn.Linear(inputs, outputs),
            nn.LayerNorm(outputs) if options.layer_norm else nn.Identity(),
            nn.GELU() if options.activation == "gelu" else nn.ReLU(),
            nn.Dropout(options.dropout),
        )
