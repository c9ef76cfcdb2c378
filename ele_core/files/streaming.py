"""One column of a large file, read in chunks: text files and Parquet never stand in memory as a whole."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ele_core.errors import DataError
from ele_core.files import arrow
from ele_core.files.columns import Cell, Table, as_cells
from ele_core.files.sources import BUFFER, bytes_of, text_of
from ele_core.files.tables import ARRAYS, JSONL, REFUSED, Readers, input_places, read_table, suffix_of, text_tables
from ele_core.files.text_tables import SEPARATORS

PARQUET = (".parquet", ".pq")
Cells = tuple[Sequence[Cell], Sequence[int] | None]
"""Cells of a column, and the lines at which their rows begin if the format has lines."""


def stream_column(
    file: str, column: str | None, usual: str | None, size: int, readers: Readers | None = None
) -> Iterator[Cells]:
    """The cells of one column, `size` at a time: `column` if given; else `usual`, if the file has it; else the first.

    CSV, TSV, JSONL, plain lines and Parquet are streamed; files of other formats are read as a whole first.
    """
    suffix = suffix_of(file)
    if suffix in REFUSED:
        raise DataError(REFUSED[suffix], where=file)

    def places(names: Sequence[str]) -> list[int]:
        return input_places(Table(file, names, {}), column, usual)

    if suffix in PARQUET:
        yield from arrow.stream_parquet(file, places, size)
    elif is_text(suffix, readers):
        with text_of(file, newline="" if suffix in SEPARATORS else "\n") as (text, _):
            for table in text_tables(text, file, suffix, places, size):
                yield table.cells(places(table.names)), table.lines
    else:
        table = read_table(file, None, readers)
        cells = table.cells(places(table.names))
        for first in range(0, len(cells), size):
            lines = None if table.lines is None else table.lines[first : first + size]
            yield as_cells(cells[first : first + size]), lines


def is_text(suffix: str, readers: Readers | None) -> bool:
    """Whether files of this suffix are tables of text or plain lines."""
    if suffix in SEPARATORS or suffix in JSONL:
        return True
    return suffix not in ARRAYS and suffix not in arrow.SUFFIXES and not (readers and readers(suffix))


def count_chunks(file: str, size: int, readers: Readers | None = None) -> int | None:
    """How many chunks of `size` rows a file has, to show progress; None if only reading it would tell.

    For text it is counted by lines, and may be too many if cells hold line breaks.
    """
    suffix = suffix_of(file)
    if file == "-" or not (suffix in PARQUET or is_text(suffix, readers)):
        return None
    if suffix in PARQUET:
        return max(1, math.ceil(arrow.count_rows(file) / size))
    with bytes_of(file) as stream:
        lines = sum(block.count(b"\n") for block in iter(lambda: stream.read(BUFFER), b""))
    return max(1, math.ceil((lines - (suffix in SEPARATORS)) / size))
