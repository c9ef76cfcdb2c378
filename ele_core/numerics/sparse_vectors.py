"""`SparseVector`: a vector of which only the numbers that are not zero are stored, and a column of such vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self, overload

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, eq=False, slots=True)
class SparseVector:
    """`values` (K,) at `places` (K,) of a vector of `size` numbers, zero elsewhere; `numpy.asarray` makes it dense."""

    places: npt.NDArray[Any]
    values: npt.NDArray[Any]
    size: int

    @property
    def ndim(self) -> int:
        """1, as of a dense vector."""
        return 1

    @property
    def shape(self) -> tuple[int]:
        """The shape of the dense vector."""
        return (self.size,)

    def __str__(self) -> str:
        """The places of the numbers that are not zero, those other than 1 with their value: `3 17:2 1024`."""
        entries = zip(self.places.tolist(), self.values.tolist(), strict=True)
        return " ".join(str(place) if value == 1 else f"{place}:{value}" for place, value in entries)

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """The dense vector (size,); values at the same place are added up."""
        dense = np.zeros(self.size, self.values.dtype)
        np.add.at(dense, self.places, self.values)
        return dense if dtype is None else dense.astype(dtype, copy=False)

    def tolist(self) -> list[Any]:
        """All numbers, zeros included."""
        listed: list[Any] = np.asarray(self).tolist()
        return listed


class SparseColumn(Sequence[Any]):
    """The rows of a sparse matrix (N, width) as `SparseVector`s: row i has `values` at `places` from `starts[i]` on."""

    ndim = 2

    def __init__(
        self, starts: npt.NDArray[Any], places: npt.NDArray[Any], values: npt.NDArray[Any], width: int
    ) -> None:
        self.starts, self.places, self.values, self.width = starts, places, values, width

    @classmethod
    def from_entries(
        cls, rows: npt.NDArray[Any], places: npt.NDArray[Any], values: npt.NDArray[Any], shape: tuple[int, int]
    ) -> Self:
        """The matrix of `shape` with `values` (E,) at `rows` (E,) and `places` (E,), in any order."""
        order = np.argsort(rows, kind="stable")
        starts = np.concatenate([[0], np.bincount(rows, minlength=shape[0]).cumsum()])
        return cls(starts, places[order], values[order], shape[1])

    def __len__(self) -> int:
        return len(self.starts) - 1

    @overload
    def __getitem__(self, row: int) -> SparseVector: ...
    @overload
    def __getitem__(self, row: slice) -> SparseColumn: ...
    def __getitem__(self, row: int | slice) -> SparseVector | SparseColumn:
        if isinstance(row, slice):
            first, end, step = row.indices(len(self))
            if step == 1:
                return SparseColumn(self.starts[first : max(first, end) + 1], self.places, self.values, self.width)
            return self._at(range(first, end, step))
        if not -len(self) <= row < len(self):
            raise IndexError(row)
        start, end = self.starts[row % len(self)], self.starts[row % len(self) + 1]
        return SparseVector(self.places[start:end], self.values[start:end], self.width)

    def _at(self, rows: range) -> SparseColumn:
        own = [self[row] for row in rows]
        starts = np.cumsum([0, *(len(each.places) for each in own)])
        places, values = (
            np.concatenate([part[:0], *(getattr(each, name) for each in own)])
            for name, part in (("places", self.places), ("values", self.values))
        )
        return SparseColumn(starts, places, values, self.width)
