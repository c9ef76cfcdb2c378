"""Search over discrete moves around the best candidates, ranked by the learned loss, for all inputs at once."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from ele_core.component import ComponentConfig
from ele_core.components.decoders.candidates import CandidatesDecoder
from ele_core.components.decoders.constraints import JUDGED, Constraints
from ele_core.components.decoders.gradient import GradientDecoder
from ele_core.energies import gradient_at
from ele_core.interfaces import Decoder, Energy
from ele_core.numerics.keys import mix, ranks
from ele_core.optional import PartMoves
from ele_core.runtime.context import Context
from ele_core.types import Decoding, Problem, Proposals, Trace

CHUNK = 256
"""Inputs searched at once."""
SLICE = 256
"""Structures whose neighbours are computed at once: bounds the memory."""
RANKED = 64
"""Neighbours of a structure to score, if an estimate ranks them."""
REPEATS = 2
"""Moves to look at for each neighbour to score: several moves may lead to the same structure."""


class SearchDecoder(Decoder):
    """Beam search: expand the best structures of each input by their neighbours, keep the best, until none is new.

    Works on any space and any surrogate. Neighbours are ranked by an estimate of their energy if there is one, and then
    only the first are scored. No structure of an input is scored twice.
    """

    traces = True
    trace_note = "The edits that lead from a candidate to the answer, one edit per step."

    class Config(ComponentConfig):
        """How wide and how far to search."""

        width: int = Field(4, ge=1)
        """The size of the beam: structures of an input expanded per round, at first."""
        effort: int = Field(3, ge=0, le=16)
        """How often the beam of an input may double: unless its best structure has an energy as low as a tenth of the
        truths have, the search goes on with a wider beam. Unused if the regressor did not measure its errors."""
        rounds: int = Field(12, ge=1)
        """Maximum number of rounds at each width; an input stops earlier if its beam is fully expanded."""
        patience: int = Field(1, ge=1)
        """Rounds without a better structure after which an input stops."""
        moves: int | None = Field(None, ge=1)
        """Maximum number of neighbours of a structure to score, ranked by an estimate from their parts, or else
        by the gradient of the loss if it has one. None: 64 if space and surrogate have such estimates, else all."""
        budget: int | None = Field(None, ge=1)
        """Maximum number of structures to score for an input; None: no limit."""
        pgd: GradientDecoder.Config | None = None
        """Start from the results of projected gradient descent with these options; None: from the best candidates."""
        trace: bool = False
        """Record a trace even if `decode` is called without `trace=True`: for each answer the structure that the search
        started from, then the one after each move."""

        def widest(self, energy: Energy) -> int:
            """The size of the beam after all doublings."""
            return self.width if energy.usual is None else self.width << self.effort

    config: Config

    def accepts(self, energy: Energy) -> None:
        """Need a gradient only to start from pgd; ranking moves uses one if there is one."""
        if self.config.pgd is not None:
            GradientDecoder(self.config.pgd).accepts(energy)

    def decode(
        self, energy: Energy, problem: Problem, *, top_k: int = 1, trace: bool = False, context: Context
    ) -> Decoding:
        """Search from the best candidates of each query."""
        count = min(max(self.config.widest(energy), top_k), len(problem.candidates))
        starts = self._starts(energy, problem, count, context)
        constraints = Constraints.of(problem, len(energy), energy.device)
        parts = []
        for first in context.monitor.progress(range(0, len(energy), CHUNK), description="search"):
            end = first + CHUNK
            begun = [start.rows(first, end) for start in starts]
            own = None if constraints is None else constraints.rows(first, end)
            recorded = trace or self.config.trace
            search = BeamSearch(energy[first:end], begun, top_k, problem, self.config, own, trace=recorded)
            parts.append(search.run(top_k))
        if not parts:
            return Decoding(starts[0].structures, torch.zeros(0, top_k))
        return dataclasses.replace(Decoding.cat(parts), nearest=starts[0].nearest)

    def _starts(self, energy: Energy, problem: Problem, width: int, context: Context) -> list[Decoding]:
        """The `width` structures that the search of each query starts from, and as many that satisfy its constraint."""
        decoder = CandidatesDecoder() if self.config.pgd is None else GradientDecoder(self.config.pgd)
        free = dataclasses.replace(problem, constraints=None)
        problems = [free] if problem.constraints is None else [free, problem]
        starts = [decoder.decode(energy, each, top_k=width, context=context) for each in problems]
        given = problem.proposals
        return starts if given is None or not len(given.owner) else [*starts, as_decoding(energy, given)]


def as_decoding(energy: Energy, proposals: Proposals) -> Decoding:
    """The proposals of each query with their energies; missing ones have an infinite energy."""
    order = proposals.owner.argsort(stable=True)
    owner, structures = proposals.owner[order], proposals.batch[order]
    place, values = ranks(owner), energy.of(structures.to(energy.device), owner.to(energy.device)).cpu()
    width = int(place.max()) + 1 if len(place) else 1
    rows = torch.zeros(len(energy), width, dtype=torch.long)
    rows[owner, place] = torch.arange(len(owner))
    energies = torch.full((len(energy), width), math.inf, dtype=values.dtype)
    energies[owner, place] = values
    return Decoding(structures[rows.flatten()], energies)


@dataclasses.dataclass(frozen=True)
class Pool:
    """Structures of many inputs, grouped by input, best first."""

    structures: Any
    owner: Tensor
    energy: Tensor
    expanded: Tensor
    parent: Tensor | None = None
    """(N,) the row of the `Lineage` from which each was made, −1 for a start; None: not recorded."""
    violation: Tensor | None = None
    """(N,) how far each is from satisfying the constraint of its input, 0 if it does; None: no constraints."""

    @classmethod
    def cat(cls, pools: Sequence[Pool]) -> Pool:
        """The structures of all pools, one pool after the other."""
        return cls(
            type(pools[0].structures).cat([pool.structures for pool in pools]),
            torch.cat([pool.owner for pool in pools]),
            torch.cat([pool.energy for pool in pools]),
            torch.cat([pool.expanded for pool in pools]),
            joined([pool.parent for pool in pools]),
            joined([pool.violation for pool in pools]),
        )

    def __len__(self) -> int:
        return len(self.owner)

    def best(self, width: int) -> Pool:
        """The `width` best of each input, and with constraints also the `width` that violate its constraint least."""
        order = self.energy.argsort(stable=True)
        found = self.at(order[self.owner[order].argsort(stable=True)])
        return found.at(found.first(width).nonzero().flatten())

    def first(self, width: int | Tensor) -> Tensor:
        """(N,) bool: whether a structure is one of those that `best` keeps; `width` is one for all inputs or (B,)."""
        allowed = width if isinstance(width, int) else width[self.owner]
        kept = ranks(self.owner) < allowed
        if self.violation is not None:
            order = self.violation.argsort(stable=True)
            order = order[self.owner[order].argsort(stable=True)]
            own = allowed if isinstance(allowed, int) else allowed[order]
            kept[order] |= ranks(self.owner[order]) < own
        return kept

    @property
    def satisfying(self) -> Tensor:
        """The rows that satisfy the constraint of their input; all if there are no constraints."""
        kept = torch.ones_like(self.expanded) if self.violation is None else self.violation == 0
        return kept.nonzero().flatten()

    def at(self, rows: Tensor) -> Pool:
        """The structures at `rows`."""
        parent = None if self.parent is None else self.parent[rows]
        violation = None if self.violation is None else self.violation[rows]
        return Pool(self.structures[rows], self.owner[rows], self.energy[rows], self.expanded[rows], parent, violation)


class Lineage:
    """Every expanded structure with its parent, to follow an answer back to its start."""

    def __init__(self) -> None:
        self.beams: list[Pool] = []
        self.size = 0

    def add(self, beam: Pool) -> Tensor:
        """Add a beam; return the row of each of its structures, which is the `parent` of their neighbours."""
        first, self.size = self.size, self.size + len(beam)
        self.beams.append(beam)
        return torch.arange(first, self.size, device=beam.owner.device)

    def paths(self, answers: Pool) -> Trace:
        """The path to each answer, one move per step; shorter paths repeat their answer up to the longest one."""
        known = Pool.cat([*self.beams, answers])
        assert known.parent is not None
        back = [torch.arange(self.size, len(known), device=known.owner.device)]
        while (known.parent[back[-1]] >= 0).any():
            parent = known.parent[back[-1]]
            back.append(torch.where(parent >= 0, parent, back[-1]))
        rows = from_the_start(torch.stack(back))
        structures = [known.structures[at_step].to("cpu") for at_step in rows]
        return Trace(range(len(rows)), structures, [known.energy[at_step].cpu() for at_step in rows])


class BeamSearch:
    """The search of one chunk of inputs.

    With constraints, it also passes through structures that violate them. The beam then has two halves: the best of
    all, and the best of those that violate the constraint least, which are the answers if they satisfy it.
    """

    def __init__(
        self,
        energy: Energy,
        starts: Sequence[Decoding],
        top_k: int,
        problem: Problem,
        config: SearchDecoder.Config,
        constraints: Constraints | None = None,
        *,
        trace: bool,
    ) -> None:
        self.energy = energy
        self.problem = problem
        self.config = config
        self.constraints = constraints
        self.widest = config.widest(energy)
        self.kept = max(self.widest, top_k)  # for answers; the search does not depend on how many are asked for
        self.lineage = Lineage() if trace else None
        self.pool = self._distinct([start.ranks(0, self.widest) for start in starts], trace)
        self.others = self._distinct([start.ranks(self.widest, start.top_k) for start in starts], trace)
        self.seen = self._identities(self.pool.structures, self.pool.owner).sort().values
        self.scored = torch.zeros(len(energy), dtype=torch.long, device=energy.device)
        self.width = torch.full_like(self.scored, config.width)
        self.stale = torch.zeros_like(self.scored)
        self.least: tuple[Tensor, ...] = ()
        self._count_stale()

    def _distinct(self, starts: Sequence[Decoding], trace: bool) -> Pool:
        """All structures of several starts, each once."""
        found = Pool.cat([self._started(start, trace) for start in starts])
        if len(starts) == 1:
            return found
        return found.at(first_of_each(self._identities(found.structures, found.owner))).best(self.kept)

    def _started(self, start: Decoding, trace: bool) -> Pool:
        """The structures that the search starts from, without those of infinite energy."""
        owner = torch.arange(len(self.energy), device=self.energy.device).repeat_interleave(start.top_k)
        structures, energies = start.structures.to(owner.device), start.energies.to(owner.device)
        parent = torch.full_like(owner, -1) if trace else None
        expanded = torch.zeros_like(owner, dtype=torch.bool)
        found = Pool(structures, owner, energies.flatten(), expanded, parent, self._violation(structures, owner))
        return found.at(found.energy.isfinite().nonzero().flatten())

    def _violation(self, structures: Any, owner: Tensor) -> Tensor | None:
        return None if self.constraints is None else self.constraints.violation(structures, owner)

    def run(self, top_k: int) -> Decoding:
        """Search, widen the beams of inputs that need it, and return the `top_k` best of each input."""
        for _ in range(self.config.effort + 1):
            self._settle()
            if not self._widen():
                break
        return self._answer(top_k)

    def _widen(self) -> bool:
        """Double the beams of the inputs whose best structure is not convincing; return whether there are any."""
        unsure = self.width < self.widest
        if self.energy.usual is not None:
            unsure &= self.least[0] > self.energy.usual
        self.width = torch.where(unsure, 2 * self.width, self.width)
        self.stale = torch.where(unsure, 0, self.config.patience)
        return bool(unsure.any())

    def _settle(self) -> None:
        """Expand in rounds until every beam is expanded, or nothing better is found."""
        for _ in range(self.config.rounds):
            waiting = ~self.pool.expanded & (self.stale < self.config.patience)[self.pool.owner]
            beam = (waiting & self.pool.first(self.width)).nonzero().flatten()
            if not len(beam):
                break
            parts = [self._expand(self.pool.at(rows)) for rows in beam.split(SLICE)]
            known = dataclasses.replace(self.pool, expanded=self.pool.expanded.index_fill(0, beam, True))
            self.pool = Pool.cat([known, *parts]).best(self.kept)
            self._count_stale()

    def _expand(self, beam: Pool) -> Pool:
        """Score the neighbours of the beam that their input has not seen before, and return the best."""
        moved, row, ranked = self._moves(beam)
        owner = beam.owner[row]
        identity = self._identities(moved, owner)
        fresh = first_of_each(identity)
        fresh = fresh[~contains(self.seen, identity[fresh])]
        if ranked:
            fresh = fresh[ranks(row[fresh]) < self._limit]
        if self.config.budget is not None:
            fresh = fresh[ranks(owner[fresh]) < (self.config.budget - self.scored)[owner[fresh]]]
            self.scored += torch.bincount(owner[fresh], minlength=len(self.energy))
        moved, owner, row = moved[fresh], owner[fresh], row[fresh]
        parent = None if self.lineage is None else self.lineage.add(beam)[row]
        self.seen = torch.cat([self.seen, identity[fresh]]).sort().values
        energy = self.energy.of(moved, owner)
        found = Pool(moved, owner, energy, torch.zeros_like(owner, dtype=torch.bool), parent)
        return self._judged(found).best(self.kept)

    def _judged(self, found: Pool) -> Pool:
        """The structures with their violations; if a constraint is costly, only the best of each input."""
        if self.constraints is None:
            return found
        if self.constraints.costly.any():
            found = found.best(max(self.widest, JUDGED))
        return dataclasses.replace(found, violation=self._violation(found.structures, found.owner))

    def _moves(self, beam: Pool) -> tuple[Any, Tensor, bool]:
        """Structures one move away, their rows of the beam, and whether an estimate ranks them.

        `_expand` removes repeated ones.
        """
        moves, limit = self.problem.space.moves, self.config.moves
        if isinstance(moves, PartMoves):
            estimate = self.energy.near(beam.structures, beam.owner)
            if estimate is not None:
                return *moves.best(beam.structures, estimate, REPEATS * self._limit), True
        if limit is None:
            return *moves.list(beam.structures), False
        gradient = gradient_at(self.energy, beam.structures, self.problem.space, beam.owner)
        return *moves.neighbours(beam.structures, gradient, limit), False

    @property
    def _limit(self) -> int:
        """Maximum number of neighbours of a structure to score, if an estimate ranks them."""
        return RANKED if self.config.moves is None else self.config.moves

    def _identities(self, structures: Any, owner: Tensor) -> Tensor:
        """(N,) int64: equal for the same structure of the same input."""
        keys = self.problem.space.keys(structures)
        return mix(mix(keys[:, 0] + mix(owner)) ^ keys[:, 1])

    def _count_stale(self) -> None:
        """Count the rounds of each input without progress: a better structure, or one that violates less."""
        least = self._least()
        before = self.least or tuple(torch.full_like(value, math.inf) for value in least)
        better = torch.stack([now < then for now, then in zip(least, before, strict=True)]).any(dim=0)
        self.stale = torch.where(better, 0, self.stale + 1)
        self.least = least

    def _least(self) -> tuple[Tensor, ...]:
        """The least energy of each input (B,) among structures that satisfy its constraint.

        With constraints also the least energy of all, and the least violation.
        """
        pool, rows = self.pool, self.pool.satisfying
        none = torch.full((len(self.energy),), math.inf, dtype=pool.energy.dtype, device=pool.owner.device)
        energy = none.scatter_reduce(0, pool.owner[rows], pool.energy[rows], "amin")
        if pool.violation is None:
            return (energy,)
        return energy, *(
            none.scatter_reduce(0, pool.owner, own.to(none), "amin") for own in (pool.energy, pool.violation)
        )

    def _answer(self, top_k: int) -> Decoding:
        """The `top_k` best of each input, with the paths to the best one if a trace is recorded.

        Candidates that no search started from are among them if they are better than what was found. If fewer satisfy
        the constraint, the first of all fills their places.
        """
        if len(self.others):
            known = self._identities(self.pool.structures, self.pool.owner).sort().values
            new = ~contains(known, self._identities(self.others.structures, self.others.owner))
            self.pool = Pool.cat([self.pool, self.others.at(new.nonzero().flatten())]).best(self.kept)
        found = self.pool.satisfying
        rank = ranks(self.pool.owner[found])
        kept, rank = found[rank < top_k], rank[rank < top_k]
        place = self.pool.owner[kept] * top_k + rank
        energies = self.pool.energy.new_full((len(self.energy) * top_k,), math.inf)
        energies[place] = self.pool.energy[kept]
        rows = torch.zeros(len(energies), dtype=torch.long, device=place.device)
        if self.constraints is not None:
            rows = (ranks(self.pool.owner) == 0).nonzero().flatten().repeat_interleave(top_k)
        rows[place] = kept
        trace = None if self.lineage is None else self.lineage.paths(self.pool.at(rows[::top_k]))
        return Decoding(self.pool.structures[rows].to("cpu"), energies.view(-1, top_k).cpu(), trace)


def joined(parts: Sequence[Tensor | None]) -> Tensor | None:
    """All parts as one tensor; None if they are None."""
    known = [part for part in parts if part is not None]
    return torch.cat(known) if known else None


def from_the_start(back: Tensor) -> Tensor:
    """Reverse paths (L, B) that were followed back from their ends; repeated entries come last."""
    edits = (back.diff(dim=0) != 0).sum(dim=0)
    steps = torch.arange(len(back), device=back.device).unsqueeze(1)
    return back.gather(0, (edits - steps).clamp(min=0))


def first_of_each(values: Tensor) -> Tensor:
    """The row of the first entry of each distinct value, ascending."""
    ordered, order = values.sort(stable=True)
    first = torch.ones_like(ordered, dtype=torch.bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return order[first].sort().values


def contains(ordered: Tensor, values: Tensor) -> Tensor:
    """(N,) true for values that are among the ascending `ordered`."""
    place = torch.searchsorted(ordered, values).clamp(max=len(ordered) - 1)
    return ordered[place] == values
