"""`contexts`: a sum over positions of smooth features of tokens, their neighbours and their places."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ele_core import ComponentConfig, ConfigError, OutputSpace
from ele_core.components.encoders.additive import AdditiveEncoder
from ele_sequences.features import BLUR, LENGTH
from ele_sequences.space import SequenceSpace, Tokens

OFFSETS = ((0,), (-1, 0), (-1, 0, 1), (0,), (0,))
"""The positions that each kind of context reads; the last two also read the place from the start, and from the end."""
WEIGHTS = (1.0, 0.7, 0.4, 1.0, 1.0)
"""The weights of the kinds: pairs are fewer than tokens, and triples rarer still."""
FROM_START, FROM_END = 3, 4


class ContextEncoder(AdditiveEncoder):
    """ψ(y) = Σ_k w_k Σ_i √2 cos(s c_i^k W_k + b_k) + features of the length, divided by √dim.

    c_i^k is what is around position i: the token, it and the one before, it and both neighbours, or it and its place
    from the start or from the end, in which nearby places are similar.
    """

    class Config(AdditiveEncoder.Config):
        """How finely contexts are told apart."""

    config: Config

    def __init__(self, config: ComponentConfig | None, space: OutputSpace[Any, Any], dim: int) -> None:
        super().__init__(config, space, dim)
        self.length, self.symbols = space.geometry["tokens"].point_shape
        # one row for each symbol, 0 is nothing, and one for the start
        self.directions = nn.ParameterList(
            nn.Parameter(torch.randn(len(offsets), self.symbols + 1, dim)) for offsets in OFFSETS
        )
        self.phases = self.random_phases(len(OFFSETS), dim)
        self.places = nn.Parameter(torch.randn(2, dim) / BLUR)
        self.weights = nn.Parameter(torch.tensor(WEIGHTS))
        self.length_direction, self.length_phase = nn.Parameter(torch.randn(dim)), self.random_phases(dim)

    @classmethod
    def accepts(cls, space: OutputSpace[Any, Any]) -> None:
        if not isinstance(space, SequenceSpace):
            what = f"encoder 'contexts' reads sequences, not {type(space).__name__}."
            raise ConfigError(what, where="surrogate.encoder", fix="Use the encoder 'blocks' for any space.")

    def forward(self, point: Tokens) -> Tensor:
        """Relaxed positions (B, L, V) → (B, dim)."""
        tokens = point.tokens
        real = 1 - tokens[..., 0]
        around = functional.pad(tokens, (0, 1, 1, 1))
        around = around + self._margins(around)
        place = real.cumsum(dim=1) - 1
        total = self._lengths(real.sum(dim=1))
        for kind, offsets in enumerate(OFFSETS):
            read = [around[:, 1 + offset : 1 + offset + tokens.shape[1]] for offset in offsets]
            each = zip(read, self.directions[kind], strict=True)
            directions = torch.stack([own @ weight for own, weight in each]).sum(dim=0)
            phases = self.phases[kind] + self._places(kind, place, real.sum(dim=1, keepdim=True))
            features = self.waves(directions, phases)
            total = total + self.weights[kind] * torch.einsum("bi,bid->bd", real, features)
        return total / math.sqrt(self.dim)

    def encode(self, batch: Tokens) -> Tensor:
        """`forward` of discrete sequences, which computes every context once; the same up to rounding."""
        tokens = batch.tokens.long()
        real, table = tokens > 0, self.table()
        row, position = real.nonzero(as_tuple=True)
        around = functional.pad(tokens, (1, 1))
        around[:, 0] = self.symbols
        lengths = real.sum(dim=1)
        ends = functional.pad(lengths.cumsum(0), (1, 0))
        place = (real.cumsum(dim=1) - 1)[row, position]
        total = self._lengths(lengths.float())
        for kind, offsets in enumerate(OFFSETS):
            read = torch.stack([around[row, position + 1 + offset] for offset in offsets], dim=1)
            where = {FROM_START: place, FROM_END: lengths[row] - 1 - place}.get(kind, torch.zeros_like(place))
            keys = where
            for symbol in read.unbind(dim=1):
                keys = keys * (self.symbols + 1) + symbol

            def compute(first: Tensor, kind: int = kind, read: Tensor = read) -> tuple[Tensor, ...]:
                each = zip(read[first].unbind(dim=1), self.directions[kind], strict=True)
                directions = torch.stack([weight[own] for own, weight in each]).sum(dim=0)
                phases = self.phases[kind] + self._places(kind, place[first].float(), lengths[row[first]].float())
                both = torch.cat([directions, phases.expand_as(directions)], dim=1)
                return self.in_blocks(lambda some: (self.waves(*some.chunk(2, dim=1)),), both)

            known = table.rows(kind, keys, compute)
            features = table.values[kind][0]
            pooled = functional.embedding_bag(known, features, ends, mode="sum", include_last_offset=True)
            total = total + self.weights[kind] * pooled
        return total / math.sqrt(self.dim)

    def _margins(self, around: Tensor) -> Tensor:
        """The start before the first position, and nothing after the last one, as (L + 2, V + 1) to add."""
        margins = torch.zeros(around.shape[1:], dtype=around.dtype, device=around.device)
        margins[0, self.symbols] = 1
        margins[-1, 0] = 1
        return margins

    def _places(self, kind: int, place: Tensor, length: Tensor) -> Tensor:
        """What the place adds to the phases of contexts: (…, dim), or a zero."""
        if kind == FROM_START:
            return place[..., None] * self.places[0]
        return (length - 1 - place)[..., None] * self.places[1] if kind == FROM_END else place.new_zeros(())

    def _lengths(self, lengths: Tensor) -> Tensor:
        """Features of the length: (B,) → (B, dim)."""
        waves = torch.cos(lengths[:, None] * self.length_direction + self.length_phase)
        return LENGTH * math.sqrt(2) * waves
