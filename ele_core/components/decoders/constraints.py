"""Constraints of many inputs at once: equal constraints are judged together, and once for candidates of all inputs."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from ele_core.errors import ConfigError, DataError, counted
from ele_core.optional import Rules
from ele_core.types import Decoding, Problem

JUDGED = 32
"""Structures of an input that are judged at a time, those of least energy, if its constraint is costly to judge."""
AT_ONCE = 1 << 17
"""Candidates that are judged at once: bounds the memory."""
REMEMBERED = 256
"""Constraints whose satisfying candidates are kept."""
TOGETHER = 64
"""Constraints that are judged while candidates are read once."""


@dataclasses.dataclass(frozen=True)
class Constraints:
    """The constraints of B inputs, with equal ones listed once."""

    rules: Rules[Any]
    distinct: list[Any]
    group: Tensor
    """(B,) int64: the place of each input's constraint among `distinct`; −1: it has none."""

    @classmethod
    def of(cls, problem: Problem, inputs: int, device: torch.device) -> Constraints | None:
        """Those of a problem; None if no input has one."""
        given: Sequence[Any | None] = problem.constraints or [None] * inputs
        places: dict[str, int] = {}
        distinct: list[Any] = []
        group = []
        for constraint in given:
            place = -1 if constraint is None else places.setdefault(name_of(constraint), len(places))
            if place == len(distinct):
                distinct.append(constraint)
            group.append(place)
        return cls(problem.rules, distinct, torch.tensor(group, device=device)) if distinct else None

    def rows(self, first: int, end: int) -> Constraints:
        """Those of the inputs from `first` up to `end`."""
        return dataclasses.replace(self, group=self.group[first:end])

    @cached_property
    def costly(self) -> Tensor:
        """(B,) bool: whether the constraint of each input is costly to judge."""
        found = torch.tensor([*map(self.rules.costly, self.distinct), False], device=self.group.device)
        return found[self.group]

    @property
    def bound(self) -> Tensor:
        """(B,) bool: whether each input has a constraint."""
        return self.group >= 0

    def violation(self, structures: Any, owner: Tensor) -> Tensor:
        """(N,) floats: the violation of structure n by the constraint of input `owner[n]`; 0 if that has none."""
        return self._judged(self.rules.violation, structures, owner, torch.zeros(len(owner), device=owner.device))

    def satisfied(self, structures: Any, owner: Tensor) -> Tensor:
        """(N,) bool: whether structure n satisfies the constraint of input `owner[n]`."""
        return self._judged(self.rules.satisfies, structures, owner, torch.ones_like(owner, dtype=torch.bool))

    def _judged(self, judge: Callable[[Any, Any], Tensor], structures: Any, owner: Tensor, found: Tensor) -> Tensor:
        """Fill `found` (N,) with the judgement of each structure, constraint by constraint."""
        group = self.group.to(owner.device)[owner]
        for place in group.unique().tolist():
            if place >= 0:
                rows = (group == place).nonzero().flatten()
                found[rows] = judge(structures[rows], self.distinct[place]).to(found)
        return found


def satisfying(problem: Problem, constraints: Constraints, energies: Tensor) -> Tensor:
    """(B, N) bool: whether each candidate satisfies the constraint of each input.

    If a constraint is costly, it is judged only for the candidates of least energy (B, N), and false for the others.
    """
    kept = torch.ones(
        len(constraints.group), len(problem.candidates), dtype=torch.bool, device=constraints.group.device
    )
    for query in constraints.costly.nonzero().flatten().tolist():
        rows = energies[query].topk(min(JUDGED, energies.shape[1]), largest=False).indices
        owner = torch.full_like(rows, query)
        kept[query] = False
        kept[query, rows] = constraints.satisfied(problem.candidates.batch[rows.cpu()], owner)
    for place in constraints.group[~constraints.costly].unique().tolist():
        if place >= 0:
            rows = satisfying_rows(problem, constraints, place).to(kept.device)
            kept[constraints.group == place] = torch.zeros_like(kept[0]).index_fill(0, rows, True)
    return kept


def satisfying_rows(problem: Problem, constraints: Constraints, place: int) -> Tensor:
    """The rows of the candidates that satisfy a constraint, ascending; remembered with the candidates.

    If it is not known yet, the next constraints are judged with it: candidates are read once for all of them.
    """
    known, own = problem.candidates.satisfying, constraints.distinct[place]
    if name_of(own) not in known:
        following = [each for each in constraints.distinct[place:] if not constraints.rules.costly(each)]
        named = {name_of(each): each for each in (own, *following[:TOGETHER])}
        wanted = {name: each for name, each in named.items() if name not in known}
        found, first = {name: list[Tensor]() for name in wanted}, 0
        for part in problem.candidates.batch.chunks(AT_ONCE):
            for name, each in wanted.items():
                found[name].append(first + problem.rules.satisfies(part, each).cpu().nonzero().flatten())
            first += len(part)
        for name, parts in found.items():
            if len(known) >= REMEMBERED:
                del known[next(iter(known))]
            known[name] = torch.cat(parts)
    return known[name_of(own)]


def name_of(constraint: Any) -> str:
    """A text that is equal for equal constraints."""
    return str(constraint.model_dump_json())


def as_bound(constraints: Sequence[Any | None] | None, queries: int) -> Sequence[Any | None] | None:
    """The constraints of the queries, None if no query has one; refuse another number of constraints than queries."""
    if constraints is None or all(constraint is None for constraint in constraints):
        return None
    if len(constraints) != queries:
        what = f"{counted(len(constraints), 'constraint')} for {counted(queries, 'input')}."
        raise DataError(what, where="constraints", fix="Give one for each input, or None for an input without.")
    return constraints


def digest_of(constraints: Sequence[Any | None]) -> str:
    """A short text that differs for different constraints."""
    names = ["" if constraint is None else name_of(constraint) for constraint in constraints]
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]


def require_obeyed(found: Decoding, problem: Problem, decoder: str) -> None:
    """Raise `ConfigError` if a structure of finite energy does not satisfy the constraint of its query."""
    if problem.constraints is None:
        return
    rows = found.energies.flatten().isfinite().nonzero().flatten()
    if not problem.satisfied(found.structures[rows], rows // found.top_k).all():
        what = (
            f"'{decoder}' ignores constraints: a structure that it found does not satisfy the constraint of its input."
        )
        raise ConfigError(what, where="decoder", fix="Decode with 'candidates' or 'search'.")
