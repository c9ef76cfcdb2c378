"""Which of many graphs occur among others."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ele_core import Context, member
from ele_graphs.graphs.batch import CompactGraphs, Graphs
from ele_graphs.graphs.keys import graph_keys

AT_ONCE = 1 << 16


def occurring(
    graphs: CompactGraphs,
    keys: Tensor,
    context: Context,
    description: str,
    key: Callable[[Graphs], Tensor] = graph_keys,
) -> Tensor:
    """(B,) bool: the graphs whose `key` is among `keys` (N, 2), with a progress bar named `description`."""
    starts = range(0, len(graphs), AT_ONCE)
    shown = context.monitor.progress(starts, description=description, total=len(starts))
    hits = [member(key(graphs[start : start + AT_ONCE]), of=keys) for start in shown]
    return torch.cat(hits) if hits else torch.zeros(0, dtype=torch.bool)
