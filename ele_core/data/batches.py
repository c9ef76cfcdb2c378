"""Batches of training rows, as a pure function of seed, epoch and step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
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
        sizes: Tensor | None = None,
        blocks: Sequence[int] | None = None,
    ) -> None:
        own = blocks or (0, count)
        self._batches_of: Callable[[int], list[Tensor]] = lambda epoch: epoch_batches(
            own, size, context, stage, epoch, sizes
        )
        self._per_epoch = sum(steps_per_epoch(end - first, size) for first, end in pairwise(own))
        self._drawn = 0
        self._epoch: tuple[int, list[Tensor]] = (-1, [])

    def draw(self) -> Tensor:
        """Return the rows of the next batch."""
        number, place = divmod(self._drawn, self._per_epoch)
        if self._epoch[0] != number:
            self._epoch = number, self._batches_of(number)
        self._drawn += 1
        return self._epoch[1][place]

    def state(self) -> dict[str, Tensor]:
        """Return the number of batches drawn."""
        return {"drawn": torch.tensor(self._drawn)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Continue after the recorded number of batches."""
        self._drawn = int(state["drawn"])


def epoch_batches(
    blocks: Sequence[int], size: int, context: Context, stage: str, epoch: int, sizes: Tensor | None = None
) -> list[Tensor]:
    """Return the batches of one epoch: ⌈n/size⌉ for each block of n rows."""
    generator = context.generator(stage, "epoch", epoch)
    if len(blocks) == 2:
        return block_batches(blocks[1], size, generator, sizes)
    found: list[Tensor] = []
    for block in torch.randperm(len(blocks) - 1, generator=generator).tolist():
        first, end = blocks[block], blocks[block + 1]
        own = None if sizes is None else sizes[first:end]
        found += [first + rows for rows in block_batches(end - first, size, generator, own)]
    return found


def block_batches(count: int, size: int, generator: Generator, sizes: Tensor | None) -> list[Tensor]:
    """Return the batches of a block of `count` rows, counted from 0."""
    order = torch.randperm(count, generator=generator)
    if sizes is None:
        return list(order.split(size))
    pools = order.split(size * BUCKETED_BATCHES)
    rows = torch.cat([pool[sizes[pool].argsort(stable=True)] for pool in pools]).split(size)
    return [rows[i] for i in torch.randperm(len(rows), generator=generator).tolist()]


def shuffled(blocks: Sequence[int], generator: Generator) -> Tensor:
    """Return all rows, block after block in a random order, shuffled inside each block."""
    if len(blocks) == 2:
        return torch.randperm(blocks[1], generator=generator)
    order = torch.randperm(len(blocks) - 1, generator=generator).tolist()
    return torch.cat([blocks[b] + torch.randperm(blocks[b + 1] - blocks[b], generator=generator) for b in order])


def steps_per_epoch(count: int, size: int) -> int:
    """Return ⌈count/size⌉."""
    return math.ceil(count / size)
