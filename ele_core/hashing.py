"""Batched 128-bit hashes of integer tensors: the default `keys` of a space."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

# Odd 64-bit constants of the SplitMix64 finaliser, as signed integers (torch has no unsigned arithmetic).
_GOLDEN = -7046029254386353131
_MIX_1 = -4658895280553007687
_MIX_2 = -7723592293110705685


def mix(values: Tensor) -> Tensor:
    """SplitMix64's finaliser, elementwise on int64: a bijection whose every output bit depends on every input bit."""
    values = values + _GOLDEN
    values = (values ^ _shift_right(values, 30)) * _MIX_1
    values = (values ^ _shift_right(values, 27)) * _MIX_2
    return values ^ _shift_right(values, 31)


def hash_rows(tensors: Sequence[Tensor]) -> Tensor:
    """One key a row: integer tensors (B, …) → (B, 2) int64.

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
