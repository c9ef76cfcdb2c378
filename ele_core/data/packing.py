"""Pack many objects: either collect the reason for each that is refused, or raise at the first."""

from __future__ import annotations

from collections import deque
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
    """Pack the valid objects; return the batches, the positions packed, and (position, reason) of the others."""
    packed: list[Tensors] = []
    accepted: list[int] = []
    refused: list[tuple[int, str]] = []
    starts = range(0, len(objects), PACKED_AT_ONCE)
    blocks = deque(range(start, min(start + PACKED_AT_ONCE, len(objects))) for start in starts)
    while blocks:
        rows = blocks.popleft()
        try:
            packed.append(function([objects[row] for row in rows]))
            accepted += rows
        except InvalidObject as error:
            refused.append((rows[error.index], error.reason))
            # The rows before the first invalid one are valid: they are packed only once more.
            blocks.extendleft(part for part in (rows[error.index + 1 :], rows[: error.index]) if part)
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
