"""Cells that a spreadsheet would run are written so that it does not, and read as they were."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ele_core.files.tables import as_csv, read_table
from ele_core.files.text_tables import guarded, unguarded

CELLS = st.text(st.sampled_from("'=+-@\t\r\n,;.eE0123456789 aC|\"") | st.characters(codec="utf-8"), max_size=12)


@pytest.mark.parametrize(
    "cell", ["=cmd|' /C calc'!A0", "@SUM(1)", "+cmd|x", "-2+3+cmd|' /C calc'!A0", "\t=1", "\r=1", "-x", "+C", "'=1"]
)
def test_a_formula_begins_with_an_apostrophe(cell: str) -> None:
    assert guarded(cell) == f"'{cell}"
    assert unguarded(guarded(cell)) == cell


@pytest.mark.parametrize(
    "cell", ["", "-1", "+1.5e-3", "-0.5 0.25 1e9", "CC(=O)O", "[O-]C", "it's", "'quoted'", "1-2", "a=b", "-", "''"]
)
def test_numbers_and_other_texts_stay_as_they_are(cell: str) -> None:
    assert guarded(cell) == cell
    assert unguarded(cell) == cell


@given(CELLS)
def test_reading_gives_back_what_was_written(cell: str) -> None:
    assert unguarded(guarded(cell)) == cell
    assert not guarded(cell).startswith(("=", "@", "\t", "\r"))


@given(st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=4), st.sampled_from([".csv", ".tsv"]))
def test_a_file_that_was_written_is_read_as_it_was(tmp_path_factory, rows: list[tuple[str, str]], suffix: str) -> None:
    file = tmp_path_factory.getbasetemp() / f"cells{suffix}"
    text = as_csv([{"=a": one, "b": other} for one, other in rows], separator="," if suffix == ".csv" else "\t")
    file.write_bytes(text.encode())
    table = read_table(str(file), None)
    assert list(table.names) == ["=a", "b"]
    assert [tuple(row) for row in zip(table.columns[0], table.columns[1], strict=True)] == rows


def test_no_cell_of_a_written_file_begins_as_a_formula() -> None:
    text = as_csv([{"=head": "=1+1", "n": -3, "x": "-3"}])
    assert list(csv.reader(io.StringIO(text))) == [["'=head", "n", "x"], ["'=1+1", "-3", "-3"]]


def test_the_page_of_a_report_guards_the_same_cells() -> None:
    script = Path("ele_core/report/assets/panels/table.js").read_text("utf-8")
    from ele_core.files.text_tables import FORMULA

    assert f"/^{FORMULA.pattern}/" in script
