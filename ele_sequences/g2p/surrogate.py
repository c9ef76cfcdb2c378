"""An embedding of phonemes place by place, whose energy is a cross-entropy: queries are log-odds of tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from ele_core import ComponentConfig, ConfigError, Context, Energy, OutputSpace, Surrogate, TrainingData
from ele_core.energies import QueryEnergy
from ele_core.numerics.keys import mix
from ele_core.types import Candidates
from ele_sequences.g2p.space import PhonemeSpace
from ele_sequences.space import Tokens

CHUNK = 1024
"""Sequences embedded at once: bounds the memory."""
SURE = 20.0
"""The log-odds of the token that an embedded sequence has at a place: those of a query that is sure of it."""
NOTHING = 10.0
"""Added to the log-odds of 'nothing here': a block of zeros says that the sequence has ended."""


class AlignedOdds(Surrogate):
    """ψ(y): for each place the token y has there, and the token with each phoneme before it. Nothing is learned.

    The block of a place i is `SURE` at its token t and 0 at others, then for each of the last phonemes before it,
    p_1, p_2, …, a fixed random vector r_j(t, p_j) of norm 1. A query has the same coordinates, and gives each token the
    log-odds s_i(t | p) = q_i[t] + Σ_j ⟨q_i[rest j], r_j(t, p_j)⟩. The energy of y is the cross-entropy
    −Σ_i log softmax s_i(· | p)[y_i]: least for a query that is sure of y, as the squared distance is, but wrong tokens
    that are very unlikely already cost nothing more.
    """

    spherical = False

    class Config(ComponentConfig):
        """The size of the embedding."""

        pairs: int = Field(64, ge=0, le=1 << 12)
        """The numbers of a place for tokens with one phoneme before them; 0: a token does not depend on phonemes."""
        history: int = Field(1, ge=1, le=16)
        """The number of phonemes before a token that it depends on."""

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
        return self.space.config.length * (self.symbols + self.config.history * self.config.pairs)

    @property
    def symbols(self) -> int:
        """The number of labels, 'nothing here' among them."""
        return len(self.space.config.alphabet) + 1

    def fit(self, data: TrainingData, context: Context) -> None:
        """Nothing is learned."""

    def embed(self, batch: Tokens) -> Tensor:
        """Packed sequences → (B, dim)."""
        parts = batch.chunks(CHUNK) if len(batch) else [batch]
        return torch.cat([self._embed(part.tokens.long().cpu()) for part in parts]).to(batch.device)

    def stored(self, batch: Tokens) -> Tensor:
        """The labels (N, L), from which the embeddings follow."""
        return batch.tokens

    def energy(self, queries: Tensor) -> Energy:
        """The cross-entropy of sequences under the log-odds of queries."""
        return AlignedCrossEntropy(self, queries)

    @property
    def ended(self) -> float:
        """The energy of 'nothing here' at a place where a query is zero."""
        return math.log1p((self.symbols - 1) * math.exp(-NOTHING))

    def state(self) -> dict[str, Tensor]:
        """Nothing."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Nothing is restored."""

    def blocks(self, queries: Tensor) -> Tensor:
        """Queries (B, dim) → the block of each place (B, L, numbers)."""
        return queries.view(len(queries), self.space.config.length, -1)

    def odds(self, blocks: Tensor, before: Tensor) -> Tensor:
        """The log-odds of all labels at M places, each after the phonemes `before` (M, J): (M, labels)."""
        odds = self._alone(blocks)
        for rest, own, vectors in zip(self._rest(blocks), before.unbind(dim=1), self.vectors, strict=False):
            sizes = own.bincount(minlength=self.symbols).tolist()
            order = own.argsort(stable=True)
            groups = zip(rest[order].split(sizes), vectors.to(blocks.device), strict=True)  # a product per phoneme
            odds = odds + torch.cat([some @ vector.T for some, vector in groups])[order.argsort()]
        return odds

    def costs(self, blocks: Tensor, before: Tensor) -> Tensor:
        """−log softmax of all labels at one place of B queries, after K lists of phonemes (B, K, J): (B, K, labels)."""
        odds = self._alone(blocks)[:, None]
        for rest, own, vectors in zip(self._rest(blocks), before.unbind(dim=2), self.vectors, strict=False):
            every = (rest @ vectors.to(blocks.device).flatten(0, 1).T).view(len(blocks), self.symbols, self.symbols)
            odds = odds + every.gather(1, own[:, :, None].expand(-1, -1, self.symbols))
        return -odds.log_softmax(dim=2).expand(-1, before.shape[1], -1)

    @cached_property
    def vectors(self) -> Tensor:
        """r_j(t, p): (J, labels before, labels, numbers)."""
        keys = torch.arange(self.config.history * self.symbols**2)
        bits = mix(mix(keys)[:, None] + mix(torch.arange(-(-self.config.pairs // 64))))[:, :, None] >> torch.arange(64)
        signs = (bits & 1).flatten(1)[:, : self.config.pairs].float() * 2 - 1
        scaled = signs / math.sqrt(max(1, self.config.pairs))
        return scaled.view(self.config.history, self.symbols, self.symbols, self.config.pairs)

    @cached_property
    def spoken(self) -> Tensor:
        """(labels, 2) the phonemes of each label, the last one first; 0: it has none."""
        return torch.tensor([[*reversed(part), 0, 0][:2] for part in self.space.parts])

    def after(self, before: Tensor, tokens: Tensor) -> Tensor:
        """The last phonemes once each token (…) is written after those of `before` (…, J), the last one first."""
        spoken, count = self.spoken.to(tokens.device)[tokens], before.shape[-1]
        one = torch.cat([spoken[..., :1], before], dim=-1)[..., :count]
        two = torch.cat([spoken, before], dim=-1)[..., :count]
        return torch.where(spoken[..., 1:] > 0, two, torch.where(spoken[..., :1] > 0, one, before))

    def before(self, tokens: Tensor) -> Tensor:
        """The last phonemes before each place, as labels, the last one first: (B, L) → (B, L, J); 0: there is none."""
        found = [tokens.new_zeros(len(tokens), self.config.history)]
        for place in range(tokens.shape[1] - 1):
            found.append(self.after(found[-1], tokens[:, place]))
        return torch.stack(found, dim=1)

    def _alone(self, blocks: Tensor) -> Tensor:
        """The log-odds of labels whatever is before them: (B, labels)."""
        alone = blocks[:, : self.symbols]
        return alone + alone.new_tensor([NOTHING] + [0.0] * (self.symbols - 1))

    def _rest(self, blocks: Tensor) -> tuple[Tensor, ...]:
        """The numbers for the phoneme before, for the one before that, and so on: (B, numbers) each."""
        return blocks[:, self.symbols :].split(self.config.pairs, dim=1) if self.config.pairs else ()

    def _embed(self, tokens: Tensor) -> Tensor:
        found = torch.zeros(*tokens.shape, self.symbols)
        found.scatter_(2, tokens[:, :, None], SURE)
        found[:, :, 0] = 0  # a place after the end
        there = (tokens > 0)[:, :, None]
        pairs = zip(self.vectors, self.before(tokens).unbind(dim=2), strict=True)
        return torch.cat([found, *(vectors[own, tokens] * there for vectors, own in pairs)], dim=2).flatten(1)


class AlignedCrossEntropy(QueryEnergy):
    """−Σ_i log softmax s_i(· | p)[y_i], with the log-odds s_i of a query. Differentiable in the query."""

    surrogate: AlignedOdds

    def of(self, batch: Tokens, owner: Tensor | None = None) -> Tensor:
        """The cross-entropy of sequence n under its query: (N,)."""
        surrogate, queries = self.surrogate, self.asked(owner)
        tokens = batch.tokens.long().to(queries.device)
        blocks = surrogate.blocks(queries)
        some = (tokens > 0) | (blocks != 0).any(dim=2)
        odds = surrogate.odds(blocks[some], surrogate.before(tokens)[some])
        costs = queries.new_full(tokens.shape, surrogate.ended)
        costs[some] = torch.nn.functional.cross_entropy(odds, tokens[some], reduction="none")
        return costs.sum(dim=1)

    def among(self, candidates: Candidates) -> Tensor:
        """The cross-entropy of every candidate, kept as labels or as embeddings, under every query: (B, N)."""
        surrogate, queries, kept = self.surrogate, self.queries, candidates.kept_by(self.surrogate)
        if kept.shape[1] == surrogate.dim:  # a place after the end is all zeros: its label is 0
            kept = surrogate.blocks(kept)[:, :, : surrogate.symbols].argmax(dim=2)
        tokens = kept.long()
        before = surrogate.before(tokens)
        found = queries.new_zeros(len(queries), len(tokens))
        for place, blocks in enumerate(surrogate.blocks(queries).unbind(dim=1)):
            own = tokens[:, place]
            known, number = before[:, place].unique(dim=0, return_inverse=True)  # many sequences begin alike
            for row, block in enumerate(blocks):
                if block.any():
                    found[row] += surrogate.costs(block[None], known[None])[0][number, own]
                else:
                    found[row] += surrogate.ended + NOTHING * (own > 0)
        return found
