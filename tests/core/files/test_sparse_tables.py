"""Sparse matrices of scipy in files: every format is read row by row, the usual ones without scipy."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from columns import read_columns
from scipy import sparse

from ele_core.components.inputs.vector import VectorInput
from ele_core.errors import DataError
from ele_core.files.columns import cell_text
from ele_core.files.tables import FIRST
from ele_core.numerics.sparse_vectors import SparseColumn, SparseVector

MATRIX = np.array([[0, 2, 0], [0, 0, 0], [1, 0, 3], [0, 0, 4]])


def column_of(file) -> SparseColumn:
    (column,), _ = read_columns(str(file), [FIRST])
    return column


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "dia"])
@pytest.mark.parametrize("dtype", [np.uint8, np.float64, bool])
def test_every_format_has_the_same_rows(tmp_path, kind, dtype):
    matrix = MATRIX.astype(dtype)
    sparse.save_npz(tmp_path / "x.npz", sparse.csr_matrix(matrix).asformat(kind))
    column = column_of(tmp_path / "x.npz")
    assert len(column) == 4
    assert all(isinstance(row, SparseVector) for row in column)
    assert np.array_equal([np.asarray(row) for row in column], matrix)
    assert np.asarray(column[2]).dtype == dtype
    assert np.array_equal(column[-1], matrix[-1])


@pytest.mark.parametrize("kind", ["csr", "csc", "coo"])
def test_usual_formats_are_read_without_scipy(tmp_path, monkeypatch, kind):
    sparse.save_npz(tmp_path / "x.npz", sparse.csr_matrix(MATRIX).asformat(kind))
    sparse.save_npz(tmp_path / "rare.npz", sparse.csr_matrix(MATRIX).asformat("dia"))
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    assert np.array_equal([np.asarray(row) for row in column_of(tmp_path / "x.npz")], MATRIX)
    with pytest.raises(DataError, match="'dia' is read by scipy, which is not installed"):
        column_of(tmp_path / "rare.npz")


@pytest.mark.parametrize("rows", [slice(1, 3), slice(0, 0), slice(3, 1), slice(0, 4, 2), slice(None, None, -1)])
def test_a_slice_is_a_column_of_its_rows(rows):
    column = SparseColumn.from_entries(*MATRIX.nonzero(), MATRIX[MATRIX.nonzero()], MATRIX.shape)
    assert [row.tolist() for row in column[rows]] == MATRIX[rows].tolist()
    assert [row.tolist() for row in column[rows][:1]] == MATRIX[rows][:1].tolist()


@pytest.mark.parametrize(
    "change",
    [
        {"indices": np.array([1, 0, 2, 3])},
        {"indices": np.array([1, 0, 2, -1])},
        {"indices": np.array([1, 0, 2])},
        {"indptr": np.array([0, 1, 1, 3])},
        {"indptr": np.array([0, 3, 1, 3, 4])},
        {"indptr": np.array([0.0, 1.0, 1.0, 3.0, 4.0])},
        {"data": np.array(["a", "b", "c", "d"])},
        {"shape": np.array([4])},
        {"format": np.array(b"xyz")},
    ],
    ids=lambda change: f"{next(iter(change))}",
)
def test_arrays_that_do_not_go_together_are_refused(tmp_path, change):
    matrix = sparse.csr_matrix(MATRIX)
    arrays = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr, "shape": matrix.shape}
    np.savez(tmp_path / "x.npz", **{"format": b"csr", **arrays, **change})
    with pytest.raises(DataError, match=r"not a whole \.npz file"):
        column_of(tmp_path / "x.npz")


def test_vectors_of_a_sparse_file_are_packed_like_dense_ones(tmp_path):
    sparse.save_npz(tmp_path / "x.npz", sparse.csr_matrix(MATRIX))
    column, dense = VectorInput(), VectorInput()
    column.fit(column_of(tmp_path / "x.npz"))
    dense.fit(MATRIX)
    assert np.array_equal(column.pack(column_of(tmp_path / "x.npz")).values, dense.pack(MATRIX).values)


def test_a_sparse_vector_is_written_by_its_numbers_that_are_not_zero():
    vector = SparseVector(np.array([3, 17, 1024]), np.array([1, 2, 1]), 2048)
    assert cell_text(vector) == "3 17:2 1024"
    assert (vector.ndim, vector.shape) == (1, (2048,))
