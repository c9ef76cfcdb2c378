"""A Transformer encoder over tokens: the backbone of the paper."""

from __future__ import annotations

import math
from typing import Any, Literal, Self

import torch
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor, nn

from ele_core.component import ComponentConfig
from ele_core.components.backbones.pooling import Head, Pooling, require_texts, text_space, token_embedding
from ele_core.components.inputs.text import Texts
from ele_core.interfaces import InputSpace
from ele_core.networks import Backbone
from ele_core.types import MOST_LAYERS


class TransformerBackbone(Backbone):
    """Token embeddings with positions, self-attention layers, pooling over the tokens, and a head of two linear layers.

    Padding is masked: the result does not depend on it, nor on the other texts of the batch.
    """

    class Config(ComponentConfig):
        """The size of the network."""

        layers: int = Field(default=4, ge=1, le=MOST_LAYERS)
        """The number of attention layers."""
        width: PositiveInt = 128
        """The width of a token's vector, a multiple of `heads`; the feed-forward layers are four times as wide."""
        heads: PositiveInt = 4
        """The number of attention heads."""
        dropout: float = Field(default=0.0, ge=0, lt=1)
        """The share of features and attention weights dropped during training."""
        positions: Literal["learned", "sinusoidal"] = "learned"
        """How positions are encoded: a learned vector for each, or sines and cosines of fixed wavelengths."""
        pooling: Pooling | Literal["cls"] = "sum-max"
        """How the tokens' vectors become one; `sum-max` concatenates their sum and their maximum, `cls` takes the
        vector of a learned token put before each text. `additive` sums after the head's hidden layer, so each
        token adds its contribution to the output: for embeddings that add up parts (surrogate `parts`)."""

        @model_validator(mode="after")
        def _check_heads(self) -> Self:
            if self.width % self.heads or self.width % 2:
                msg = f"`width` {self.width} must be even and a multiple of `heads` {self.heads}"
                raise ValueError(msg)
            return self

    config: Config

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], dim: int) -> None:
        super().__init__(config, inputs, dim)
        options, width, space = self.config, self.config.width, text_space(inputs)
        self.embedding = token_embedding(space.vocabulary_size, width)
        table = sinusoids(space.max_length, width)
        if options.positions == "learned":
            self.positions: Tensor = nn.Parameter(torch.randn_like(table))
        else:
            self.register_buffer("positions", table, persistent=False)
        self.summary = nn.Parameter(torch.randn(width)) if options.pooling == "cls" else None
        self.layers = attention_layers(options.layers, width, options.heads, 4 * width, options.dropout)
        self.norm = nn.LayerNorm(width)
        self.head = Head(width, width, dim, "sum" if options.pooling == "cls" else options.pooling)

    @classmethod
    def accepts(cls, inputs: InputSpace[Any]) -> None:
        """Accept any input space whose batches are `Texts`."""
        require_texts("transformer", inputs)

    def forward(self, batch: Texts) -> Tensor:
        """Texts → (B, dim)."""
        return self.attended(batch)[0]

    @property
    def state_width(self) -> int:
        """The width of a token's vector."""
        return self.config.width

    def attended(self, batch: Texts) -> tuple[Tensor, Tensor, Tensor]:
        """The output, and the vectors of all tokens."""
        batch = batch.trimmed()
        mask = batch.mask
        if len(batch) == 0:  # attention does not accept an empty batch
            empty = self.embedding.weight.new_zeros
            return empty(0, self.dim), empty(0, 1, self.state_width), mask
        vectors = self.embedding(batch.tokens.int()) + self.positions[: mask.shape[1]]
        if self.summary is not None:
            vectors = torch.cat([self.summary.expand(len(batch), 1, -1), vectors], dim=1)
            mask = nn.functional.pad(mask, (1, 0), value=True)
        for layer in self.layers:
            vectors = layer(vectors, src_key_padding_mask=~mask)
        read = 1 if self.summary is not None else mask.shape[1]  # of `cls`, only the vector of the learned token
        vectors, own = self.norm(vectors), 0 if self.summary is None else 1
        return self.head(vectors[:, :read], mask[:, :read]), vectors[:, own:], mask[:, own:]


def sinusoids(length: int, width: int) -> Tensor:
    """(length, width): sin(p / 10000^(2i/width)) in column 2i, the cosine in column 2i+1 (Vaswani et al. 2017)."""
    table = torch.empty(length, width)
    if table.is_meta:  # built only for its shapes: computing on such tensors imports torch's compiler
        return table
    positions = torch.arange(length)[:, None]
    frequencies = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000) / width))
    angles = positions * frequencies
    return torch.stack([angles.sin(), angles.cos()], dim=2).reshape(length, width)


def attention_layers(count: int, width: int, heads: int, hidden: int, dropout: float) -> nn.ModuleList:
    """Layers with their own initial weights: nn.TransformerEncoder would make all layers copies of one."""
    return nn.ModuleList(
        nn.TransformerEncoderLayer(width, heads, hidden, dropout, "gelu", batch_first=True, norm_first=True)
        for _ in range(count)
    )
