"""Pack many objects: either collect the reason for each that is refused, or raise at the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ele_core.errors import InvalidObject
from ele_core.interfaces import OutputSpace
from ele_core.numerics.tensors import Tensors
from ele_core.runtime.context import Context

PACKED_AT_ONCE = 1024
"""Objects that are given to `pack` at a time."""
Object = TypeVar("Object")


def accept(
    objects: Sequence[Object], function: Callable[[Sequence[Object]], Tensors]
) -> tuple[list[Tensors], list[int], list[tuple[int, str]]]:
    """Pack the valid objects; return the batches, the positions packed, and (position, reason) of the others.

    After a refused object the next are packed one, two, four, … at a time, up to `PACKED_AT_ONCE`: an object is packed
    a few times at most, however many are refused.
    """
    packed: list[Tensors] = []
    accepted: list[int] = []
    refused: list[tuple[int, str]] = []
    known: list[tuple[int, str]] = []  # refused, but after the objects that are packed next; the nearest is the last
    start, size = 0, PACKED_AT_ONCE
    while start < len(objects):
        stop = known[-1][0] if known else len(objects)
        if start == stop:
            refused.append(known.pop())
            start, size = start + 1, 1
            continue
        rows = range(start, min(start + size, stop))
        try:
            packed.append(function([objects[row] for row in rows]))
        except InvalidObject as error:
            known.append((rows[error.index], error.reason))
        else:
            accepted += rows
            start, size = rows.stop, min(2 * size, PACKED_AT_ONCE)
    return packed, accepted, refused


def pack_all(space: OutputSpace[Any, Any], objects: Sequence[Any], context: Context, first: int = 0) -> Any:
    """Pack all `objects` into one batch, with progress; the first that is not in the space raises with its position.

    Positions are counted from `first`.
    """
    starts = range(0, len(objects), PACKED_AT_ONCE)
    parts = []
    for start in context.monitor.progress(starts, description="packing outputs"):
        try:
            parts.append(space.pack(objects[start : start + PACKED_AT_ONCE]))
        except InvalidObject as error:
            error.shift(first + start)
            raise
    return space.Batch.cat(parts) if parts else space.pack([])
