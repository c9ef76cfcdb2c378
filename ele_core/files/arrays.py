"""Tables of numpy: one array (.npy), several named ones or a sparse matrix (.npz). Nothing is unpickled."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from typing import Any, BinaryIO, overload

import numpy as np
import numpy.typing as npt

from ele_core.errors import DataError
from ele_core.files.columns import Keep, Table

SPARSE = {"format", "shape", "data"}
"""The arrays that `scipy.sparse.save_npz` writes, among others."""


class SparseColumn(Sequence[Any]):
    """The rows of a sparse matrix (N, D), each made dense when it is asked for."""

    ndim = 2

    def __init__(self, matrix: Any) -> None:
        self._matrix = matrix

    def __len__(self) -> int:
        return int(self._matrix.shape[0])

    @overload
    def __getitem__(self, row: int) -> npt.NDArray[Any]: ...
    @overload
    def __getitem__(self, row: slice) -> SparseColumn: ...
    def __getitem__(self, row: int | slice) -> npt.NDArray[Any] | SparseColumn:
        if isinstance(row, slice):
            return SparseColumn(self._matrix[row])
        if not -len(self) <= row < len(self):
            raise IndexError(row)
        dense: npt.NDArray[Any] = self._matrix[[row]].toarray()[0]
        return dense


def read_arrays(stream: BinaryIO, file: str, suffix: str, keep: Keep) -> Table:
    """The columns of a .npy or .npz file: named arrays, the fields of a structured array, or one without a name."""
    try:
        loaded = np.load(stream, allow_pickle=False)
        if suffix == ".npy":
            fields = loaded.dtype.names or ()
            arrays = {name: loaded[name] for name in fields} or {"": loaded}
        elif set(loaded.files) >= SPARSE:
            arrays = {"": sparse(stream)}
        else:
            arrays = {name: loaded[name] for place, name in enumerate(loaded.files) if place in keep(loaded.files)}
            return checked(file, loaded.files, arrays)
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(refusal(error, suffix), where=file) from None
    return checked(file, [name for name in arrays if name], arrays)


def sparse(stream: BinaryIO) -> SparseColumn:
    """The matrix that `scipy.sparse.save_npz` wrote."""
    from scipy.sparse import load_npz

    stream.seek(0)
    return SparseColumn(load_npz(stream).tocsr())  # type: ignore[misc]  # every format has it


def checked(file: str, names: Sequence[str], arrays: dict[str, Any]) -> Table:
    """A table of arrays with as many rows as each other."""
    for name, array in arrays.items():
        called = f"the array '{name}'" if name else "the array"
        if array.ndim not in (1, 2) or (array.ndim == 2 and not isinstance(array, SparseColumn) and not numeric(array)):
            what = f"{called} has {array.ndim} dimensions of type {array.dtype}."
            raise DataError(what, where=file, fix="Columns have one dimension; vectors of numbers have two.")
        first = next(iter(arrays.values()))
        if len(array) != len(first):
            what = f"'{name}' has {len(array):,} rows, but '{next(iter(arrays))}' has {len(first):,}."
            raise DataError(what, where=file, fix="Give each array one row per pair.")
    places = {name: names.index(name) if name else 0 for name in arrays}
    return Table(file, names, {places[name]: texts(array) for name, array in arrays.items()})


def numeric(array: npt.NDArray[Any]) -> bool:
    """Whether an array holds numbers."""
    return array.dtype.kind in "fiub"


def texts(array: Any) -> Any:
    """An array with bytes decoded."""
    return np.char.decode(array, "utf-8") if getattr(array, "dtype", np.dtype(float)).kind == "S" else array


def refusal(error: Exception, suffix: str) -> str:
    """Say why a file cannot be read."""
    if "Object arrays" in str(error):
        return "holds Python objects, which are not read: unpickling them can run any code. Save numbers or texts."
    return f"not a whole {suffix} file of numpy."
