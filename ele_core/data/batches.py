"""Batches of training rows, as a pure function of seed, epoch and step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise

import torch
from torch import Generator, Tensor

from ele_core.runtime.context import Context

BUCKETED_BATCHES = 50
"""Batches whose rows are sorted by length together: enough to need little padding, few enough to stay random."""


class Batches(ABC):
    """An endless sequence of training batches, as row numbers; its position can be saved as tensors."""

    @abstractmethod
    def draw(self) -> Tensor:
        """Return the rows of the next batch."""

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """Return the position in the sequence."""

    @abstractmethod
    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Continue from the position `state`."""


class BlockOrder:
    """Parts of at most `size` rows of each block, block after block, in another order of the blocks in each epoch.

    `blocks` is where blocks begin, and where the last one ends, as `Source.blocks`.
    """

    def __init__(self, blocks: Sequence[int], size: int, context: Context, stage: str) -> None:
        self._ends = list(pairwise(blocks))
        self._counts = [steps_per_epoch(end - first, size) for first, end in self._ends]
        self.per_epoch = sum(self._counts)
        self._generator: Callable[..., Generator] = partial(context.generator, stage, "epoch")
        self._order: tuple[int, list[int]] = (-1, [])

    def find(self, number: int) -> tuple[int, int, int]:
        """Return the epoch and the block of a part, counted through all epochs, and its place in the block."""
        epoch, place = divmod(number, self.per_epoch)
        if self._order[0] != epoch:
            self._order = epoch, torch.randperm(len(self._ends), generator=self._generator(epoch)).tolist()
        blocks = iter(self._order[1])
        while place >= self._counts[block := next(blocks)]:
            place -= self._counts[block]
        return epoch, block, place

    def block(self, epoch: int, block: int) -> tuple[Tensor, Generator]:
        """Return the rows of a block, shuffled for an epoch, and the generator that did it."""
        first, end = self._ends[block]
        generator = self._generator(epoch) if len(self._ends) == 1 else self._generator(epoch, block)
        return first + torch.randperm(end - first, generator=generator), generator


class PerRow:
    """Values of rows that are computed when they are asked for, because there are too many to keep."""

    def __init__(self, compute: Callable[[Tensor], Tensor]) -> None:
        self._compute = compute

    def __getitem__(self, rows: Tensor) -> Tensor:
        """The values of `rows`, one row of a tensor for each."""
        return self._compute(rows)


class ShuffledBatches(Batches):
    """Batches of a new permutation of `count` rows in each epoch; with `sizes`, a batch holds inputs of similar length.

    The i-th batch depends only on the seed, the stage and i. With several `blocks` (`Source.blocks`), a batch holds
    rows of one block, and blocks are read one after the other, in another order in each epoch.
    """

    def __init__(
        self,
        count: int,
        size: int,
        context: Context,
        stage: str,
        sizes: Tensor | PerRow | None = None,
        blocks: Sequence[int] | None = None,
    ) -> None:
        self._order = BlockOrder(blocks or (0, count), size, context, stage)
        self._size, self._sizes = size, sizes
        self._drawn = 0
        self._block: tuple[int, int] = (-1, -1)
        self._batches: list[Tensor] = []

    def draw(self) -> Tensor:
        """Return the rows of the next batch."""
        epoch, block, place = self._order.find(self._drawn)
        if self._block != (epoch, block):
            self._block, self._batches = (epoch, block), self._batches_of(epoch, block)
        self._drawn += 1
        return self._batches[place]

    def state(self) -> dict[str, Tensor]:
        """Return the number of batches drawn."""
        return {"drawn": torch.tensor(self._drawn)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Continue after the recorded number of batches."""
        self._drawn = int(state["drawn"])

    def _batches_of(self, epoch: int, block: int) -> list[Tensor]:
        """Return the batches of a block in an epoch."""
        rows, generator = self._order.block(epoch, block)
        return block_batches(rows, self._size, generator, self._sizes)


def block_batches(order: Tensor, size: int, generator: Generator, sizes: Tensor | PerRow | None) -> list[Tensor]:
    """Return the batches of shuffled rows; with the `sizes` of all rows, a batch holds rows of similar size."""
    if sizes is None:
        return list(order.split(size))
    pools = order.split(size * BUCKETED_BATCHES)
    rows = torch.cat([pool[sizes[pool].argsort(stable=True)] for pool in pools]).split(size)
    return [rows[i] for i in torch.randperm(len(rows), generator=generator).tolist()]


def steps_per_epoch(count: int, size: int) -> int:
    """Return ⌈count/size⌉."""
    return math.ceil(count / size)
