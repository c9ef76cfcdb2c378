"""A column read in chunks has the cells and lines of the same column read at once."""

import gzip
import json

import numpy as np
import pytest

from ele_core.errors import DataError
from ele_core.files.binary_tables import as_parquet
from ele_core.files.tables import FIRST, count_chunks, read_table, stream_column

ROWS = [("1", 'a "b"'), ("2", "two\nlines"), ("3", ""), ("4", "d"), ("5", "e")]
CSV = 'id,name\n1,"a ""b"""\n2,"two\nlines"\n3,\n4,d\n5,e\n'
FILES = {
    "a.csv": CSV.encode(),
    "a.csv.gz": gzip.compress(CSV.encode()),
    "a.tsv": b"id\tname\n1\ta\n2\tb\tc\n\n4\td\n5\te\n",
    "a.jsonl": "".join(json.dumps({"id": a, "name": b}) + "\n" for a, b in ROWS).encode() + b'\n{"id": 7}\nno\n',
    "a.txt": b"one\ntwo\n\nfour\r\nfive",
    "a.smi": b"CCO ethanol\nCC\n\nC methane\n",
    "a.parquet": as_parquet([{"id": int(a), "name": b} for a, b in ROWS], ["id", "name"], ""),
}


@pytest.mark.parametrize("size", [1, 2, 5, 100])
@pytest.mark.parametrize("column", [None, "name"])
@pytest.mark.parametrize("name", FILES)
def test_chunks_are_the_column_in_parts(tmp_path, name, column, size):
    file = tmp_path / name
    file.write_bytes(FILES[name])
    if column and name in ("a.txt", "a.smi"):
        with pytest.raises(DataError, match="no named columns"):
            list(stream_column(str(file), column, None, size))
        return
    whole = read_table(str(file), [column or FIRST])
    cells, lines = [], []
    for part, at in stream_column(str(file), column, None, size):
        assert len(part) <= size
        cells += part
        lines += at or []
    assert cells == list(whole.cells(whole.places([column or FIRST])[0]))
    assert lines == list(whole.lines or [])


def test_the_usual_column_is_taken_if_it_is_there(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("a,b\n1,2\n")
    assert [list(cells) for cells, _ in stream_column(str(file), None, "b", 10)] == [["2"]]
    assert [list(cells) for cells, _ in stream_column(str(file), None, "c", 10)] == [["1"]]


def test_what_cannot_be_streamed_is_read_whole(tmp_path):
    file = tmp_path / "a.npz"
    np.savez(file, names=np.array(["x", "y", "z"]))
    assert [list(cells) for cells, _ in stream_column(str(file), None, None, 2)] == [["x", "y"], ["z"]]
    assert count_chunks(str(file), 2) is None


def test_only_a_chunk_of_a_text_file_is_read_ahead(tmp_path):
    file = tmp_path / "a.csv"
    file.write_bytes(b"x\n" + b"aaaaaaaaa\n" * 500_000 + b"\xff\n")  # not UTF-8 at the end: an error if it were read
    chunks = stream_column(str(file), None, None, 1000)
    assert len(next(chunks)[0]) == 1000
    with pytest.raises(DataError, match="not UTF-8"):
        list(chunks)


@pytest.mark.parametrize(("name", "chunks"), [("a.csv", 3), ("a.csv.gz", 3), ("a.smi", 2), ("a.parquet", 3)])
def test_chunks_are_counted_for_the_progress(tmp_path, name, chunks):
    file = tmp_path / name
    file.write_bytes(FILES[name])
    assert count_chunks(str(file), 2) == chunks


@pytest.mark.parametrize("name", ["a.xlsx", "a.pkl", "missing.csv", "broken.parquet"])
def test_a_file_that_cannot_be_read_is_refused_in_a_sentence(tmp_path, name):
    if name.startswith("broken"):
        (tmp_path / name).write_bytes(b"no parquet")
    with pytest.raises(DataError):
        list(stream_column(str(tmp_path / name), None, None, 2))
