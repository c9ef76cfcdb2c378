"""Vector inputs: a fixed number of finite numbers, standardised on request."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ele_core.component import ComponentConfig
from ele_core.errors import InvalidInput, ModelError, counted, damaged
from ele_core.files.archive import brief, read_json
from ele_core.interfaces import InputSpace
from ele_core.numerics.sparse import nearest_rows
from ele_core.numerics.tensors import Tensors
from ele_core.types import Reads

Vector: TypeAlias = npt.NDArray[np.float64] | Sequence[float]
"""One input: an array of shape (D,), or any sequence of numbers; one number is a vector of one."""
Rows: TypeAlias = Sequence[Vector] | npt.NDArray[Any]
"""Many inputs: a sequence of vectors, or an array of shape (B, D)."""


@dataclass(frozen=True, eq=False)
class Vectors(Tensors):
    """Vectors of one dimension."""

    values: Tensor
    """(B, D) float32, standardised if the option `standardise` is true."""


class VectorInput(InputSpace[Vector]):
    """Vectors of numbers, all of the dimension of the training vectors; a 2-D array is a sequence of them."""

    class Config(ComponentConfig):
        """What is done to vectors before a backbone sees them."""

        standardise: bool | None = None
        """Whether each feature is shifted and scaled to mean 0 and deviation 1 over the training vectors; a feature
        that is constant there is only shifted. None: yes, unless every number is 0 or 1."""

    config: Config
    Batch: ClassVar[type[Tensors]] = Vectors
    reads: ClassVar[Reads] = "vectors by default"

    def __init__(self, config: ComponentConfig | None = None) -> None:
        super().__init__(config)
        self._scaling: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None = None
        self._range: tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]] | None = None

    @property
    def dimension(self) -> int:
        """The number of features D."""
        return len(self._fitted()[0])

    def parse(self, text: str) -> Vector:
        """Read numbers separated by commas, semicolons or spaces, with or without brackets: `[0.1, 2, 3]`."""
        inner = re.fullmatch(r"\s*(?:\[(?P<inner>.*)\]|(?P<plain>.*))\s*", text, re.DOTALL)
        words = (inner["plain"] if inner["inner"] is None else inner["inner"]) if inner else ""
        try:
            values = np.array([float(word) for word in re.split(r"\s*[,;]\s*|\s+", words.strip())])
        except ValueError as error:
            what = f"{brief(text, 60)!r} is not a vector of numbers."
            raise InvalidInput(what, fix="Write the numbers with commas or spaces between them.") from error
        _matrix([values], None)
        return values

    def format(self, value: Vector) -> str:
        """The numbers with spaces between them, each with all its digits."""
        return " ".join(repr(float(number)) for number in np.atleast_1d(value))

    def fit(self, values: Rows) -> None:
        """Learn the dimension, and the mean, the deviation and the range of each feature."""
        if len(values) == 0:
            what = "there are no vectors to learn the dimension from."
            raise InvalidInput(what, fix="Give at least one training vector.")
        measured = _Measured.of(values)
        self._range = measured.least, measured.greatest
        if self.config.standardise or (self.config.standardise is None and not measured.binary):
            # Rounding gives a constant feature a deviation near zero, which would blow up any other value.
            mean, deviation = measured.mean, measured.deviation(values)
            varies = deviation > 1e-9 * np.maximum(np.abs(measured.least), np.abs(measured.greatest))
            self._scaling = mean, np.where(varies, deviation, 1.0)
        else:
            self._scaling = np.zeros_like(measured.least), np.ones_like(measured.least)

    def pack(self, values: Rows) -> Vectors:
        """Vectors → values (B, D), computed in blocks: only the result is as large as all of them."""
        mean, deviation = self._fitted()
        packed = np.empty((len(values), len(mean)), dtype=np.float32)
        for start, matrix in _blocks(values, len(mean)):
            packed[start : start + len(matrix)] = (matrix - mean) / deviation
        return Vectors(torch.from_numpy(packed))

    def examples(self) -> list[Vector]:
        """Vectors of three numbers."""
        return [[1.0, 2.0, 3.0], [3.0, 2.0, -1.0], [0.5, 0.25, 8.0], [4.0, 4.0, 4.0]]

    def nearest(self, batch: Tensors, others: Tensors) -> tuple[Tensor, Tensor]:
        """By the Tanimoto distance if all vectors hold only 0 and 1, else by the Euclidean distance."""
        assert isinstance(batch, Vectors)
        assert isinstance(others, Vectors)
        binary = bool(((others.values == 0) | (others.values == 1)).all())
        return nearest_rows(self.features(batch), self.features(others), "tanimoto" if binary else "euclidean")

    @classmethod
    def defaults(cls, pairs: int) -> dict[str, Any]:
        """A perceptron whose size follows the number of pairs, and a kernel on vectors."""
        hidden = [512] if pairs < 10_000 else [1024, 1024]
        return {"backbone": {"name": "mlp", "hidden": hidden, "dropout": 0.3}, "kernel": {"kernel": "natural"}}

    def unlike_training(self, values: Rows) -> list[str]:
        """Vectors with a number far outside of its range in training, or mostly of features that were always zero."""
        if self._range is None:  # a model of an earlier version
            return [""] * len(values)
        least, greatest = self._range
        return [_unlike(row, least, greatest) for _, matrix in _blocks(values, self.dimension) for row in matrix]

    def save(self, folder: Path) -> None:
        """Write `vector.json`: the mean, the deviation and the range of each feature, with all their digits."""
        mean, deviation = self._fitted()
        state = {"mean": mean.tolist(), "deviation": deviation.tolist()}
        if self._range is not None:
            state |= {"least": self._range[0].tolist(), "greatest": self._range[1].tolist()}
        (folder / _FILE).write_text(json.dumps(state), encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Read what `save` wrote."""
        file = folder / _FILE
        state = read_json(file)
        try:
            mean, deviation = (_row([*state[name]], 0) for name in ("mean", "deviation"))
            _matrix([mean, deviation], None)
            extremes = [_row([*state[name]], 0) for name in ("least", "greatest") if name in state]
            _matrix([mean, *extremes], len(mean))
        except (KeyError, TypeError, InvalidInput) as error:
            raise damaged(f"the scaling cannot be read: {brief(error)}.", file) from error
        if not (deviation > 0).all():
            raise damaged("a deviation is not positive.", file)
        self._scaling = mean, deviation
        self._range = (extremes[0], extremes[1]) if len(extremes) == 2 else None

    def _fitted(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        if self._scaling is None:
            what = "this vector input does not know its dimension yet."
            raise ModelError(what, fix="Call `fit` with the training vectors, or `load`, first.")
        return self._scaling


_FILE = "vector.json"
BLOCK = 1 << 22
"""Numbers that are in memory in double precision at once."""


@dataclass(frozen=True)
class _Measured:
    """Each feature of many vectors: its mean, its range; `binary`: all numbers are 0 or 1."""

    mean: npt.NDArray[np.float64]
    least: npt.NDArray[np.float64]
    greatest: npt.NDArray[np.float64]
    binary: bool

    @classmethod
    def of(cls, values: Rows) -> _Measured:
        """Measure vectors block by block."""
        sums, least, greatest, binary = None, [], [], True
        for _, matrix in _blocks(values, None):
            sums = _added(sums, matrix)
            least.append(matrix.min(axis=0))
            greatest.append(matrix.max(axis=0))
            binary = binary and bool(((matrix == 0) | (matrix == 1)).all())
        assert sums is not None
        return cls(sums / len(values), np.min(least, axis=0), np.max(greatest, axis=0), binary)

    def deviation(self, values: Rows) -> npt.NDArray[np.float64]:
        """The standard deviation of each feature of the same vectors (D,)."""
        sums = None
        for _, matrix in _blocks(values, len(self.mean)):
            sums = _added(sums, np.square(matrix - self.mean))
        assert sums is not None
        return np.sqrt(sums / len(values))


def _added(sums: npt.NDArray[np.float64] | None, matrix: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """`sums` (D,) plus the rows of `matrix` (B, D), one after the other: the order of `matrix.sum(axis=0)` of all."""
    total: npt.NDArray[np.float64] = matrix.sum(axis=0) if sums is None else np.vstack([sums, matrix]).sum(axis=0)
    return total


def _blocks(values: Rows, dimension: int | None) -> Iterator[tuple[int, npt.NDArray[np.float64]]]:
    """Blocks of vectors as (B, D), checked, each with the position of its first; errors have positions among all."""
    rows = BLOCK // max(1, np.size(values[0])) + 1 if len(values) else 1
    for start in range(0, len(values), rows):
        try:
            matrix = _matrix(values[start : start + rows], dimension)
        except InvalidInput as error:
            error.shift(start)
            raise
        dimension = matrix.shape[1]
        yield start, matrix


def _unlike(row: npt.NDArray[np.float64], least: npt.NDArray[np.float64], greatest: npt.NDArray[np.float64]) -> str:
    """Why a vector (D,) is unlike training vectors of this range; empty if it is like them.

    A number is far outside if it is further away from the range than the range is wide. One that was always zero may
    differ, as a bit of a fingerprint does, unless most of the numbers that are not zero are such.
    """
    unused = (least == 0) & (greatest == 0)
    used, new = int((row != 0).sum()), int(((row != 0) & unused).sum())
    if new > used / 2:
        return f"{new} of {counted(used, 'number')} that are not zero were always zero in training"
    width = np.where(greatest > least, greatest - least, np.abs(greatest))
    far = np.flatnonzero(~unused & ((row < least - width) | (row > greatest + width)))
    if len(far):
        place = int(far[0])
        return f"number {place + 1} is {row[place]:g}, in training {least[place]:g} to {greatest[place]:g}"
    return ""


def _matrix(values: Rows, dimension: int | None) -> npt.NDArray[np.float64]:
    """The vectors as (B, D), checked; without `dimension`, the first one gives it."""
    if isinstance(values, np.ndarray) and values.ndim == 2 and values.dtype.kind in "fiub":
        rows: npt.NDArray[np.float64] | list[npt.NDArray[np.float64]] = values.astype(np.float64)
    else:
        rows = [_row(value, index) for index, value in enumerate(values)]
    if dimension is None:
        dimension = len(rows[0])
    for index, row in enumerate(rows):
        if len(row) != dimension or dimension == 0:
            what = f"the vector has {counted(len(row), 'number')} instead of {dimension or 'at least one'}."
            raise InvalidInput(what, index=index)
    matrix = np.asarray(rows, dtype=np.float64).reshape(len(rows), dimension)
    with np.errstate(over="ignore"):
        finite = np.isfinite(matrix.astype(np.float32)).all(axis=1)
    if not finite.all():
        index = int(np.flatnonzero(~finite)[0])
        what = "the vector holds NaN, infinity, or a number too large for 32 bits."
        raise InvalidInput(what, index=index)
    return matrix


def _row(value: Vector, index: int) -> npt.NDArray[np.float64]:
    try:
        row = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        what = f"not a vector of numbers: {error}."
        raise InvalidInput(what, index=index) from error
    if row.ndim == 0:
        return row.reshape(1)
    if row.ndim != 1:
        what = f"{row.ndim} dimensions; a vector has one."
        raise InvalidInput(what, index=index)
    return row
