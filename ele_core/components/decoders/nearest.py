"""The candidates of least energy for each query, found exactly and in chunks; other decoders start from them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ele_core.errors import DataError, counted
from ele_core.interfaces import Candidates, Problem, Surrogate
from ele_core.runtime.context import Context

CELLS = 1 << 25
"""Energies in memory at once: 128 MiB, whatever the number of candidates."""


def nearest(queries: Tensor, problem: Problem, k: int, context: Context) -> tuple[Tensor, Tensor]:
    """Energies (B, k), ascending, and rows (B, k) of the k best candidates of each query.

    If candidates belong to inputs and an input has fewer than k, its last energies are infinite.
    """
    candidates = problem.candidates
    if candidates.owner is not None:
        return nearest_of_own(queries, problem.surrogate, candidates, candidates.owner, k)
    if k > len(candidates):
        what = f"{k} structures were asked for, but there are only {counted(len(candidates), 'candidate')}."
        raise DataError(what, where="decoding", fix="Ask for fewer (top_k), or give more candidates.")
    size = max(1, CELLS // len(candidates))
    parts = []
    for part in context.monitor.progress(queries.split(size), description="candidates"):
        energies = problem.surrogate.energies(part, candidates.embeddings)
        parts.append(energies.topk(k, dim=1, largest=False))
    if not parts:
        return queries.new_zeros(0, k), torch.zeros(0, k, dtype=torch.long)
    return torch.cat([part.values for part in parts]), torch.cat([part.indices for part in parts])


def nearest_of_own(
    queries: Tensor, surrogate: Surrogate, candidates: Candidates, owner: Tensor, k: int
) -> tuple[Tensor, Tensor]:
    """As `nearest`, if candidate n belongs to input `owner[n]` only; the best one fills the places of missing ones."""
    sizes = sizes_of_own(owner, len(queries))
    values = queries.new_full((len(queries), k), math.inf)
    rows = torch.zeros(len(queries), k, dtype=torch.long)
    for row, group in enumerate(owner.argsort(stable=True).split(sizes)):
        found = min(k, len(group))
        energies = surrogate.energies(queries[row : row + 1], candidates.embeddings[group])[0]
        best = energies.topk(found, largest=False)
        values[row, :found] = best.values
        rows[row] = group[best.indices[0].cpu()]
        rows[row, :found] = group[best.indices.cpu()]
    return values, rows


def sizes_of_own(owner: Tensor, inputs: int) -> list[int]:
    """The number of candidates of each input; refuse more sets than inputs, and an input without candidates."""
    sizes: list[int] = torch.bincount(owner, minlength=inputs).tolist()
    if len(sizes) > inputs or 0 in sizes:
        sets = f"{counted(len(sizes), 'set')} for {counted(inputs, 'input')}."
        what = f"input {sizes.index(0)} has none." if 0 in sizes else sets
        raise DataError(what, where="candidates", fix="Give at least one candidate for each input.")
    return sizes
