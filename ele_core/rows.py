"""Rows by their keys: the first of each, those among others, and the place of each within its owner."""

from __future__ import annotations

import torch
from torch import Tensor


def distinct(keys: Tensor) -> Tensor:
    """The first row of each distinct key (N, k), in the order of the rows."""
    _, group = torch.unique(keys, dim=0, return_inverse=True)
    size = int(group.max()) + 1 if len(group) else 0
    first = torch.full((size,), len(group), dtype=torch.long, device=keys.device)
    first.scatter_reduce_(0, group, torch.arange(len(group), device=keys.device), reduce="amin")
    return first.sort().values


def member(keys: Tensor, of: Tensor) -> Tensor:
    """(N,) true where a key (N, 2) is among the keys `of` (M, 2)."""
    _, group = torch.unique(torch.cat([of, keys]), dim=0, return_inverse=True)
    seen = torch.zeros(int(group.max()) + 1 if len(group) else 0, dtype=torch.bool)
    seen[group[: len(of)]] = True
    return seen[group[len(of) :]]


def ranks(owner: Tensor) -> Tensor:
    """The place of each entry among those of its owner, for owners that stand together in ascending order."""
    counts = torch.bincount(owner)
    return torch.arange(len(owner), device=owner.device) - (counts.cumsum(0) - counts)[owner]


def fresh_moves(keys: Tensor, owner: Tensor, own: Tensor, limit: int | None = None) -> Tensor:
    """The rows of `keys` (M, 2) that are neither the key `own[owner]` (B, 2) nor that of an earlier row of their owner.

    `owner` (M,) ascends; with `limit` at most the first so many of each owner.
    """
    moved = (keys != own[owner]).any(dim=1).nonzero().flatten()
    rows = moved[distinct(torch.cat([owner[moved, None], keys[moved]], dim=1))]
    return rows if limit is None else rows[ranks(owner[rows]) < limit]
