"""A user's own tables, whole or one column in chunks: the suffix gives the format, columns have names or positions."""

from __future__ import annotations

import csv
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from ele_core.errors import DataError
from ele_core.files.binary_tables import ARROW, PARQUET, count_rows, read_arrays, read_arrow, stream_arrow
from ele_core.files.columns import FIRST, LAST, Cell, Keep, Table, Unreadable, Wanted, all_columns, keep, named_or
from ele_core.files.sources import BUFFER, bytes_of, seekable_bytes_of, text_of
from ele_core.files.text_tables import NO_FIELD, SEPARATORS, guarded, read_jsonl, read_lines, read_separated

__all__ = ["FIRST", "LAST", "Table", "Unreadable", "as_csv", "read_table"]

JSONL = (".jsonl", ".ndjson")
ARRAYS = (".npy", ".npz")
CHUNK = 1 << 16
"""Rows that are read at a time to count them."""
OBJECTS = "Python objects are not read: unpickling a file can run any code. Save it as CSV, Parquet or .npz."
REFUSED = {
    **dict.fromkeys(
        (".xlsx", ".xls", ".xlsm", ".ods"),
        "spreadsheets are not read. Save it as CSV in Excel: File > Save As > CSV UTF-8; "
        "in LibreOffice: File > Save As > Text CSV.",
    ),
    **dict.fromkeys(
        (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff"),
        "this is one picture. Give a table with a column of file names, or their names, one per line.",
    ),
    **dict.fromkeys((".pkl", ".pickle", ".joblib", ".pt", ".pth"), OBJECTS),
    ".mat": "MATLAB files are not read. In MATLAB, save a table with writetable(T, 'pairs.csv'); "
    "in Python, load it with scipy.io.loadmat and save its arrays with numpy.savez.",
    **dict.fromkeys(
        (".h5", ".hdf5", ".hdf"), "HDF5 files are not read. Save the columns as Parquet, or as .npz with numpy.savez."
    ),
}
"""The suffixes of files that are not read, each with the way out."""

Reader = Callable[[BinaryIO], Mapping[str, Sequence[Any]]]
"""Reads a file's bytes into named columns of equal length."""
Readers = Callable[[str], Reader | None]
"""Gives the reader that a plugin provides for a suffix such as `.abc`; None if there is none."""


def read_table(file: str, wanted: Wanted | None = None, readers: Readers | None = None) -> Table:
    """The columns of a file that are asked for; all if `wanted` is None.

    `-` reads standard input, as plain lines; a `.gz` file is decompressed. If a row is malformed, each of its cells is
    `Unreadable`.
    """
    suffix = suffix_of(file)
    if suffix in REFUSED:
        raise DataError(REFUSED[suffix], where=file)
    if suffix in SEPARATORS or suffix in JSONL:
        table = read_text(file, suffix, wanted)
    elif suffix in ARRAYS or suffix in ARROW:
        table = read_binary(file, suffix, wanted)
    elif readers is not None and (reader := readers(suffix)) is not None:
        table = read_with(reader, file, wanted)
    else:
        table = read_text(file, suffix, wanted)
    require_names(table, wanted)
    return table


def require_names(table: Table, wanted: Wanted | None) -> None:
    """Refuse a column by name if those of the file have none; JSONL without names has lines that cannot be read."""
    named = any(not isinstance(name, int) for name in wanted or ())
    if named and not table.names and suffix_of(table.file) not in JSONL:
        fix = "Drop the column's name, or use .csv or .jsonl."
        raise DataError("this file has no named columns.", where=table.file, fix=fix)


def suffix_of(file: str) -> str:
    """The suffix that names the format, without `.gz`, in lower case."""
    return Path(file.removesuffix(".gz")).suffix.lower()


def read_text(file: str, suffix: str, wanted: Wanted | None) -> Table:
    """A table in a text file."""
    with text_of(file, newline="" if suffix in SEPARATORS else "\n") as (text, hashed):
        table = next(text_tables(text, file, suffix, None if wanted is None else keep(wanted, file)))
        return dataclasses.replace(table, digest=hashed.sha256.hexdigest())


def text_tables(text: TextIO, file: str, suffix: str, keep: Keep | None, size: int | None = None) -> Iterator[Table]:
    """The rows of a text file, in tables of `size` rows; all in one if `size` is None."""
    if suffix in SEPARATORS:
        return read_separated(text, file, suffix, keep or all_columns, size)
    return read_jsonl(text, file, keep, size) if suffix in JSONL else read_lines(text, file, size)


def read_binary(file: str, suffix: str, wanted: Wanted | None) -> Table:
    """A table in a file of numpy or of Arrow."""
    read = read_arrays if suffix in ARRAYS else read_arrow
    with seekable_bytes_of(file) as (stream, digest):
        return dataclasses.replace(read(stream, file, suffix, keep(wanted, file)), digest=digest)


def read_with(reader: Reader, file: str, wanted: Wanted | None) -> Table:
    """A table in a file that a plugin reads."""
    with seekable_bytes_of(file) as (stream, digest):
        try:
            columns = reader(stream)
        except DataError as error:
            raise DataError(error.what, where=file, fix=error.fix) from None
    names = list(columns)
    chosen = keep(wanted, file)(names)
    return Table(file, names, {place: columns[names[place]] for place in chosen}, digest=digest)


def input_places(table: Table, column: str | None, trained: str | tuple[str, ...] | None) -> list[int]:
    """The positions of the inputs: `column` if given; else those of the training, if there are such; else the first.

    Several columns of the training must be there.
    """
    if column is None and isinstance(trained, tuple):
        return table.places([trained])[0]
    if column is None and trained is not None and table.names:
        try:
            return table.places([trained])[0]
        except DataError:
            pass
    if column is not None and not table.names:
        fix = "Drop the column's name, or use .csv or .jsonl."
        raise DataError("this file has no named columns.", where=table.file, fix=fix)
    return table.places([named_or(column, FIRST)])[0]


def as_csv(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str] | None = None,
    separator: str = ",",
    *,
    header: bool = True,
) -> str:
    """Mappings with the same keys as CSV text; `columns` are needed if there may be no rows.

    Texts that a spreadsheet would run are written as `guarded` does.
    """
    names = list(columns or rows[0])
    stream = CsvLines()
    writer = csv.writer(stream, delimiter=separator, lineterminator="\r\n")
    if header:
        writer.writerow(map(guarded, names))
    writer.writerows([guarded(cell) if isinstance(cell := row[name], str) else cell for name in names] for row in rows)
    return "".join(stream.lines)


class CsvLines:
    """Takes rows of a `csv.writer` that ends lines with CR LF, which makes it quote both; ends them with LF."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, line: str) -> None:
        """Append one row."""
        self.lines.append(f"{line[:-2]}\n")


Cells = tuple[Sequence[Cell], Sequence[int] | None]
"""Cells of a column, and the lines at which their rows begin if the format has lines."""


def stream_column(
    file: str, column: str | None, usual: str | None, size: int, readers: Readers | None = None
) -> Iterator[Cells]:
    """The cells of one column, `size` at a time: `column` if given; else `usual`, if the file has it; else the first.

    Formats are streamed as by `stream_tables`.
    """

    def places(names: Sequence[str]) -> list[int]:
        return input_places(Table(file, names, {}), column, usual)

    for table in stream_tables(file, size, readers, places):
        yield table.cells(places(table.names)), table.lines


def stream_tables(file: str, size: int, readers: Readers | None = None, keep: Keep | None = None) -> Iterator[Table]:
    """The rows of a file in tables of at most `size`, at least one: all columns, or those that `keep` says.

    CSV, TSV, JSONL, plain lines, Parquet and Arrow are streamed; files of other formats, and standard input, are read
    as a whole first.
    """
    suffix = suffix_of(file)
    if suffix in REFUSED:
        raise DataError(REFUSED[suffix], where=file)
    if suffix in ARROW:
        yield from stream_arrow(file, suffix, keep or all_columns, size)
    elif file != "-" and is_text(suffix, readers):
        names = all_fields(file, size) if suffix in JSONL and keep is None else []
        with text_of(file, newline="" if suffix in SEPARATORS else "\n") as (text, _):
            for table in text_tables(text, file, suffix, keep, size):
                yield with_fields(table, names) if names else table
    else:
        yield from in_parts(read_table(file, None, readers), size)


def all_fields(file: str, size: int) -> list[str]:
    """The names of all fields of all lines of a JSONL file."""
    with text_of(file, newline="\n") as (text, _):
        return list(dict.fromkeys(name for table in read_jsonl(text, file, None, size) for name in table.names))


def with_fields(table: Table, names: Sequence[str]) -> Table:
    """A part of a JSONL file with the fields of the whole; a part without any holds only unreadable lines."""
    own = dict(zip(table.names, table.columns.values(), strict=True))
    absent = [NO_FIELD] * len(table) if table.names else table.columns[0]
    columns = {place: own.get(name, absent) for place, name in enumerate(names)}
    return dataclasses.replace(table, names=names, columns=columns)


def in_parts(table: Table, size: int) -> Iterator[Table]:
    """A table in tables of at most `size` rows, at least one."""
    for first in range(0, max(1, len(table)), size):
        lines = None if table.lines is None else table.lines[first : first + size]
        columns = {place: column[first : first + size] for place, column in table.columns.items()}
        yield dataclasses.replace(table, columns=columns, lines=lines)


def is_text(suffix: str, readers: Readers | None) -> bool:
    """Whether files of this suffix are tables of text or plain lines."""
    if suffix in SEPARATORS or suffix in JSONL:
        return True
    return suffix not in ARRAYS and suffix not in ARROW and not (readers and readers(suffix))


def count_chunks(file: str, size: int, readers: Readers | None = None) -> int | None:
    """How many chunks of `size` rows a file has, to show progress; None if only reading it would tell."""
    suffix = suffix_of(file)
    if file == "-" or not (suffix in PARQUET or is_text(suffix, readers)):
        return None
    return max(1, math.ceil(about_rows(file, readers) / size))


def about_rows(file: str, readers: Readers | None = None) -> int:
    """How many rows a file has that `stream_tables` streams, else 0.

    For text it is counted by lines, and may be too many if cells hold line breaks.
    """
    suffix = suffix_of(file)
    if suffix in PARQUET:
        return count_rows(file)
    if suffix in ARROW:
        return sum(map(len, stream_arrow(file, suffix, keep([FIRST], file), CHUNK)))
    if not is_text(suffix, readers) or suffix in REFUSED or not Path(file).is_file():
        return 0  # what is not a file can be read only once
    with bytes_of(file) as stream:
        lines = sum(block.count(b"\n") for block in iter(lambda: stream.read(BUFFER), b""))
    return lines - (suffix in SEPARATORS)
