"""Reading a user's own pairs: CSV, TSV, JSONL, or plain lines (.smi, .txt), as rows of text."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import sys
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path

from ele_core.errors import DataError

FIRST, LAST = 0, -1
"""Columns by their place."""
SEPARATORS = {".csv": ",", ".tsv": "\t"}


def read_columns(file: str, columns: Sequence[str | int]) -> tuple[list[list[str]], str]:
    """The named columns of a file, a list of texts each, and the SHA-256 of its contents.

    A column is named, or given by its place (`FIRST`, `LAST`). `-` reads standard input, as plain lines, and a `.gz`
    is read as what it holds.
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


def read_bytes(file: str) -> bytes:
    """The contents of a file or of standard input (`-`), decompressed where it is gzip."""
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        raw = Path(file).read_bytes()
        return gzip.decompress(raw) if file.endswith(".gz") else raw
    except OSError as error:
        reason = error.strerror or "not a gzip file"
        raise DataError(f"cannot be read: {reason}.", where=file, fix="Check the path.") from None


def read_separated(text: str, file: str, separator: str, columns: Sequence[str | int]) -> list[list[str]]:
    """Columns of a CSV or TSV with a header line."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    header = next(reader, None)
    if not header:
        raise DataError("the file is empty.", where=file, fix="The first line names the columns.")
    places = find_columns(columns, header, file)
    rows = [row for row in reader if row]
    for number, row in enumerate(rows, start=2):
        if len(row) != len(header):
            what = f"{len(row)} cells where the header has {len(header)}."
            raise DataError(what, where=f"{file}, row {number}", fix="Quote cells that hold the separator.")
    return [[row[place] for row in rows] for place in places]


def find_columns(columns: Sequence[str | int], header: Sequence[str], file: str) -> list[int]:
    """Where columns stand; the first and the last are those among the ones that are not named."""
    named = {name: find_column(name, header, file) for name in columns if isinstance(name, str)}
    others = [place for place in range(len(header)) if place not in named.values()] or list(range(len(header)))
    return [named[name] if isinstance(name, str) else others[name] for name in columns]


def find_column(name: str, header: Sequence[str], file: str) -> int:
    """Where a column stands; an unknown one is answered with the nearest and with all there are."""
    if name in header:
        return header.index(name)
    close = get_close_matches(name, header, 1)
    hint = f"did you mean '{close[0]}'? " if close else ""
    raise DataError(f"no column is called '{name}'; {hint}Columns: {', '.join(header)}.", where=file)


def read_jsonl(text: str, file: str, columns: Sequence[str | int]) -> list[list[str]]:
    """Fields of one JSON object a line; a value that is not a string is kept as its JSON text."""
    table: list[list[str]] = [[] for _ in columns]
    for number, line in numbered_lines(text):
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise DataError(f"not JSON: {error.msg}.", where=f"{file}, line {number}") from None
        if not isinstance(record, dict) or not record:
            raise DataError("not a JSON object.", where=f"{file}, line {number}", fix='Write {"input": …}.')
        header = list(record)
        places = find_columns(columns, header, f"{file}, line {number}")
        for column, place in zip(table, places, strict=True):
            value = record[header[place]]
            column.append(value if isinstance(value, str) else json.dumps(value))
    return table


def read_lines(text: str, file: str, columns: Sequence[str | int]) -> list[list[str]]:
    """Plain lines: the whole line, or for .smi its first word, is the one column there is. Blank lines stay rows."""
    if any(isinstance(name, str) for name in columns):
        fix = "Drop the column's name, or use .csv or .jsonl."
        raise DataError("plain lines have no named columns.", where=file, fix=fix)
    smiles = ".smi" in Path(file).suffixes
    lines = [(line.split() or [""])[0] if smiles else line for line in text.splitlines()]
    return [lines for _ in columns]


def numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that are not blank, with their numbers from 1."""
    return ((number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip())
