"""Tables as text: CSV and TSV, JSONL, plain lines. Rows are read one by one; only the columns asked for are kept."""

from __future__ import annotations

import csv
import json
import re
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ele_core.errors import DataError, counted
from ele_core.files.columns import Keep, Table, Unreadable

SEPARATORS = {".csv": (",", ";", "\t"), ".tsv": ("\t",)}
"""The separators that a file may have, by its suffix: the first that is in its header."""


class Lines:
    """The lines of a text, counted; knows whether the text ended in the middle of a row."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self.count = 0
        self.row_begun = False
        self.cut = False
        self.last = ""

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        try:
            self.last = next(self._lines)
        except StopIteration:
            self.cut = self.row_begun
            raise
        self.count += 1
        self.row_begun = True
        return self.last


def read_separated(text: Iterable[str], file: str, suffix: str, keep: Keep, size: int | None = None) -> Iterator[Table]:
    """Columns of a CSV or TSV with a header line, in tables of `size` rows; None: all in one.

    A malformed row is `Unreadable` in each column. There is at least one table.
    """
    lines = Lines(text)
    first = next(lines, "")
    separator = next((each for each in SEPARATORS[suffix] if each in first), SEPARATORS[suffix][0])
    with long_cells():
        rows = separated_rows([first], lines, separator, file)
        _, header = next(rows, (1, []))
        header = [unguarded(name) for name in header]
        if not header:
            raise DataError("the file is empty.", where=file, fix="Name the columns in the first line.")
        places = keep(header)
        more = True
        while more:
            columns: dict[int, list[str]] = {place: [] for place in places}
            starts = array("Q")
            for start, row in islice(rows, size):
                if len(row) != len(header):
                    row = [misfit(row, len(header), separator, start, lines.count)] * len(header)
                for place, column in columns.items():
                    cell = row[place]
                    column.append(unguarded(cell) if cell[:1] == "'" else cell)
                starts.append(start)
            yield Table(file, header, dict(columns), starts)
            more = len(starts) == size


def separated_rows(first: list[str], lines: Lines, separator: str, file: str) -> Iterator[tuple[int, list[str]]]:
    """Each row that is not blank, with the line at which it begins; `first` is the line already taken from `lines`."""
    start = 1
    for row in csv.reader(chain(first, lines), delimiter=separator):
        if lines.cut:
            opened = lines.count - row[-1].count("\n") + lines.last.endswith("\n")
            fix = "Close it; inside a quoted cell write a quote as two quotes."
            raise DataError(f"a quote opened on line {opened} is never closed.", where=file, fix=fix)
        lines.row_begun = False
        if row:
            yield start, row
        start = lines.count + 1


def misfit(row: Sequence[str], expected: int, separator: str, first: int, last: int) -> Unreadable:
    """A row with too many or too few cells."""
    reason = f"{counted(len(row), 'cell')}, but the header has {expected}; quote cells that contain the separator."
    if last > first:
        reason += f" The row goes from line {first} to line {last}: look for a quote that is not closed."
    return Unreadable.row(separator.join(row), reason)


@contextmanager
def long_cells() -> Iterator[None]:
    """Let the csv module read cells of any length."""
    before = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def read_jsonl(text: Iterable[str], file: str, keep: Keep | None, size: int | None = None) -> Iterator[Table]:
    """Fields of one JSON object per line, taken by name, in tables of `size` rows; None: all in one.

    Without `keep` all fields of all lines of a table. There is at least one table.
    """
    numbered = ((number, line.rstrip("\r\n")) for number, line in enumerate(text, start=1) if line.strip())
    names: list[str] = []
    chosen: list[str] | None = None
    more = True
    while more:
        records: list[dict[str, Any] | Unreadable] = []
        lines = array("Q")
        for number, line in islice(numbered, size):
            record = json_record(line)
            if isinstance(record, dict):
                if keep is not None and chosen is None:
                    names = list(record)
                    chosen = [names[place] for place in keep(names)]
                record = fields(record, chosen, line)
            records.append(record)
            lines.append(number)
        if keep is None:
            names = list(dict.fromkeys(name for record in records if isinstance(record, dict) for name in record))
        columns = {names.index(name): [field(each, name) for each in records] for name in (chosen or names)}
        yield Table(file, names, dict(columns) if names else {0: records}, lines)
        more = len(records) == size


def fields(record: dict[str, Any], chosen: Sequence[str] | None, line: str) -> dict[str, Any]:
    """The chosen fields of a record; all if None are chosen."""
    if chosen is None:
        return record
    missing = (Unreadable.row(line, f"no field is called '{name}'.") for name in chosen)
    return {name: record.get(name, absent) for name, absent in zip(chosen, missing, strict=True)}


def field(record: dict[str, Any] | Unreadable, name: str) -> Any:
    """A field of a record; every field of an unreadable one is unreadable."""
    return record if isinstance(record, Unreadable) else record.get(name, NO_FIELD)


def json_record(line: str) -> dict[str, Any] | Unreadable:
    """The JSON object on a line."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        return Unreadable.row(line, f"not JSON: {getattr(error, 'msg', error)}.")
    if SURROGATE.search(line) and not writable(record):
        return Unreadable.row(line, "holds half a character: an escape from \\ud800 to \\udfff without its partner.")
    if isinstance(record, dict) and record:
        return record
    return Unreadable.row(line, 'not a JSON object such as {"input": …}.')


SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""An escape that is half a character, as in a text that was cut between the two halves."""


def writable(value: Any) -> bool:
    """Whether all texts in a JSON value can be encoded."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


NO_FIELD = Unreadable.row("", "this line has no such field.")


def read_lines(text: Iterable[str], file: str, size: int | None = None) -> Iterator[Table]:
    """Plain lines, in tables of `size` rows; None: all in one. There is at least one table.

    The only column is the whole line, or its first word in .smi files. Blank lines are rows too.
    """
    lines = (line.removesuffix("\n").removesuffix("\r") for line in text)
    if ".smi" in Path(file).suffixes:
        lines = ((line.split() or [""])[0] for line in lines)
    first, more = 1, True
    while more:
        column = list(islice(lines, size))
        yield Table(file, (), {0: column}, range(first, first + len(column)))
        first, more = first + len(column), len(column) == size


FORMULA = re.compile(r"'*(?:[=@\t\r]|[+-][\d\s.,;+eE-]*[^\d\s.,;+eE-])")
"""Cells that a spreadsheet would run: they begin with `=`, `@`, a tab or a carriage return; or with `+` or `-`, unless
they hold only numbers. They are written with an apostrophe before them and read without it; one that has apostrophes
before it gets one more, so reading gives back what was written."""


def guarded(cell: str) -> str:
    """The cell as it is written: `=1` becomes `'=1`, `-1` stays as it is."""
    return f"'{cell}" if FORMULA.match(cell) else cell


def unguarded(cell: str) -> str:
    """The cell that `guarded` returns this text for."""
    return cell[1:] if cell[:1] == "'" and FORMULA.match(cell) else cell
