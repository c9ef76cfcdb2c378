"""The decoder that chooses the best of a finite set of candidates."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from ele_core.components.decoders.constraints import JUDGED, Constraints, satisfying, satisfying_rows
from ele_core.energies import least_among
from ele_core.errors import ConfigError, DataError, counted
from ele_core.interfaces import Decoder, Energy
from ele_core.numerics.keys import distinct
from ele_core.runtime.context import Context
from ele_core.types import Candidates, Decoding, Problem


class CandidatesDecoder(Decoder):
    """ŷ = argmin over the candidates of the energy. Cannot find other structures."""

    def decode(
        self, energy: Energy, problem: Problem, *, top_k: int = 1, trace: bool = False, context: Context
    ) -> Decoding:
        """The `top_k` candidates of least energy for each query."""
        energies, rows = nearest(energy, problem, top_k, context)
        least = energies[:, 0].cpu() if problem.constraints is None else None
        return Decoding(problem.candidates.batch[rows.flatten().cpu()], energies.cpu(), nearest=least)


CELLS = 1 << 25
"""Energies in memory at once: 128 MiB, whatever the number of candidates."""
WIDER = 4
"""Candidates that an index is asked for, for each that is wanted: some may be equal, or worse by the whole energy."""
LIKELY = 64
"""The least number of candidates that an index is asked for."""
AT_ONCE = 1 << 16
"""Candidates of an index that are read at once."""


def nearest(energy: Energy, problem: Problem, k: int, context: Context) -> tuple[Tensor, Tensor]:
    """Energies (B, k), ascending, and rows (B, k) of the k best candidates of each query.

    If an input has fewer than k candidates of its own, or fewer than k that satisfy its constraint, its last energies
    are infinite.
    """
    candidates = problem.candidates
    constraints = Constraints.of(problem, len(energy), energy.device)
    if candidates.owner is not None:
        kept = None if constraints is None else constraints.satisfied(candidates.batch, candidates.owner)
        return nearest_of_own(energy, candidates, candidates.owner, k, kept)
    if k > len(candidates):
        what = f"{k} structures were asked for, but there are only {counted(len(candidates), 'candidate')}."
        raise DataError(what, where="decoding", fix="Ask for fewer (top_k), or give more candidates.")
    if candidates.index is not None:
        return likely(energy, problem, k, constraints)
    size = max(1, CELLS // len(candidates))
    parts = []
    for first in context.monitor.progress(range(0, len(energy), size), description="candidates"):
        own = None if constraints is None else constraints.rows(first, first + size)
        parts.append(least(energy[first : first + size], problem, k, own))
    if not parts:
        return torch.zeros(0, k, device=energy.device), torch.zeros(0, k, dtype=torch.long)
    values, rows = zip(*parts, strict=True)
    return torch.cat(values), torch.cat(rows)


def least(energy: Energy, problem: Problem, k: int, constraints: Constraints | None) -> tuple[Tensor, Tensor]:
    """As `nearest`, for queries whose energies of all candidates fit into memory."""
    if constraints is None:
        return least_among(energy, problem.candidates, k)
    energies = energy.among(problem.candidates)
    values, rows = best_of(energies, k, satisfying(problem, constraints, energies))
    if len(free := (~constraints.bound).nonzero().flatten()):
        values[free], rows[free] = least_among(energy[free], problem.candidates, k)
    return values, rows


def likely(energy: Energy, problem: Problem, k: int, constraints: Constraints | None) -> tuple[Tensor, Tensor]:
    """As `nearest`, of the candidates that an index finds, and of those that satisfy a constraint; equal ones once."""
    candidates = problem.candidates
    rows = found_by_index(energy, candidates, k)
    if constraints is not None:
        rows = [satisfying_too(energy, problem, k, constraints, query, own) for query, own in enumerate(rows)]
    owner = torch.arange(len(rows)).repeat_interleave(torch.tensor([len(own) for own in rows], dtype=torch.long))
    places = torch.cat([torch.zeros(0, dtype=torch.long), *rows])
    batch = candidates.batch[places]
    once = distinct(torch.cat([owner[:, None], problem.space.keys(batch)], dim=1))
    places, owner = places[once], owner[once]
    chosen = Candidates(batch[once], candidates.embeddings[places].to(energy.device), owner, candidates.surrogate)
    kept = None if constraints is None else constraints.satisfied(chosen.batch, owner)
    energies, columns = nearest_of_own(energy, chosen, owner, k, kept)
    return energies, places[columns]


def found_by_index(energy: Energy, candidates: Candidates, k: int) -> list[Tensor]:
    """The rows of candidates that an index finds for each query, nearest first: more than k."""
    placed = energy.placed
    if placed is None or candidates.index is None:
        what = f"an index finds candidates by a squared distance, which the energy of {energy} is not."
        raise ConfigError(what, where="candidates", fix="Give the candidates as a file.")
    distances, rows = candidates.index.search(placed.queries, min(max(WIDER * k, LIKELY), len(candidates)))
    return [own[found] for own, found in zip(rows.cpu(), distances.isfinite().cpu(), strict=True)]


def satisfying_too(
    energy: Energy, problem: Problem, k: int, constraints: Constraints, query: int, rows: Tensor
) -> Tensor:
    """The `rows` found for a query and the best that satisfy its constraint; of a costly one those to be judged."""
    if constraints.costly[query]:
        return rows[:JUDGED]
    if not constraints.bound[query]:
        return rows
    satisfied = satisfying_rows(problem, constraints, int(constraints.group[query]))
    return torch.cat([rows, best_rows(energy[query : query + 1], problem.candidates, satisfied, k)])


def best_rows(energy: Energy, candidates: Candidates, rows: Tensor, k: int) -> Tensor:
    """At least k of the `rows` with the least energies for the one query, or all if there are not as many."""
    while len(rows) > max(AT_ONCE, 2 * k):
        parts = rows.split(max(AT_ONCE, 2 * k))
        best = [least_among(energy, candidates[part], min(k, len(part)))[1][0].cpu() for part in parts]
        rows = torch.cat([part[own] for part, own in zip(parts, best, strict=True)])
    return rows


def best_of(energies: Tensor, k: int, kept: Tensor | None) -> tuple[Tensor, Tensor]:
    """The k least energies (B, k) of those that are `kept` (B, N), and their columns; the least of all fills up."""
    if kept is None:
        best = energies.topk(k, dim=1, largest=False)
        return best.values, best.indices
    least = energies.argmin(dim=1, keepdim=True)
    best = energies.masked_fill(~kept.to(energies.device), math.inf).topk(k, dim=1, largest=False)
    return best.values, torch.where(best.values.isinf(), least, best.indices)


def nearest_of_own(
    energy: Energy, candidates: Candidates, owner: Tensor, k: int, kept: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """As `nearest`, if candidate n belongs to input `owner[n]` only; the best one fills the places of missing ones.

    `kept` (N,) bool: only these are chosen.
    """
    sizes = sizes_of_own(owner, len(energy))
    values = []
    rows = torch.zeros(len(energy), k, dtype=torch.long)
    for row, group in enumerate(owner.argsort(stable=True).split(sizes)):
        found = min(k, len(group))
        energies = energy[row : row + 1].among(candidates[group])
        own, columns = best_of(energies, found, None if kept is None else kept[group][None])
        values.append(functional.pad(own, (0, k - found), value=math.inf))
        rows[row] = group[columns[0, 0].cpu()]
        rows[row, :found] = group[columns[0].cpu()]
    return torch.cat(values) if values else torch.zeros(0, k, device=energy.device), rows


def sizes_of_own(owner: Tensor, inputs: int) -> list[int]:
    """The number of candidates of each input; refuse more sets than inputs, and an input without candidates."""
    sizes: list[int] = torch.bincount(owner, minlength=inputs).tolist()
    if len(sizes) > inputs or 0 in sizes:
        sets = f"{counted(len(sizes), 'set')} for {counted(inputs, 'input')}."
        what = f"input {sizes.index(0)} has none." if 0 in sizes else sets
        raise DataError(what, where="candidates", fix="Give at least one candidate for each input.")
    return sizes
