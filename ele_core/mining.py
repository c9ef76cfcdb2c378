"""Batches of near structures: negatives that a contrastive loss can still learn from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from torch import Generator, Tensor

from ele_core.context import Context


def mined_batches(
    count: int, size: int, group: int, refresh: int, embed: Callable[[Tensor], Tensor], context: Context, stage: str
) -> Iterator[Tensor]:
    """Rows of one batch after the other, without end: each of `size` rows, made of groups of `group` near ones.

    Every `refresh` batches the next rows of a random permutation are embedded by `embed(rows)` as it is then, and
    grouped by nearness; the groups are shuffled into batches.
    """
    epoch = 0
    while True:
        order = torch.randperm(count, generator=context.generator(stage, "epoch", epoch))
        for number, rows in enumerate(order.split(size * refresh)):
            generator = context.generator(stage, "groups", epoch, number)
            groups = near_groups(embed(rows), group, generator)
            shuffled = groups[torch.randperm(len(groups), generator=generator)]
            yield from rows[shuffled.flatten()].split(size)
        epoch += 1


def near_groups(embeddings: Tensor, size: int, generator: Generator) -> Tensor:
    """Places (G, size) of embeddings (N, d) that lie near each other, each place at most once.

    A random projection tree: every cell is cut at the median along the difference of two of its members, again and
    again, until cells hold `size`. As G is a power of two, some places are left out.
    """
    count = len(embeddings)
    levels = max(0, int(math.log2(count / size))) if count >= size else 0
    cell = min(size, count)
    cells = torch.randperm(count, generator=generator)[None, : cell << levels]
    for _ in range(levels):
        pair = torch.randint(cells.shape[1], (len(cells), 2), generator=generator)
        ends = embeddings[cells.gather(1, pair)]
        along = torch.bmm(embeddings[cells], (ends[:, 0] - ends[:, 1]).unsqueeze(2)).squeeze(2)
        cells = cells.gather(1, along.argsort(dim=1, stable=True)).view(2 * len(cells), -1)
    return cells
