"""Search over discrete moves around the best candidates, ranked by the learned loss, for all inputs at once."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from ele_core.context import Context
from ele_core.data import ranks
from ele_core.decoding.candidates import CandidatesDecoder
from ele_core.decoding.gradient import GradientDecoder
from ele_core.decoding.joining import joined
from ele_core.hashing import mix
from ele_core.interfaces import ComponentConfig, Decoder, Decoding, Problem, Trace

CHUNK = 256
"""Inputs searched at once."""
SLICE = 256
"""Structures whose neighbours are held at once: bounds the memory."""


class SearchDecoder(Decoder):
    """Beam search: expand the best structures of each input by their neighbours, keep the best, until none is new.

    Works on any space (its `neighbours` are the moves) and any surrogate. No structure of an input is scored twice.
    """

    class Config(ComponentConfig):
        """How wide and how far to search."""

        width: int = Field(4, ge=1)
        """Structures of an input that are expanded in a round: the beam. The search starts from as many candidates."""
        rounds: int = Field(12, ge=1)
        """Rounds at most; an input stops earlier when its beam is fully expanded."""
        patience: int = Field(1, ge=1)
        """Rounds without a better structure after which an input stops."""
        moves: int | None = Field(None, ge=1)
        """Score only so many neighbours of a structure, the first by the gradient of the loss; none: all of them."""
        budget: int | None = Field(None, ge=1)
        """Structures of an input that are scored at most; none: as many as the rounds bring."""
        pgd: GradientDecoder.Config | None = None
        """Start from what projected gradient descent finds, with these options; none: from the best candidates."""
        trace: bool = False
        """Record the best structure and its energy after every round."""

    config: Config

    @property
    def needs_gradient(self) -> bool:
        """Only to start from pgd; moves are ranked by a gradient where there is one."""
        return self.config.pgd is not None

    def decode(self, queries: Tensor, problem: Problem, *, top_k: int = 1, context: Context) -> Decoding:
        """Search from the best candidates of each query."""
        width = max(self.config.width, top_k)
        start = self._start(queries, problem, min(width, len(problem.candidates)), context)
        parts = []
        for first in context.monitor.progress(range(0, len(queries), CHUNK), description="search"):
            search = Search(
                queries[first : first + CHUNK], start.rows(first, first + CHUNK), width, problem, self.config
            )
            parts.append(search.run(top_k))
        return joined(parts) if parts else Decoding(start.structures, start.energies.new_zeros(0, top_k))

    def _start(self, queries: Tensor, problem: Problem, width: int, context: Context) -> Decoding:
        """The `width` structures that the search of each query starts from."""
        decoder = CandidatesDecoder() if self.config.pgd is None else GradientDecoder(self.config.pgd)
        return decoder.decode(queries, problem, top_k=width, context=context)


@dataclasses.dataclass(frozen=True)
class Pool:
    """Structures of many inputs, those of an input together, best first."""

    structures: Any
    owner: Tensor
    energy: Tensor
    expanded: Tensor

    def best(self, width: int) -> Pool:
        """The `width` best of each input."""
        order = self.energy.argsort(stable=True)
        order = order[self.owner[order].argsort(stable=True)]
        return self.at(order[ranks(self.owner[order]) < width])

    def at(self, rows: Tensor) -> Pool:
        """The structures at `rows`."""
        return Pool(self.structures[rows], self.owner[rows], self.energy[rows], self.expanded[rows])

    def with_more(self, other: Pool) -> Pool:
        """Both pools' structures."""
        return Pool(
            type(self.structures).cat([self.structures, other.structures]),
            torch.cat([self.owner, other.owner]),
            torch.cat([self.energy, other.energy]),
            torch.cat([self.expanded, other.expanded]),
        )


class Search:
    """The search of one chunk of inputs."""

    def __init__(
        self,
        queries: Tensor,
        start: Decoding,
        width: int,
        problem: Problem,
        config: SearchDecoder.Config,
    ) -> None:
        self.queries = queries
        self.problem = problem
        self.config = config
        self.width = width
        owner = torch.arange(len(queries), device=queries.device).repeat_interleave(start.top_k)
        structures, energies = start.structures.to(queries.device), start.energies.to(queries.device)
        found = Pool(structures, owner, energies.flatten(), torch.zeros_like(owner, dtype=torch.bool))
        self.pool = found.at(found.energy.isfinite().nonzero().flatten())
        self.seen = self._identities(self.pool.structures, self.pool.owner).sort().values
        self.scored = torch.zeros(len(queries), dtype=torch.long, device=queries.device)
        self.stale = torch.zeros_like(self.scored)
        self.least = torch.full((len(queries),), math.inf, dtype=queries.dtype, device=queries.device)
        self._count_stale()

    def run(self, top_k: int) -> Decoding:
        """Rounds of expansion until every beam is expanded; then the `top_k` best of each input."""
        leaders = [self._leaders()] if self.config.trace else []
        for _ in range(self.config.rounds):
            waiting = ~self.pool.expanded & (self.stale < self.config.patience)[self.pool.owner]
            beam = (waiting & (ranks(self.pool.owner) < self.config.width)).nonzero().flatten()
            if len(beam):
                parts = [self._expand(self.pool.at(rows)) for rows in beam.split(SLICE)]
                self.pool = dataclasses.replace(self.pool, expanded=self.pool.expanded.index_fill(0, beam, True))
                for found in parts:
                    self.pool = self.pool.with_more(found)
                self.pool = self.pool.best(self.width)
                self._count_stale()
            elif not self.config.trace:
                break
            if self.config.trace:
                leaders.append(self._leaders())
        return self._answer(top_k, self._trace(leaders))

    def _expand(self, beam: Pool) -> Pool:
        """The best neighbours of the beam that no input has seen before, scored."""
        moved, row = self.problem.space.neighbours(beam.structures, self._gradient(beam), self.config.moves)
        owner = beam.owner[row]
        identity = self._identities(moved, owner)
        fresh = first_of_each(identity)
        fresh = fresh[~contains(self.seen, identity[fresh])]
        if self.config.budget is not None:
            fresh = fresh[ranks(owner[fresh]) < (self.config.budget - self.scored)[owner[fresh]]]
            self.scored += torch.bincount(owner[fresh], minlength=len(self.queries))
        moved, owner = moved[fresh], owner[fresh]
        self.seen = torch.cat([self.seen, identity[fresh]]).sort().values
        energy = self.problem.surrogate.energy(self.queries[owner], moved)
        return Pool(moved, owner, energy, torch.zeros_like(owner, dtype=torch.bool)).best(self.width)

    def _gradient(self, beam: Pool) -> Any | None:
        """The gradient of the energy at the structures of the beam, where moves are to be ranked by it."""
        if self.config.moves is None or not self.problem.surrogate.differentiable:
            return None
        point = self.problem.space.relax(beam.structures)
        leaves = {name: getattr(point, name).requires_grad_(True) for name in self.problem.space.geometry}
        energy = self.problem.surrogate.energy_at(self.queries[beam.owner], point.replace(**leaves))
        gradients = torch.autograd.grad(energy.sum(), list(leaves.values()))
        return point.replace(**dict(zip(leaves, gradients, strict=True)))

    def _identities(self, structures: Any, owner: Tensor) -> Tensor:
        """(N,) int64: equal for the same structure of the same input."""
        keys = self.problem.space.keys(structures)
        return mix(mix(keys[:, 0] + mix(owner)) ^ keys[:, 1])

    def _count_stale(self) -> None:
        """How many rounds each input has gone without a better structure."""
        first = ranks(self.pool.owner) == 0
        least = self.least.index_copy(0, self.pool.owner[first], self.pool.energy[first].to(self.least.dtype))
        self.stale = torch.where(least < self.least, 0, self.stale + 1)
        self.least = least

    def _leaders(self) -> tuple[Any, Tensor]:
        """The best structure of each input, and its energy."""
        first = (ranks(self.pool.owner) == 0).nonzero().flatten()
        return self.pool.structures[first].to("cpu"), self.pool.energy[first].cpu()

    def _trace(self, leaders: list[tuple[Any, Tensor]]) -> Trace | None:
        if not self.config.trace:
            return None
        return Trace(range(len(leaders)), [batch for batch, _ in leaders], [energy for _, energy in leaders])

    def _answer(self, top_k: int, trace: Trace | None) -> Decoding:
        rank = ranks(self.pool.owner)
        kept = (rank < top_k).nonzero().flatten()
        place = self.pool.owner[kept] * top_k + rank[kept]
        energies = self.queries.new_full((len(self.queries) * top_k,), math.inf)
        energies[place] = self.pool.energy[kept]
        rows = torch.zeros(len(energies), dtype=torch.long, device=place.device)
        rows[place] = kept
        return Decoding(self.pool.structures[rows].to("cpu"), energies.view(-1, top_k).cpu(), trace)


def first_of_each(values: Tensor) -> Tensor:
    """The row of the first entry of each distinct value, ascending."""
    ordered, order = values.sort(stable=True)
    first = torch.ones_like(ordered, dtype=torch.bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return order[first].sort().values


def contains(ordered: Tensor, values: Tensor) -> Tensor:
    """(N,) true where a value is among the ascending `ordered`."""
    place = torch.searchsorted(ordered, values).clamp(max=len(ordered) - 1)
    return ordered[place] == values
