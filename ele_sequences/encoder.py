"""An encoder of relaxed sequences: convolutions over positions, with a learned vector for each position."""

from __future__ import annotations

from typing import Any

from pydantic import Field
from torch import Tensor, nn

from ele_core import ComponentConfig, ConfigError, Encoder, OutputSpace
from ele_core.types import MOST_LAYERS
from ele_sequences.space import SequenceSpace, Tokens


class SequenceEncoder(Encoder):
    """Residual convolutions over the positions, then a linear layer on all of them."""

    class Config(ComponentConfig):
        """The size of the network."""

        width: int = Field(96, ge=1)
        """Features per position."""
        layers: int = Field(2, ge=1, le=MOST_LAYERS)
        """Number of convolutions."""
        kernel: int = Field(3, ge=1)
        """Positions per convolution; odd."""

    config: Config

    def __init__(self, config: ComponentConfig | None, space: OutputSpace[Any, Any], dim: int) -> None:
        super().__init__(config, space, dim)
        length, symbols = space.geometry["tokens"].point_shape
        width, kernel = self.config.width, self.config.kernel
        self.symbols = nn.Linear(symbols, width)
        self.positions = nn.Parameter(nn.init.normal_(self.symbols.weight.new_empty(length, width)).mul_(0.1))
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Conv1d(width, width, kernel, padding="same"), nn.GELU()) for _ in range(self.config.layers)
        )
        self.output = nn.Linear(length * width, dim)

    @classmethod
    def accepts(cls, space: OutputSpace[Any, Any]) -> None:
        if not isinstance(space, SequenceSpace):
            what = f"encoder 'sequence' reads sequences, not {type(space).__name__}."
            raise ConfigError(what, where="surrogate.encoder", fix="Use the encoder 'flat' for any space.")

    def forward(self, point: Tokens) -> Tensor:
        """Relaxed positions (B, L, V) → (B, dim)."""
        features = (self.symbols(point.tokens) + self.positions).transpose(1, 2)
        for layer in self.layers:
            features = features + layer(features)
        return self.output(features.flatten(start_dim=1))  # type: ignore[no-any-return]
