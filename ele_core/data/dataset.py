"""Data sets, their splits and their fingerprints."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ele_core.data.objects import Lines, Rejected
from ele_core.errors import DataError, counted
from ele_core.numerics.tensors import Tensors

if TYPE_CHECKING:
    from ele_core.data.large import StoredPairs

LEAST_CALIBRATION = 20
"""The least number of pairs to calibrate with."""


@dataclasses.dataclass(frozen=True)
class DataSet:
    """Pairs of inputs and packed outputs with their split; `extra` are outputs without inputs."""

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
    """The row of the source that each pair came from. None: pair i is row i."""
    lines: Lines | None = None
    """The line at which each row of the source begins, counted from 1. None: unknown."""
    notes: Sequence[str] = ()
    """Lines for the user on how the source was read."""
    any_truth: bool = False
    """Whether an input that occurs several times has several right outputs: it is evaluated once, against the nearest
    of them. Else every pair is evaluated by itself. Training always uses every pair."""
    calibration: Tensor = dataclasses.field(default_factory=lambda: torch.arange(0))
    """Rows set aside to learn the confidence of predictions; ELE takes them from `train`."""
    alike: Tensor | None = None
    """(N,) a number for each pair, the same for pairs that stay in one part of the split. None: all are different."""
    keys: Tensor | None = None
    """(N,) a hash of each pair, equal for pairs that stay in one part of the split. None: all pairs are in memory."""
    stored: StoredPairs | None = None
    """All training pairs, on disk; those at `train` are a sample of them. None: those at `train` are all."""

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def training_pairs(self) -> int:
        """The number of training pairs, in memory or on disk."""
        return len(self.train) if self.stored is None else len(self.stored)

    @property
    def pairs(self) -> int:
        """The number of all pairs, in memory or on disk."""
        return len(self) - len(self.train) + self.training_pairs

    @property
    def left_out(self) -> int:
        """The number of rows that cannot be used."""
        return len(self.rejected) if self.stored is None else self.stored.left_out

    def with_split(self, train: Tensor, validation: Tensor, test: Tensor, calibration: Tensor) -> DataSet:
        """Return the same pairs with another split."""
        return dataclasses.replace(self, train=train, validation=validation, test=test, calibration=calibration)

    def set_aside(self, size: float, example: Tensor, generator: torch.Generator) -> DataSet:
        """Return the same pairs with training rows moved to `calibration`: a share if `size` is below 1, else a number.

        Training rows with the same number in `example`, which begins at 0, stay together; sizes are counted in these.
        """
        count = int(example.max()) + 1 if len(example) else 0
        number = round(size * count) if size < 1 else int(size)
        if number < LEAST_CALIBRATION:
            what = f"{counted(number, 'pair')} cannot tell how far to trust predictions."
            fix = f"Set calibration.pairs to {LEAST_CALIBRATION} or more, or to 0 for no calibration."
            raise DataError(what, where="calibration.pairs", fix=fix)
        if number >= count > 0:
            what = f"{counted(count, 'training pair')} cannot give {number} for the calibration and leave some."
            raise DataError(what, where="data", fix="Set calibration.pairs lower, or bring more pairs.")
        taken = torch.zeros(count, dtype=torch.bool)
        taken[torch.randperm(count, generator=generator)[:number]] = True
        aside = taken[example]
        return dataclasses.replace(self, train=self.train[~aside], calibration=self.train[aside])

    def keep(self, rows: Tensor, rejected: Sequence[Rejected]) -> DataSet:
        """Return only the pairs at `rows`, in the same split; `rejected` says why the others are omitted."""
        place = torch.full((len(self),), -1)
        place[rows] = torch.arange(len(rows))
        parts = [place[part][place[part] >= 0] for part in (self.train, self.validation, self.test, self.calibration)]
        source = [self.source_row(row) for row in rows.tolist()]
        alike, keys = (None if each is None else each[rows] for each in (self.alike, self.keys))
        kept = dataclasses.replace(
            self, inputs=self.inputs_at(rows), outputs=self.outputs[rows], rows=source, alike=alike, keys=keys
        )
        return dataclasses.replace(kept.with_split(*parts), rejected=[*self.rejected, *rejected])

    def source_row(self, row: int) -> int:
        """Return the row of the source that the pair at `row` came from."""
        return row if self.rows is None else self.rows[row]

    def inputs_at(self, rows: Tensor) -> list[Any]:
        """Return the inputs at `rows`."""
        return [self.inputs[row] for row in rows.tolist()]


def fingerprint(inputs: Iterable[str], *outputs: Tensors) -> str:
    """Return the SHA-256 of pairs: inputs as texts, outputs as packed batches."""
    digest = hashlib.sha256("\n".join(inputs).encode())
    for batch in outputs:
        for tensor in batch.as_dict().values():
            digest.update(tensor.cpu().numpy().tobytes())
    return digest.hexdigest()


def split_examples(example: Tensor, validation: float, test: float, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Split pairs so that those with the same number in `example` (N,) stay together; sizes are counted in examples.

    The numbers begin at 0, and each occurs.
    """
    count = int(example.max()) + 1

    def pairs_of(part: Tensor) -> Tensor:
        place = torch.full((count,), -1)
        place[part] = torch.arange(len(part))
        rows = (place[example] >= 0).nonzero().flatten()
        return rows[place[example[rows]].argsort(stable=True)]

    train, validating, testing = map(pairs_of, split(count, validation, test, seed))
    return train, validating, testing


def split(count: int, validation: float, test: float, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw (train, validation, test) rows from `seed`: test first, then validation.

    `validation` and `test` are shares if below 1, else numbers of rows; a positive share gives at least one row.
    """
    sizes = [max(round(size * count), int(size > 0)) if size < 1 else int(size) for size in (test, validation)]
    if sum(sizes) >= count:
        pairs = counted(count, "pair")
        what = f"{pairs} cannot give {sizes[0]} for test and {sizes[1]} for validation and leave some to train on"
        fix = "Set `validation` and `test` lower, in [task] or [data], or bring more pairs."
        raise DataError(what + ".", where="data", fix=fix)
    rows = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    held_out = sum(sizes)
    return rows[held_out:], rows[sizes[0] : held_out], rows[: sizes[0]]
