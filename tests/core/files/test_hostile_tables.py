"""Tables made by somebody who means harm, or by a broken program: each is refused in a sentence that names the file."""

from __future__ import annotations

import io
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ele_core.errors import DataError
from ele_core.files.tables import FIRST, LAST, count_chunks, read_table, stream_column


def npy(*shape: int, kind: str = "<f8", data: bytes = b"") -> bytes:
    """An array of numpy whose header promises this shape."""
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": kind, "fortran_order": False, "shape": shape})
    return out.getvalue() + data


def npz(*members: tuple[str, bytes]) -> bytes:
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w") as archive:
        warnings.simplefilter("ignore", UserWarning)  # of two members of one name
        for name, content in members:
            archive.writestr(name, content)
    return out.getvalue()


def sparse(kind: str, shape: tuple[int, int], **arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez(out, format=np.array(kind.encode()), shape=np.array(shape), data=np.ones(1), **arrays)
    return out.getvalue()


GOOD = npy(3, data=np.arange(3.0).tobytes())
ARRAYS = {
    "no member": npz(),
    "a member that is no array": npz(("readme.txt", b"text")),
    "two of one name": npz(("x.npy", GOOD), ("x.npy", GOOD)),
    "a trillion rows": npz(("x.npy", npy(10**12)), ("y.npy", GOOD)),
    "more rows than numbers": npz(("x.npy", npy(10**30)), ("y.npy", GOOD)),
    "more bytes than numbers": npz(("x.npy", npy(2**40, 2**40)), ("y.npy", GOOD)),
    "fewer rows than none": npz(("x.npy", npy(-3)), ("y.npy", GOOD)),
    "rows without numbers": npz(("x.npy", npy(10**15, 0)), ("y.npy", npy(10**15, 0))),
    "bytes that are no text": npz(("x.npy", npy(1, kind="|S1", data=b"\xff")), ("y.npy", GOOD)),
    "a wide sparse matrix": sparse("csc", (3, 2**50), indptr=np.array([0, 1, 1, 1]), indices=np.zeros(1, int)),
    "a long sparse matrix": sparse("coo", (2**50, 3), row=np.zeros(1, int), col=np.zeros(1, int)),
    "a sparse matrix without places": sparse("csr", (3, 3)),
}


def refused(content: bytes, file: Path) -> None:
    """All ways of reading the file say in a sentence what is wrong."""
    file.write_bytes(content)
    ways: list[Callable[[], object]] = [
        lambda: read_table(str(file)),
        lambda: read_table(str(file), [FIRST, LAST]),
        lambda: list(stream_column(str(file), None, None, 5)),
    ]
    for read in ways:
        with pytest.raises(DataError, match=file.name) as error:
            read()
        assert len(str(error.value)) < 400


@pytest.mark.parametrize("content", [pytest.param(content, id=name) for name, content in ARRAYS.items()])
def test_hostile_arrays_are_refused(content: bytes, tmp_path: Path) -> None:
    refused(content, tmp_path / "pairs.npz")


@pytest.mark.parametrize("shape", [(10**12,), (10**30,), (2**40, 2**40)])
def test_a_single_array_of_any_shape_is_refused(shape: tuple[int, ...], tmp_path: Path) -> None:
    refused(npy(*shape), tmp_path / "inputs.npy")


def parquet(table: Any) -> bytes:
    from pyarrow import parquet as format_

    out = io.BytesIO()
    format_.write_table(table, out)
    return out.getvalue()


def arrow(table: Any) -> bytes:
    import pyarrow as pa

    out = io.BytesIO()
    with pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    return out.getvalue()


@pytest.mark.parametrize(("suffix", "write"), [(".parquet", parquet), (".arrow", arrow)])
def test_columns_of_one_name_and_no_columns_are_refused(
    suffix: str, write: Callable[[Any], bytes], tmp_path: Path
) -> None:
    pa = pytest.importorskip("pyarrow")
    refused(write(pa.table([pa.array([1]), pa.array([2])], names=["x", "x"])), tmp_path / f"pairs{suffix}")
    refused(write(pa.table({})), tmp_path / f"pairs{suffix}")


@pytest.mark.parametrize(("suffix", "write"), [(".parquet", parquet), (".arrow", arrow)])
def test_any_damage_of_a_byte_is_refused_or_harmless(
    suffix: str, write: Callable[[Any], bytes], tmp_path: Path
) -> None:
    pa = pytest.importorskip("pyarrow")
    good = write(pa.table({"x": ["abc"] * 50, "y": ["a"] * 50}))
    file = tmp_path / f"pairs{suffix}"
    found = 0
    for place in range(4, len(good), 11):
        file.write_bytes(good[:place] + bytes([good[place] ^ 0xFF]) + good[place + 1 :])
        for read in (
            lambda: read_table(str(file)),
            lambda: list(stream_column(str(file), None, None, 5)),
            lambda: count_chunks(str(file), 5),
        ):
            try:
                read()
            except DataError:
                found += 1
    assert found
