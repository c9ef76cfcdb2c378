"""A bidirectional GRU over tokens: the backbone that learns most per CPU second."""

from __future__ import annotations

from typing import Any

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from ele_core.component import ComponentConfig
from ele_core.components.backbones.pooling import Head, Pooling, require_texts, text_space, token_embedding
from ele_core.components.inputs.text import Texts
from ele_core.interfaces import InputSpace
from ele_core.networks import Backbone
from ele_core.types import MOST_LAYERS


class GRUBackbone(Backbone):
    """Token embeddings, bidirectional GRU layers, pooling over the tokens, and a head of two linear layers.

    The result does not depend on the padding, nor on the other texts of the batch.
    """

    class Config(ComponentConfig):
        """The size of the network."""

        embedding: PositiveInt = 128
        """The width of a token's embedding."""
        layers: int = Field(default=2, ge=1, le=MOST_LAYERS)
        """The number of bidirectional layers."""
        width: PositiveInt = 256
        """The width of each direction's state, and of the head, which is twice as wide with pooling `additive`."""
        dropout: float = Field(default=0.0, ge=0, lt=1)
        """The share of features dropped before each layer during training."""
        pooling: Pooling = "sum-max"
        """How the states at all tokens become one vector; `sum-max` concatenates their sum and their maximum.
        `additive` sums after the head's hidden layer, so each token adds its contribution to the output: for
        embeddings that add up parts (surrogate `parts`)."""

    config: Config

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], dim: int) -> None:
        super().__init__(config, inputs, dim)
        options = self.config
        self.embedding = token_embedding(text_space(inputs).vocabulary_size, options.embedding)
        widths = [options.embedding] + [2 * options.width] * (options.layers - 1)
        self.layers = nn.ModuleList(BidirectionalLayer(width, options.width) for width in widths)
        self.dropout = nn.Dropout(options.dropout)
        self.head = Head(2 * options.width, options.width, dim, options.pooling)

    @classmethod
    def accepts(cls, inputs: InputSpace[Any]) -> None:
        """Accept any input space whose batches are `Texts`."""
        require_texts("gru", inputs)

    def forward(self, batch: Texts) -> Tensor:
        """Texts → (B, dim)."""
        return self.attended(batch)[0]

    @property
    def state_width(self) -> int:
        """Both directions."""
        return 2 * self.config.width

    def attended(self, batch: Texts) -> tuple[Tensor, Tensor, Tensor]:
        """The output, and the states at all tokens."""
        batch = batch.trimmed()
        if len(batch) == 0:  # torch's GRU does not accept an empty batch
            empty = self.embedding.weight.new_zeros
            return empty(0, self.dim), empty(0, 1, self.state_width), batch.mask
        states = self.embedding(batch.tokens.int())
        reversal = reversed_positions(batch)
        for layer in self.layers:
            states = layer(self.dropout(states), reversal)
        return self.head(states, batch.mask), states, batch.mask


class BidirectionalLayer(nn.Module):
    """A GRU that starts at the first token and one that starts at the last: (B, L, input) → (B, L, 2 * width).

    The second reads each text reversed within its own length, so padding comes last for both and affects no valid
    state. On length-bucketed batches this took 5 to 20 % less CPU time than packed sequences.
    """

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__()
        self.forwards = nn.GRU(input_width, width, batch_first=True)
        self.backwards = nn.GRU(input_width, width, batch_first=True)

    def forward(self, vectors: Tensor, reversal: Tensor) -> Tensor:
        """Vectors (B, L, input) and `reversed_positions` (B, L) → states (B, L, 2 * width)."""
        onward, _ = self.forwards(vectors)
        returning, _ = self.backwards(_reordered(vectors, reversal))
        return torch.cat([onward, _reordered(returning, reversal)], dim=2)


def reversed_positions(batch: Texts) -> Tensor:
    """(B, L) positions that reverse each text and leave its padding in place: l-1, …, 0, l, …, L-1; its own inverse."""
    positions = torch.arange(batch.tokens.shape[1], device=batch.device)
    return torch.where(batch.mask, batch.lengths[:, None] - 1 - positions, positions)


def _reordered(vectors: Tensor, positions: Tensor) -> Tensor:
    return vectors.gather(1, positions[:, :, None].expand_as(vectors))
