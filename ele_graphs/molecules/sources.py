"""Sources of molecules: QM9 in the package qm9pack, and files of SMILES such as GDB-11."""

from __future__ import annotations

import csv
import gzip
import hashlib
import importlib.util
import io
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ele_core import DataError
from ele_graphs.molecules.cache import Source

QM9_FILES = ("qm9_part1.csv", "qm9_part2.csv", "qm9_part3.csv")
SUFFIXES = (".smi", ".smi.gz", ".smiles", ".smiles.gz", ".txt", ".txt.gz")
CHUNK = 1 << 20
UNREADABLE = (OSError, EOFError, zlib.error, zipfile.BadZipFile, csv.Error)
"""What reading a damaged file, archive or compressed stream raises."""

File = Path | zipfile.Path
"""A file on disk or inside a zip archive; a name that ends in .gz is unpacked."""


def qm9() -> Source:
    """The 130,831 SMILES of QM9, from the files of qm9pack: its own loader needs a removed module of setuptools."""
    specification = importlib.util.find_spec("qm9pack")
    if specification is None or not specification.submodule_search_locations:
        raise DataError(
            "QM9 comes from the package qm9pack, which is not installed.",
            fix="pip install 'explicit-loss-embedding[qm9]'",
        )
    folder = Path(specification.submodule_search_locations[0]) / "data"
    files = [folder / name for name in QM9_FILES]
    for file in files:
        if not file.is_file():
            raise DataError("missing from qm9pack.", where=str(file), fix="pip install --force-reinstall qm9pack")
    return csv_files("QM9", files, "SMILES")


def smiles_files(path: str | Path) -> Source:
    """A file of SMILES in the first column, or a folder of them such as `gdb11_size01.smi` … `gdb11_size11.smi`."""
    path = Path(path).expanduser()
    if not path.exists():
        raise DataError("no such file or folder.", where=str(path))
    files = sorted(file for file in path.iterdir() if file.name.endswith(SUFFIXES)) if path.is_dir() else [path]
    if not files:
        raise DataError(f"no files that end in {' '.join(SUFFIXES)}.", where=str(path))
    digest, lines = _digest(files)
    return Source(path.name, digest, lines, lambda: _first_column(files))


def csv_files(name: str, files: Sequence[File], column: str) -> Source:
    """The SMILES in `column` of CSV files, one after the other."""
    digest, lines = _digest(files)
    places = [_place(file, column) for file in files]
    return Source(name, digest, lines - len(files), lambda: _column(files, places))


def _digest(files: Sequence[File]) -> tuple[str, int]:
    """The SHA-256 and the number of lines of the contents of all files, in order."""
    digest, lines = hashlib.sha256(), 0
    for file in files:
        try:
            with _opened(file) as stream:
                last = b"\n"
                while chunk := stream.read(CHUNK):
                    digest.update(chunk)
                    lines += chunk.count(b"\n")
                    last = chunk
                lines += not last.endswith(b"\n")
        except UNREADABLE as error:
            raise DataError(f"cannot be read: {error}", where=str(file)) from error
        digest.update(b"\0")
    return digest.hexdigest(), lines


def _place(file: File, column: str) -> int:
    """The number of a column by the first line of a file."""
    try:
        with _rows(file) as rows:
            names = next(rows, [])
    except UNREADABLE as error:
        raise DataError(f"cannot be read: {error}", where=str(file)) from error
    if column not in names:
        found = f"only {', '.join(names)}" if names else "the file is empty"
        raise DataError(f"there is no column {column!r}: {found}.", where=str(file))
    return names.index(column)


def _column(files: Sequence[File], places: Sequence[int]) -> Iterator[str]:
    """The cells of a column; a row that is too short has an empty SMILES, so that rows keep their numbers."""
    for file, place in zip(files, places, strict=True):
        with _rows(file) as rows:
            next(rows)
            for row in rows:
                yield row[place] if place < len(row) else ""


def _first_column(files: Sequence[Path]) -> Iterator[str]:
    """The first word of each line; an empty line is an empty SMILES, so that rows keep their numbers."""
    for file in files:
        with _opened(file) as stream:
            for line in stream:
                words = line.decode("utf-8", errors="replace").split(maxsplit=1)
                yield words[0] if words else ""


@contextmanager
def _rows(file: File) -> Iterator[Iterator[list[str]]]:
    with _opened(file) as stream, io.TextIOWrapper(stream, "utf-8-sig", "replace", newline="") as text:
        yield csv.reader(text)


@contextmanager
def _opened(file: File) -> Iterator[IO[bytes]]:
    with file.open("rb") as stream:
        if not file.name.endswith(".gz"):
            yield stream
            return
        with gzip.open(stream) as unpacked:
            yield unpacked  # type: ignore[misc]  # typeshed: GzipFile is no IO
