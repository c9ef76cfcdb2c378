"""The moves between vertices of all the fields of a batch, ranked by a gradient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import torch
from torch import Tensor

from ele_core.numerics.sets.base import ConvexSet
from ele_core.numerics.tensors import Tensors

T = TypeVar("T", bound=Tensors)


def all_switches(geometry: Mapping[str, ConvexSet], batch: T, gradient: T | None) -> tuple[T, Tensor]:
    """Every structure one switch away from each of `batch`, and the row (M,) int64 that each belongs to.

    Rows stay in order. Within a row, moves are sorted by their first-order change of the loss, smallest first, if its
    `gradient` at the relaxed batch is given, else field by field. Fields that are not in `geometry` are copied.
    """
    gains = torch.cat([_field_gains(geometry[name], batch, gradient, name) for name in geometry], dim=1)
    ranked = gains.sort(dim=1, stable=True)
    row, rank = ranked.values.isfinite().nonzero(as_tuple=True)
    move = ranked.indices[row, rank]
    moved = batch[row]
    start = 0
    for name, field in geometry.items():
        own = ((move >= start) & (move < start + field.switches)).nonzero().squeeze(1)
        labels = getattr(moved, name)
        moved = moved.replace(**{name: labels.index_copy(0, own, field.switch(labels[own], move[own] - start))})
        start += field.switches
    return moved, row


def _field_gains(field: ConvexSet, batch: Tensors, gradient: Tensors | None, name: str) -> Tensor:
    return field.switch_gains(getattr(batch, name), None if gradient is None else getattr(gradient, name))
