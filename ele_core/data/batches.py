"""Batches of training rows, as a pure function of seed, epoch and step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

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

    The i-th batch depends only on the seed, the stage and i.
    """

    def __init__(self, count: int, size: int, context: Context, stage: str, sizes: Tensor | None = None) -> None:
        self._batches_of: Callable[[int], list[Tensor]] = lambda epoch: epoch_batches(
            count, size, context, stage, epoch, sizes
        )
        self._per_epoch = steps_per_epoch(count, size)
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
    count: int, size: int, context: Context, stage: str, epoch: int, sizes: Tensor | None = None
) -> list[Tensor]:
    """Return the ⌈count/size⌉ batches of one epoch."""
    generator = context.generator(stage, "epoch", epoch)
    order = torch.randperm(count, generator=generator)
    if sizes is None:
        return list(order.split(size))
    pools = order.split(size * BUCKETED_BATCHES)
    rows = torch.cat([pool[sizes[pool].argsort(stable=True)] for pool in pools]).split(size)
    return [rows[i] for i in torch.randperm(len(rows), generator=generator).tolist()]


def steps_per_epoch(count: int, size: int) -> int:
    """Return ⌈count/size⌉."""
    return math.ceil(count / size)
