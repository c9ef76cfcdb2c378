"""Keys: batched 128-bit hashes of integer tensors, and functions that compare and count rows by their keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

# Odd 64-bit constants of the SplitMix64 finaliser, as signed integers (torch has no unsigned arithmetic).
_GOLDEN = -7046029254386353131
_MIX_1 = -4658895280553007687
_MIX_2 = -7723592293110705685
SAME = 1e-5
"""Relative differences of sums up to this are rounding."""


def mix(values: Tensor) -> Tensor:
    """SplitMix64's finaliser, elementwise on int64: a bijection whose every output bit depends on every input bit."""
    values = values + _GOLDEN
    values = (values ^ _shift_right(values, 30)) * _MIX_1
    values = (values ^ _shift_right(values, 27)) * _MIX_2
    return values ^ _shift_right(values, 31)


def hash_rows(tensors: Sequence[Tensor]) -> Tensor:
    """One key per row: integer tensors (B, …) → (B, 2) int64.

    Each entry is mixed with its position, and the row's sum is mixed again; two salts give two independent halves.
    """
    flat = torch.cat(
        [tensor.reshape(len(tensor), tensor.shape[1:].numel()).to(torch.int64) for tensor in tensors], dim=1
    )
    position = torch.arange(flat.shape[1], device=flat.device)
    return torch.stack([_hash(flat, position, salt) for salt in (1, 2)], dim=1)


def _hash(flat: Tensor, position: Tensor, salt: int) -> Tensor:
    return mix(mix(flat ^ mix(position * 2 + salt)).sum(dim=1) + salt)


def _shift_right(values: Tensor, bits: int) -> Tensor:
    """A logical right shift: torch's own is arithmetic on signed integers."""
    return (values >> bits) & ((1 << (64 - bits)) - 1)


def same_keys(keys: Callable[[Any], Tensor], left: Any, right: Any) -> Tensor:
    """(B,) floats: 1 where two batches have the same key, else 0."""
    return (keys(left) == keys(right)).all(dim=1).float()


def distinct(keys: Tensor) -> Tensor:
    """The first row of each distinct key (N, k), in the order of the rows."""
    _, group = torch.unique(keys, dim=0, return_inverse=True)
    size = int(group.max()) + 1 if len(group) else 0
    first = torch.full((size,), len(group), dtype=torch.long, device=keys.device)
    first.scatter_reduce_(0, group, torch.arange(len(group), device=keys.device), reduce="amin")
    return first.sort().values


def member(keys: Tensor, of: Tensor) -> Tensor:
    """(N,) true for keys (N, 2) that are among the keys `of` (M, 2)."""
    _, group = torch.unique(torch.cat([of, keys]), dim=0, return_inverse=True)
    seen = torch.zeros(int(group.max()) + 1 if len(group) else 0, dtype=torch.bool)
    seen[group[: len(of)]] = True
    return seen[group[len(of) :]]


def ranks(owner: Tensor) -> Tensor:
    """The position of each entry among those of the same owner; `owner` (N,) must ascend."""
    counts = torch.bincount(owner)
    return torch.arange(len(owner), device=owner.device) - (counts.cumsum(0) - counts)[owner]


def first_two(values: Tensor, owner: Tensor) -> Tensor:
    """(N,) false for the third and later of equal values of an owner; both ascend, values within each owner."""
    keep = torch.ones_like(owner, dtype=torch.bool)
    close = values[2:] - values[:-2] <= SAME * (1 + values[2:].abs())
    keep[2:] = ~(close & (owner[2:] == owner[:-2]))
    return keep


def fresh_moves(keys: Tensor, owner: Tensor, own: Tensor, limit: int | None = None) -> Tensor:
    """The rows of `keys` (M, 2) that are neither the key `own[owner]` (B, 2) nor that of an earlier row of their owner.

    `owner` (M,) must ascend; with `limit`, at most the first `limit` rows of each owner.
    """
    moved = (keys != own[owner]).any(dim=1).nonzero().flatten()
    rows = moved[distinct(torch.cat([owner[moved, None], keys[moved]], dim=1))]
    return rows if limit is None else rows[ranks(owner[rows]) < limit]
