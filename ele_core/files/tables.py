"""Reading a user's own pairs: CSV, TSV, JSONL, or plain lines (.smi, .txt), as rows of text."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import sys
import zlib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self

from ele_core.errors import DataError, counted

FIRST, LAST = 0, -1
"""Columns by their position."""
SEPARATORS = {".csv": ",", ".tsv": "\t"}


class Unreadable(str):
    """The text of a malformed row, with the `reason` why it cannot be used."""

    reason: str

    @classmethod
    def row(cls, text: str, reason: str) -> Self:
        """Mark the text of a row as unreadable, with the reason."""
        self = cls(text)
        self.reason = reason
        return self


def read_columns(file: str, columns: Sequence[str | int]) -> tuple[list[list[str]], str]:
    """The chosen columns of a file, each as a list of texts, and the SHA-256 of its contents.

    A column is given by its name or its position (`FIRST`, `LAST`). `-` reads standard input, as plain lines; a `.gz`
    file is decompressed. If a row is malformed, each of its cells is `Unreadable`.
    """
    raw = read_bytes(file)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"not UTF-8 text (byte {error.start}).", where=file, fix="Convert it to UTF-8.") from None
    suffix = Path(file.removesuffix(".gz")).suffix.lower()
    if suffix in SEPARATORS:
        table = read_separated(text, file, SEPARATORS[suffix], columns)
    elif suffix in (".jsonl", ".ndjson"):
        table = read_jsonl(text, file, columns)
    else:
        table = read_lines(text, file, columns)
    return table, hashlib.sha256(raw).hexdigest()


def read_inputs(file: str, column: str | None, trained: str | None) -> tuple[list[list[str]], str]:
    """The column of inputs: `column` if given; else that of the training, if the file has it; else the first."""
    if column is None and trained is not None and file != "-":
        try:
            return read_columns(file, [trained])
        except DataError:  # raised again below if the file cannot be read at all
            pass
    return read_columns(file, [column or FIRST])


def read_bytes(file: str) -> bytes:
    """The contents of a file, decompressed if its name ends in `.gz`, or of standard input (`-`)."""
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        raw = Path(file).read_bytes()
        return gzip.decompress(raw) if file.endswith(".gz") else raw
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "not a whole gzip file"
        raise DataError(f"cannot be read: {reason}.", where=file, fix="Check the path.") from None


def read_separated(text: str, file: str, separator: str, columns: Sequence[str | int]) -> list[list[str]]:
    """Columns of a CSV or TSV with a header line."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    header = next(reader, None)
    if not header:
        raise DataError("the file is empty.", where=file, fix="Name the columns in the first line.")
    places = find_columns(columns, header, file)
    table: list[list[str]] = [[] for _ in columns]
    for row in filter(None, reader):
        bad = None
        if len(row) != len(header):
            cells = counted(len(row), "cell")
            reason = f"{cells}, but the header has {len(header)}; quote cells that contain the separator."
            bad = Unreadable.row(separator.join(row), reason)
        for column, place in zip(table, places, strict=True):
            column.append(row[place] if bad is None else bad)
    return table


def find_columns(columns: Sequence[str | int], header: Sequence[str], file: str) -> list[int]:
    """The positions of columns; `FIRST` and `LAST` count only columns that are not asked for by name."""
    named = {name: find_column(name, header, file) for name in columns if isinstance(name, str)}
    others = [place for place in range(len(header)) if place not in named.values()] or list(range(len(header)))
    return [named[name] if isinstance(name, str) else others[name] for name in columns]


def find_column(name: str, header: Sequence[str], file: str) -> int:
    """The position of a column; the error for an unknown name suggests the nearest one and lists all."""
    if name in header:
        return header.index(name)
    close = get_close_matches(name, header, 1)
    hint = f"; did you mean '{close[0]}'?" if close else "."
    raise DataError(f"no column is called '{name}'{hint} Columns: {', '.join(header)}.", where=file)


def read_jsonl(text: str, file: str, columns: Sequence[str | int]) -> list[list[str]]:
    """Fields of one JSON object per line, with the same names on every line; values other than strings stay JSON."""
    table: list[list[str]] = [[] for _ in columns]
    names: list[str] | None = None
    for line in filter(str.strip, lines_of(text)):
        record = json_record(line)
        if names is None and not isinstance(record, Unreadable):
            header = list(record)
            names = [header[place] for place in find_columns(columns, header, file)]
        for column, name in zip(table, names or [""] * len(columns), strict=True):
            column.append(record if isinstance(record, Unreadable) else json_cell(record, name, line))
    return table


def json_record(line: str) -> dict[str, Any] | Unreadable:
    """The JSON object on a line."""
    try:
        record = json.loads(line)
    except ValueError as error:
        return Unreadable.row(line, f"not JSON: {getattr(error, 'msg', error)}.")
    if isinstance(record, dict) and record:
        return record
    return Unreadable.row(line, 'not a JSON object such as {"input": …}.')


def json_cell(record: dict[str, Any], name: str, line: str) -> str:
    """One field as text."""
    if name not in record:
        return Unreadable.row(line, f"no field is called '{name}'.")
    value = record[name]
    return value if isinstance(value, str) else json.dumps(value)


def read_lines(text: str, file: str, columns: Sequence[str | int]) -> list[list[str]]:
    """Plain lines: the only column is the whole line, or its first word in .smi files. Blank lines are rows too."""
    if any(isinstance(name, str) for name in columns):
        fix = "Drop the column's name, or use .csv or .jsonl."
        raise DataError("plain lines have no named columns.", where=file, fix=fix)
    smiles = ".smi" in Path(file).suffixes
    lines = [(line.split() or [""])[0] if smiles else line for line in lines_of(text)]
    return [lines for _ in columns]


def lines_of(text: str) -> list[str]:
    """Split text at line feeds, and remove a carriage return before them; no other character ends a line."""
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []


def as_csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None) -> str:
    """Mappings with the same keys as CSV text with a header; `columns` are needed if there may be no rows."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns or list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()
