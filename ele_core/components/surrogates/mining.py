"""Mining: batches of structures with similar embeddings, so that the contrastive loss has hard negatives."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Generator, Tensor

from ele_core.data.batches import Batches, BlockOrder
from ele_core.runtime.context import Context


class MinedBatches(Batches):
    """Batches of `size` rows, made of groups of `group` rows with similar embeddings.

    Every `refresh` batches, the next rows of a block in random order are embedded by `embed(rows)` with the current
    weights, and grouped by distance; the groups are shuffled into batches.
    """

    def __init__(
        self,
        blocks: Sequence[int],
        size: int,
        group: int,
        refresh: int,
        embed: Callable[[Tensor], Tensor],
        context: Context,
        stage: str,
    ) -> None:
        self._order = BlockOrder(blocks, size * refresh, context, stage)
        self._generator: Callable[..., Generator] = partial(context.generator, stage, "groups")
        self._size = size
        self._group = group
        self._pooled = size * refresh
        self._embed = embed
        self._processes = context.processes
        self._next = 0
        self._waiting = torch.zeros(0, dtype=torch.long)

    def draw(self) -> Tensor:
        """The rows of the next batch."""
        if len(self._waiting) == 0:
            self._waiting = self._arranged(self._next)
            self._next += 1
        batch, self._waiting = self._waiting[: self._size], self._waiting[self._size :]
        return batch

    def state(self) -> dict[str, Tensor]:
        """The number of the pool, and its rows not drawn yet: the embedding that grouped them has changed since."""
        return {"waiting": self._waiting, "next": torch.tensor(self._next)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Continue with the rows that were not drawn yet."""
        self._waiting, self._next = state["waiting"], int(state["next"])

    def _arranged(self, number: int) -> Tensor:
        """The rows of a pool, counted through all epochs, those with similar embeddings together."""
        epoch, block, place = self._order.find(number)
        rows = self._order.block(epoch, block)[0][place * self._pooled : (place + 1) * self._pooled]
        generator = self._generator(epoch, number % self._order.per_epoch)
        groups = near_groups(self._embed(rows), self._group, generator)
        arranged = rows[groups[torch.randperm(len(groups), generator=generator)].flatten()]
        return self._processes.from_main({"rows": arranged})["rows"]  # rounding may differ from machine to machine


def near_groups(embeddings: Tensor, size: int, generator: Generator) -> Tensor:
    """Groups (G, size) of rows of embeddings (N, d) that are near each other, each row at most once.

    A random projection tree: every cell is cut at the median along the difference of two of its members, repeatedly,
    until cells have `size` members. As G is a power of two, some rows are skipped.
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
