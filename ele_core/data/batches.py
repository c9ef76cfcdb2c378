"""Batches of training rows, as a pure function of seed, epoch and step."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from ele_core.runtime.context import Context

BUCKETED_BATCHES = 50
"""How many batches are sorted by length together: enough to pad little, few enough to stay random."""


class Batches(ABC):
    """Rows of one training batch after the other, without end; where it stands can be kept as tensors."""

    @abstractmethod
    def draw(self) -> Tensor:
        """The rows of the next batch."""

    @abstractmethod
    def state(self) -> dict[str, Tensor]:
        """Where it stands."""

    @abstractmethod
    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on from there."""


class ShuffledBatches(Batches):
    """Epoch after epoch, each a fresh permutation of `count` rows; with `sizes`, batches hold inputs of like length.

    The i-th batch depends on the seed, the stage and i alone.
    """

    def __init__(self, count: int, size: int, context: Context, stage: str, sizes: Tensor | None = None) -> None:
        self._batches_of: Callable[[int], list[Tensor]] = lambda epoch: epoch_batches(
            count, size, context, stage, epoch, sizes
        )
        self._per_epoch = steps_per_epoch(count, size)
        self._drawn = 0
        self._epoch: tuple[int, list[Tensor]] = (-1, [])

    def draw(self) -> Tensor:
        """The rows of the next batch."""
        number, place = divmod(self._drawn, self._per_epoch)
        if self._epoch[0] != number:
            self._epoch = number, self._batches_of(number)
        self._drawn += 1
        return self._epoch[1][place]

    def state(self) -> dict[str, Tensor]:
        """How many were drawn."""
        return {"drawn": torch.tensor(self._drawn)}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Go on after so many."""
        self._drawn = int(state["drawn"])


def epoch_batches(
    count: int, size: int, context: Context, stage: str, epoch: int, sizes: Tensor | None = None
) -> list[Tensor]:
    """The batches of one epoch, ⌈count/size⌉ of them."""
    generator = context.generator(stage, "epoch", epoch)
    order = torch.randperm(count, generator=generator)
    if sizes is None:
        return list(order.split(size))
    pools = order.split(size * BUCKETED_BATCHES)
    rows = torch.cat([pool[sizes[pool].argsort(stable=True)] for pool in pools]).split(size)
    return [rows[i] for i in torch.randperm(len(rows), generator=generator).tolist()]


def steps_per_epoch(count: int, size: int) -> int:
    """⌈count/size⌉."""
    return math.ceil(count / size)
