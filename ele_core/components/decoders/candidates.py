"""The decoder that chooses the best of a finite set of candidates."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from ele_core.components.decoders.constraints import Constraints, satisfying
from ele_core.errors import DataError, counted
from ele_core.interfaces import Decoder, Energy
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
    size = max(1, CELLS // len(candidates))
    parts = []
    for first in context.monitor.progress(range(0, len(energy), size), description="candidates"):
        energies = energy[first : first + size].among(candidates)
        own = None if constraints is None else constraints.rows(first, first + size)
        parts.append(best_of(energies, k, None if own is None else satisfying(problem, own, energies)))
    if not parts:
        return torch.zeros(0, k, device=energy.device), torch.zeros(0, k, dtype=torch.long)
    values, rows = zip(*parts, strict=True)
    return torch.cat(values), torch.cat(rows)


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
