"""A loss over many rows in little memory: parts of it are computed again when their gradients are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ele_core.numerics.tensors import Tensors


def in_chunks(function: Callable[[Any], Tensor], rows: Any, size: int | None) -> Tensor:
    """`function(rows)`, a value for each row of a batch or tensor, computed for at most `size` rows at once.

    Only the values are kept. Once their gradients are known, `function` is computed again for each part, with the same
    random numbers, and its gradient added: the memory of one part at a time. None: all rows at once, computed once.
    """
    if size is None or len(rows) <= size:
        return function(rows)
    parts = (rows[start : start + size] for start in range(0, len(rows), size))
    return torch.cat([recomputed(function, part) for part in parts])


def recomputed(function: Callable[[Any], Tensor], part: Any) -> Tensor:
    """`function(part)`, which is computed again for its gradient."""
    # torch replays the random numbers of the devices that it finds among the tensors it is given
    tensors = [tensor for _, tensor in part.named_tensors()] if isinstance(part, Tensors) else [part]
    found: Tensor = checkpoint(lambda *_: function(part), *tensors, use_reentrant=False)
    return found
