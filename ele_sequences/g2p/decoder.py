"""Write the sequence of least energy from left to right, keeping the best beginnings."""

from __future__ import annotations

import dataclasses
from typing import Self

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from ele_core import ComponentConfig, ConfigError, Context, Decoder, Decoding, Energy, Problem
from ele_sequences.g2p.surrogate import AlignedCrossEntropy, AlignedOdds
from ele_sequences.space import Tokens

CHUNK = 256
"""Queries decoded at once: bounds the memory."""
WIDER = 16
"""So many times as many beginnings are kept if sequences must satisfy a constraint, which is judged at the end."""


class LeftToRight(Decoder):
    """Beam search over tokens, place by place, for the surrogate `aligned-odds`, whose energy adds up over places.

    It needs no candidates. A sequence ends where every further token would raise the energy.
    """

    uses_candidates = False

    class Config(ComponentConfig):
        """How wide to search."""

        width: int = Field(8, ge=1)
        """The beginnings of a sequence that are kept."""

    config: Config

    def accepts(self, energy: Energy) -> None:
        """Accept the energies of `aligned-odds`."""
        if not isinstance(energy, AlignedCrossEntropy):
            what = f"decoder 'left-to-right' needs the surrogate 'aligned-odds', not {energy}."
            raise ConfigError(what, where="decoder", fix="Decode with 'search' or 'candidates'.")

    def decode(
        self, energy: Energy, problem: Problem, *, top_k: int = 1, trace: bool = False, context: Context
    ) -> Decoding:
        """Write the `top_k` best sequences of each query."""
        assert isinstance(energy, AlignedCrossEntropy)
        surrogate, queries = energy.surrogate, energy.queries
        found = []
        for first in context.monitor.progress(range(0, len(queries), CHUNK), description="left to right"):
            bound = dataclasses.replace(problem, constraints=(problem.constraints or [])[first : first + CHUNK])
            found.append(self._chunk(queries[first : first + CHUNK].cpu(), surrogate, top_k, bound))
        if not found:
            return Decoding(problem.candidates.batch[:0], queries.new_zeros(0, top_k))
        dtype = surrogate.space.geometry["tokens"].label_dtype
        tokens = torch.cat([tokens for tokens, _ in found]).to(dtype)
        return Decoding(Tokens(tokens), torch.cat([energies for _, energies in found]))

    def _chunk(self, queries: Tensor, surrogate: AlignedOdds, top_k: int, problem: Problem) -> tuple[Tensor, Tensor]:
        """Labels (B · top_k, L) and energies (B, top_k) of a few queries."""
        constraints = problem.constraints or []
        blocks = surrogate.blocks(queries)
        beam = Beam.empty(len(queries), surrogate.config.history)
        wider = WIDER if any(constraints) else 1
        width = self.config.width * wider
        more = max(0, top_k * wider - width)
        for block in blocks[:, : None if any(constraints) else last_place(blocks)].unbind(dim=1):
            beam = self._longer(beam, block, surrogate, width, more)
        beam = beam.padded(blocks.shape[1])
        rows = beam.tokens.flatten(0, 1)
        owner = torch.arange(len(queries)).repeat_interleave(beam.tokens.shape[1])
        energies = surrogate.energy(queries).of(Tokens(rows), owner).view(len(queries), -1)
        energies = energies.masked_fill(
            repeated(surrogate.space.keys(Tokens(rows)).view(*energies.shape, 2)), torch.inf
        )
        for row, constraint in enumerate(constraints):
            if constraint is not None:
                energies[row, ~problem.rules.satisfies(Tokens(beam.tokens[row]), constraint)] = torch.inf
        own, others = energies[:, : beam.main], energies[:, beam.main :]
        last = own.masked_fill(own.isinf(), -torch.inf).amax(dim=1, keepdim=True)  # others come after those of the beam
        others[(others < last) | beam.energy[:, beam.main :].isinf()] = torch.inf
        if energies.shape[1] < top_k:
            energies = functional.pad(energies, (0, top_k - energies.shape[1]), value=torch.inf)
        best = energies.topk(top_k, dim=1, largest=False)
        rank = best.indices.clamp(max=beam.tokens.shape[1] - 1)
        return beam.tokens.gather(1, rank[:, :, None].expand(-1, -1, blocks.shape[1])).flatten(0, 1), best.values

    def _longer(self, beam: Beam, blocks: Tensor, surrogate: AlignedOdds, width: int, more: int) -> Beam:
        """Write one more token, or nothing, and keep the best; `blocks` (B, numbers) are those of this place.

        `more`: further beginnings to keep for answers, from which the beam never continues.
        """
        added = surrogate.costs(blocks, beam.last).clone()
        added[:, :, 1:].masked_fill_(beam.ended[:, :, None], torch.inf)
        total = (beam.energy[:, :, None] + added).flatten(1)
        main = total[:, : beam.main * surrogate.symbols]
        best = main.topk(min(width, main.shape[1]), dim=1, largest=False)
        rows, values = best.indices, best.values
        if more:
            left = total.scatter(1, rows, torch.inf)
            further = left.topk(min(more, left.shape[1]), dim=1, largest=False)
            rows, values = torch.cat([rows, further.indices], dim=1), torch.cat([values, further.values], dim=1)
        parent, token = rows // surrogate.symbols, rows % surrogate.symbols
        longer = beam.at(parent).written(token, values, surrogate)
        return dataclasses.replace(longer, main=best.indices.shape[1])


@dataclasses.dataclass(frozen=True)
class Beam:
    """The beginnings of sequences for each of B queries, K each."""

    tokens: Tensor
    """(B, K, places so far)."""
    last: Tensor
    """(B, K, J) the last phonemes, the very last one first."""
    energy: Tensor
    """(B, K) the energy of the beginning."""
    ended: Tensor
    """(B, K) whether nothing follows."""
    main: int = 1
    """How many of the K, the first ones, are the beam; the others are kept for answers alone."""

    @classmethod
    def empty(cls, count: int, history: int) -> Self:
        """The empty sequence for each query."""
        zeros = torch.zeros(count, 1, dtype=torch.long)
        none = zeros[:, :, None]
        return cls(none[:, :, :0], none.expand(-1, -1, history), zeros.float(), zeros > 0)

    def at(self, rows: Tensor) -> Beam:
        """The beginnings at `rows` (B, K) of each query."""
        tokens, last = (
            part.gather(1, rows[:, :, None].expand(-1, -1, part.shape[2])) for part in (self.tokens, self.last)
        )
        return Beam(tokens, last, self.energy.gather(1, rows), self.ended.gather(1, rows))

    def padded(self, places: int) -> Beam:
        """The same beginnings with nothing behind them, up to so many places."""
        missing = places - self.tokens.shape[2]
        return dataclasses.replace(self, tokens=functional.pad(self.tokens, (0, missing)))

    def written(self, tokens: Tensor, energy: Tensor, surrogate: AlignedOdds) -> Beam:
        """The same beginnings with one more token each (B, K)."""
        last = surrogate.after(self.last, tokens)
        return Beam(torch.cat([self.tokens, tokens[:, :, None]], dim=2), last, energy, self.ended | (tokens == 0))


def last_place(blocks: Tensor) -> int:
    """How many places there are up to the last one at which some query is not zero: after it, nothing is written."""
    places = blocks.any(dim=2).any(dim=0).nonzero()
    return int(places.max()) + 1 if len(places) else 0


def repeated(keys: Tensor) -> Tensor:
    """Which of the sequences of a query repeat an earlier one: keys (B, K, 2) → (B, K)."""
    same = (keys[:, :, None] == keys[:, None]).all(dim=3)
    return (same & torch.ones_like(same[0]).tril(-1)).any(dim=2)
