"""The outputs of a large file: packed chunk by chunk; rows that cannot be used are counted, a few are named."""

import pytest

from ele_core import DataError
from ele_core.data import objects
from ele_core.data.objects import OutputFile, readers
from ele_core.plugins import registry
from ele_core.runtime.distributed import Processes
from ele_core.runtime.monitor import Monitor

CELLS = ["12", "x", "345", "999999999", "7", "", "y", "z", "88"]


@pytest.fixture
def source(tmp_path, predictor, monkeypatch):
    monkeypatch.setattr(objects, "CHUNK", 2)
    file = tmp_path / "many.csv"
    file.write_text("id,digits\n" + "".join(f"{row},{cell}\n" for row, cell in enumerate(CELLS)))
    return OutputFile(str(file), predictor.model_.space, readers(registry()), "digits")


def read(source, processes=None):
    chunks = list(source.chunks(Monitor(), processes or Processes()))
    assert all(len(rows) == len(batch) <= 2 for rows, batch in chunks)
    return {
        row: text for rows, batch in chunks for row, text in zip(rows.tolist(), source.space.unpack(batch), strict=True)
    }


def test_rows_that_are_structures_are_packed_under_their_numbers(source):
    assert read(source) == {0: "12", 2: "345", 4: "7", 5: "", 8: "88"}


def test_the_others_are_counted_and_the_first_are_named(source):
    read(source)
    assert (source.rows, source.left_out) == (9, 4)
    lines = source.summary().splitlines()
    assert lines[0].endswith("many.csv: 9 rows, 4 left out")
    assert lines[1].startswith("  row 2 (line 3): 'x': ")
    assert len(lines) == 5
    assert lines[-1] == "  …"


def test_processes_share_the_chunks(source):
    whole, parts = read(source), []
    for rank in range(3):
        own = Processes()
        own.rank, own.count = rank, 3
        parts.append(read(source, own))
        assert source.rows == 9
    assert {row: text for part in parts for row, text in part.items()} == whole
    assert sum(map(len, parts)) == len(whole)


def test_the_texts_of_some_rows_are_read_again(source):
    assert source.texts([8, 0, 4, 8]) == {0: "12", 4: "7", 8: "88"}
    assert source.texts([]) == {}


def test_standard_input_is_refused_because_it_is_read_twice(predictor):
    with pytest.raises(DataError, match="is read twice"):
        OutputFile("-", predictor.model_.space, readers(registry()))
