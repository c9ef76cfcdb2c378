"""An embedding of phonemes place by place, whose energy is a cross-entropy: queries are log-odds of tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from ele_core import ComponentConfig, ConfigError, Context, OutputSpace, Surrogate, mix
from ele_sequences.g2p.space import PhonemeSpace
from ele_sequences.space import Tokens

CHUNK = 1024
"""Sequences embedded at once: bounds the memory."""
COMPARED = 32
"""Queries compared with all candidates at once."""
SURE = 20.0
"""The log-odds of the token that an embedded sequence has at a place: those of a query that is sure of it."""
NOTHING = 10.0
"""Added to the log-odds of 'nothing here': a block of zeros says that the sequence has ended."""


class AlignedOdds(Surrogate):
    """ψ(y): for each place the token y has there, and the token with the phoneme before it. Nothing is learned.

    The block of a place i is `SURE` at its token t and 0 at others, then a fixed random vector r(t, p) of norm 1 for
    the token and the phoneme p before it. A query has the same coordinates, and gives each token the log-odds
    s_i(t | p) = q_i[t] + ⟨q_i[rest], r(t, p)⟩. The energy of y is the cross-entropy −Σ_i log softmax s_i(· | p_i)[y_i]:
    least for a query that is sure of y, as the squared distance is, but wrong tokens that are very unlikely already
    cost nothing more.
    """

    spherical = False

    class Config(ComponentConfig):
        """The size of the embedding."""

        pairs: int = Field(64, ge=0, le=1 << 12)
        """The numbers of a place for tokens with the phoneme before them; 0: a token does not depend on it."""

    config: Config
    space: PhonemeSpace

    def __init__(self, config: ComponentConfig | None, space: OutputSpace[Any, Any]) -> None:
        if not isinstance(space, PhonemeSpace):
            what = f"surrogate 'aligned-odds' embeds phonemes, not {type(space).__name__}."
            raise ConfigError(what, where="surrogate", fix="Use the surrogate 'parts', or the output 'phonemes'.")
        super().__init__(config, space)

    @property
    def dim(self) -> int:
        """The dimension of the embedding."""
        return self.space.config.length * (self.symbols + self.config.pairs)

    @property
    def symbols(self) -> int:
        """The number of labels, 'nothing here' among them."""
        return len(self.space.config.alphabet) + 1

    def fit(self, outputs: Any, validation: Any, extra: Any | None, context: Context) -> None:
        """Nothing is learned."""

    def embed(self, batch: Tokens) -> Tensor:
        """Packed sequences → (B, dim)."""
        parts = batch.chunks(CHUNK) if len(batch) else [batch]
        return torch.cat([self._embed(part.tokens.long().cpu()) for part in parts]).to(batch.device)

    def energy(self, queries: Tensor, batch: Tokens) -> Tensor:
        """The cross-entropy of sequence i under query i: (B,)."""
        tokens = batch.tokens.long().to(queries.device)
        blocks = self.blocks(queries)
        some = (tokens > 0) | (blocks != 0).any(dim=2)
        odds = self.odds(blocks[some], self.before(tokens)[some])
        costs = queries.new_full(tokens.shape, math.log1p((self.symbols - 1) * math.exp(-NOTHING)))
        costs[some] = torch.nn.functional.cross_entropy(odds, tokens[some], reduction="none")
        return costs.sum(dim=1)

    def energies(self, queries: Tensor, embeddings: Tensor) -> Tensor:
        """The energy of every embedded sequence for every query: (B, dim), (N, dim) → (B, N)."""
        tokens = self.blocks(embeddings)[:, :, : self.symbols].argmax(dim=2)  # a place after the end is all zeros: 0
        index = self.before(tokens) * self.symbols + tokens
        found = [self._every(self.blocks(some), index) for some in queries.split(COMPARED)]
        return torch.cat(found) if found else queries.new_zeros(0, len(embeddings))

    def state(self) -> dict[str, Tensor]:
        """Nothing."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Nothing is restored."""

    def blocks(self, queries: Tensor) -> Tensor:
        """Queries (B, dim) → the block of each place (B, L, numbers)."""
        return queries.view(len(queries), self.space.config.length, -1)

    def odds(self, blocks: Tensor, before: Tensor) -> Tensor:
        """The log-odds of all labels at some places, after the phonemes `before` (M,): (M, numbers) → (M, labels)."""
        alone, rest = blocks[:, : self.symbols], blocks[:, self.symbols :]
        alone = alone + alone.new_tensor([NOTHING] + [0.0] * (self.symbols - 1))
        if not self.config.pairs:
            return alone
        sizes = before.bincount(minlength=self.symbols).tolist()
        order = before.argsort(stable=True)
        groups = zip(rest[order].split(sizes), self.vectors.to(blocks.device), strict=True)  # a product per phoneme
        return alone + torch.cat([own @ vectors.T for own, vectors in groups])[order.argsort()]

    @cached_property
    def vectors(self) -> Tensor:
        """r(t, p): (labels before, labels, numbers)."""
        keys = torch.arange(self.symbols**2)
        bits = mix(mix(keys)[:, None] + mix(torch.arange(-(-self.config.pairs // 64))))[:, :, None] >> torch.arange(64)
        signs = (bits & 1).flatten(1)[:, : self.config.pairs].float() * 2 - 1
        return (signs / math.sqrt(max(1, self.config.pairs))).view(self.symbols, self.symbols, -1)

    @cached_property
    def last(self) -> Tensor:
        """(labels,) the last phoneme of each label; 0: it has none."""
        return torch.tensor([part[-1] if part else 0 for part in self.space.parts])

    def before(self, tokens: Tensor) -> Tensor:
        """The last phoneme before each place, as a label: (B, L); 0: there is none."""
        spoken = self.last.to(tokens.device)[tokens]
        found = [torch.zeros_like(tokens[:, 0])]
        for place in range(tokens.shape[1] - 1):
            found.append(torch.where(spoken[:, place] > 0, spoken[:, place], found[-1]))
        return torch.stack(found, dim=1)

    def table(self, blocks: Tensor) -> Tensor:
        """−log softmax of every label at each place after every phoneme: (B, L, numbers) → (B, L, labels², flat)."""
        alone = blocks[:, :, : self.symbols].clone()
        alone[:, :, 0] += NOTHING
        odds = alone[:, :, None].expand(-1, -1, self.symbols, -1)
        if self.config.pairs:
            rest = blocks[:, :, self.symbols :] @ self.vectors.to(blocks.device).flatten(0, 1).T
            odds = odds + rest.view(odds.shape)
        return -odds.log_softmax(dim=3).flatten(2)

    def _every(self, blocks: Tensor, index: Tensor) -> Tensor:
        table = self.table(blocks)
        return torch.stack([own.gather(1, index.T).sum(dim=0) for own in table])

    def _embed(self, tokens: Tensor) -> Tensor:
        found = torch.zeros(*tokens.shape, self.symbols + self.config.pairs)
        found.scatter_(2, tokens[:, :, None], SURE)
        found[:, :, 0] = 0  # a place after the end
        if self.config.pairs:
            there = (tokens > 0)[:, :, None]
            found[:, :, self.symbols :] = self.vectors[self.before(tokens), tokens] * there
        return found.flatten(start_dim=1)
