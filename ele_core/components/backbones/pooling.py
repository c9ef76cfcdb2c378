"""Shared parts of the text backbones: the check of their input, token embeddings, pooling over tokens, the head."""

from __future__ import annotations

from typing import Any, Literal, Protocol, cast

import torch
from torch import Tensor, nn

from ele_core.components.inputs.text import PADDING, UNKNOWN, Texts
from ele_core.interfaces import InputSpace
from ele_core.networks import require_batches

Pooling = Literal["sum-max", "sum", "mean", "max", "additive"]
"""How the vectors of a text's tokens become one; results of names joined by a hyphen are concatenated.

`additive` sums after the head's hidden layer instead of before it: the output is a sum of contributions of tokens. Use
it where embeddings add up parts of the output (surrogate `parts`).
"""


class TextSpace(Protocol):
    """What a text backbone needs from its input space, besides batches of `Texts`."""

    @property
    def vocabulary_size(self) -> int:
        """The number of different tokens, padding and unknown among them."""

    @property
    def max_length(self) -> int:
        """Maximum number of tokens in a text."""


def text_space(inputs: InputSpace[Any]) -> TextSpace:
    """Cast `inputs` to the type of a space that packs `Texts`; call `require_texts` first."""
    return cast(TextSpace, inputs)


def require_texts(backbone: str, inputs: InputSpace[Any]) -> None:
    """Raise `ConfigError` unless the batches of `inputs` (its attribute `Batch`) are `Texts`."""
    require_batches(backbone, inputs, Texts, "texts (input 'text')")


def token_embedding(vocabulary_size: int, width: int) -> nn.Embedding:
    """Token numbers → vectors of `width`; padding is zero, as are unknown tokens until one occurs in training."""
    embedding = nn.Embedding(vocabulary_size, width, padding_idx=PADDING)
    with torch.no_grad():
        embedding.weight[UNKNOWN] = 0
    return embedding


def pool(vectors: Tensor, mask: Tensor, pooling: Pooling) -> Tensor:
    """Vectors of tokens (B, L, D) → (B, `pooled_width`), over the tokens where `mask` (B, L) is True."""
    return torch.cat([_POOLS[name](vectors, mask[:, :, None]) for name in pooling.split("-")], dim=1)


def spans(vectors: Tensor, mask: Tensor, count: int) -> Tensor:
    """The means of vectors (B, L, D) over `count` equal spans of those where `mask` (B, L) is True: (B, count, D).

    Spans of fewer than `count` vectors overlap. The vectors where `mask` is True come first.
    """
    lengths, span = mask.sum(dim=1)[:, None], torch.arange(count, device=mask.device)
    first, end = span * lengths // count, ((span + 1) * lengths + count - 1) // count
    place = torch.arange(mask.shape[1], device=mask.device)
    inside = ((place >= first[:, :, None]) & (place < end[:, :, None])).to(vectors.dtype)
    return inside @ vectors / (end - first).clamp(min=1)[:, :, None]


def pooled_width(width: int, pooling: Pooling) -> int:
    """The width after `pool` of vectors of `width`."""
    return width * len(pooling.split("-"))


def head(width: int, hidden: int, dim: int) -> nn.Sequential:
    """Pooled vectors (B, width) → (B, dim). Without a norm, because the scale of a sum shows the number of tokens."""
    return nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, dim))


class Head(nn.ModuleList):
    """Vectors of tokens (B, L, token_width) → (B, dim): pooling, and two linear layers with `width` features between.

    With pooling `additive` the first layer, twice as wide, is at each token, and the second follows the sum.
    """

    def __init__(self, token_width: int, width: int, dim: int, pooling: Pooling) -> None:
        hidden = 2 * width if pooling == "additive" else width
        super().__init__(head(pooled_width(token_width, pooling), hidden, dim))
        self.pooling = pooling

    def forward(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """Vectors of tokens (B, L, token_width), pooled where `mask` (B, L) is True → (B, dim)."""
        first, activation, last = self
        if self.pooling == "additive":
            outputs: Tensor = last(pool(activation(first(vectors)), mask, "sum"))
        else:
            outputs = last(activation(first(pool(vectors, mask, self.pooling))))
        return outputs


def _sum(vectors: Tensor, mask: Tensor) -> Tensor:
    return (vectors * mask).sum(dim=1)


def _mean(vectors: Tensor, mask: Tensor) -> Tensor:
    return _sum(vectors, mask) / mask.sum(dim=1)


def _max(vectors: Tensor, mask: Tensor) -> Tensor:
    return vectors.masked_fill(~mask, -torch.inf).amax(dim=1)


_POOLS = {"sum": _sum, "mean": _mean, "max": _max}
