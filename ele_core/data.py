"""Data sets, their splits, and batches as a pure function of seed, epoch and step."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from ele_core.context import Context
from ele_core.errors import DataError, InvalidObject
from ele_core.interfaces import OutputSpace
from ele_core.tensors import Tensors

BUCKETED_BATCHES = 50
"""How many batches are sorted by length together: enough to pad little, few enough to stay random."""
PACKED_AT_ONCE = 1024

Object = TypeVar("Object")


@dataclasses.dataclass(frozen=True)
class Rejected:
    """A row that was not used, and why."""

    row: int
    text: str
    reason: str


@dataclasses.dataclass(frozen=True)
class DataSet:
    """Pairs of inputs and packed outputs with their split; `extra` outputs come without inputs."""

    inputs: Sequence[Any]
    outputs: Any
    train: Tensor
    validation: Tensor
    test: Tensor
    source: str
    fingerprint: str
    extra: Any | None = None
    rejected: Sequence[Rejected] = ()
    rows: Sequence[int] | None = None
    """Which row of the source each pair came from; none: all of them, in order."""

    def __len__(self) -> int:
        return len(self.inputs)

    def with_split(self, train: Tensor, validation: Tensor, test: Tensor) -> DataSet:
        """The same pairs, split otherwise."""
        return dataclasses.replace(self, train=train, validation=validation, test=test)

    def keep(self, rows: Tensor, rejected: Sequence[Rejected]) -> DataSet:
        """Only the pairs at `rows`, their split kept; why the others went is added to `rejected`."""
        place = torch.full((len(self),), -1)
        place[rows] = torch.arange(len(rows))
        parts = [place[part][place[part] >= 0] for part in (self.train, self.validation, self.test)]
        source = [self.source_row(row) for row in rows.tolist()]
        kept = dataclasses.replace(self, inputs=self.inputs_at(rows), outputs=self.outputs[rows], rows=source)
        return dataclasses.replace(kept.with_split(*parts), rejected=[*self.rejected, *rejected])

    def source_row(self, row: int) -> int:
        """The row of the source that the pair at `row` came from."""
        return row if self.rows is None else self.rows[row]

    def inputs_at(self, rows: Tensor) -> list[Any]:
        """The inputs at `rows`."""
        return [self.inputs[row] for row in rows.tolist()]


def fingerprint(inputs: Iterable[str], *outputs: Tensors) -> str:
    """The SHA-256 of pairs: inputs as texts, outputs as packed."""
    digest = hashlib.sha256("\n".join(inputs).encode())
    for batch in outputs:
        for tensor in batch.as_dict().values():
            digest.update(tensor.cpu().numpy().tobytes())
    return digest.hexdigest()


def split(count: int, validation: float, test: float, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Seeded (train, validation, test) rows: test is drawn first, then validation.

    Values below 1 are shares, of which a positive one gives at least one row.
    """
    sizes = [max(round(size * count), int(size > 0)) if size < 1 else int(size) for size in (test, validation)]
    if sum(sizes) >= count:
        what = f"{count} pairs cannot give {sizes[0]} for test and {sizes[1]} for validation and leave some to train on"
        fix = "Set `validation` and `test` lower, in [task] or [data], or bring more pairs."
        raise DataError(what + ".", where="data", fix=fix)
    rows = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    held_out = sum(sizes)
    return rows[held_out:], rows[sizes[0] : held_out], rows[: sizes[0]]


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


def accept(
    objects: Sequence[Object], function: Callable[[Sequence[Object]], Tensors]
) -> tuple[list[Tensors], list[int], list[tuple[int, str]]]:
    """Pack what can be packed: the batches, the positions that went in, and (position, reason) of the others."""
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
            # What stands before the first bad row is good: no row is packed again and again.
            blocks.extendleft(part for part in (rows[error.index + 1 :], rows[: error.index]) if part)
    return packed, accepted, refused


def pack_all(space: OutputSpace[Any, Any], objects: Sequence[Any], context: Context) -> Any:
    """One batch of all `objects`, with progress; the first that is not in the space raises with its position."""
    starts = range(0, len(objects), PACKED_AT_ONCE)
    parts = []
    for start in context.monitor.progress(starts, description="packing outputs"):
        try:
            parts.append(space.pack(objects[start : start + PACKED_AT_ONCE]))
        except InvalidObject as error:
            error.shift(start)
            raise
    return space.Batch.cat(parts) if parts else space.pack([])
