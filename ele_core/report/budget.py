"""How many inputs a report may decode again: as many as a decoder does in a minute."""

from __future__ import annotations

import time

from torch import Tensor

from ele_core.model.model import Model
from ele_core.runtime.context import Context
from ele_core.types import Choice

SECONDS = 60.0
TIMED = 2
"""Inputs that are decoded to measure the time."""


def affordable(
    model: Model, queries: Tensor, decoder: Choice | None = None, *, top_k: int = 1, context: Context
) -> int:
    """How many of the queries can be decoded in `SECONDS`, judged by the first ones; at least these."""
    started = time.monotonic()
    model.decode(queries[:TIMED], decoder, top_k=top_k, context=context)
    seconds = max(time.monotonic() - started, 1e-9) / TIMED
    return min(len(queries), max(TIMED, int(SECONDS / seconds)))
