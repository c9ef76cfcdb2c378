"""Sources of molecules (QM9 in the package qm9pack, files of SMILES such as GDB-11), read once and cached."""

from __future__ import annotations

import csv
import gzip
import hashlib
import importlib.util
import io
import json
import os
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from math import ceil
from pathlib import Path
from typing import IO, TYPE_CHECKING, BinaryIO

import numpy as np
import torch

from ele_core import Context, DataError
from ele_core.data.objects import Rejected
from ele_core.data.store import cache_folder
from ele_core.extras import how_to_install
from ele_core.files.atomic import replace_folder
from ele_graphs.graphs.batch import CompactGraphs

if TYPE_CHECKING:
    from ele_graphs.molecules.rdkit_adapter import Limits
    from ele_graphs.molecules.reader import Block

FORMAT = 1
"""Part of the hash: changing it invalidates old caches."""
KEPT_REJECTED = 100_000
"""At most this many refused rows are listed; the others are only counted by reason."""


@dataclass(frozen=True)
class Source:
    """A source of SMILES: each call of `texts()` streams them from the start."""

    name: str
    sha256: str
    count: int
    texts: Callable[[], Iterable[str]]
    rows: Sequence[int] | None = None
    """The row of each text in the whole source. None: text i is row i."""

    def at(self, rows: Sequence[int]) -> Source:
        """The same source restricted to `rows`, given in increasing order."""
        digest = hashlib.sha256(f"{self.sha256} {list(rows)}".encode()).hexdigest()
        return Source(self.name, digest, len(rows), lambda: _only(self.texts(), rows), rows)

    def draw(self, seed: int, *sizes: int | None) -> list[Source]:
        """Disjoint parts of `sizes` rows, chosen by the seed; None, only at the end, means all rows that are left.

        A part does not depend on the sizes of those after it.
        """
        order = torch.randperm(self.count, generator=torch.Generator().manual_seed(seed))
        parts, start = [], 0
        for size in sizes:
            rows = order[start:] if size is None else order[start : start + size]
            start += len(rows)
            parts.append(self if len(rows) == self.count else self.at(rows.sort().values.tolist()))
        return parts


@dataclass(frozen=True)
class Molecules:
    """Molecules that were read; `reasons` counts all refused rows, `rejected` lists the first 100,000."""

    graphs: CompactGraphs
    folder: Path
    reasons: Counter[str]
    rows: Sequence[int] | None = None
    """The row of each text in the whole source, refused texts included. None: text i is row i."""

    @property
    def smiles(self) -> list[str]:
        """The canonical SMILES of each molecule."""
        return (self.folder / "smiles.txt").read_text(encoding="utf-8").splitlines()

    @property
    def rejected(self) -> list[Rejected]:
        """The rows of the whole source that were refused, each with its reason."""
        with (self.folder / "rejected.jsonl").open(encoding="utf-8") as lines:
            found = [Rejected(*json.loads(line)) for line in lines]
        rows = self.rows
        return found if rows is None else [replace(each, row=rows[each.row]) for each in found]


def load(source: Source, limits: Limits, context: Context, processes: int | None = None) -> Molecules:
    """Load the molecules of `source` within `limits` from the cache, or read them in parallel and cache them."""
    from ele_graphs.molecules.rdkit_adapter import VERSION

    key = json.dumps([FORMAT, source.sha256, asdict(limits), VERSION])
    folder = cache_folder() / "molecules" / hashlib.sha256(key.encode()).hexdigest()[:32]
    found = _open(folder)
    if found is None:
        _read(source, limits, folder, context, processes)
        found = _open(folder)
    if found is None:
        raise OSError(f"{folder}: the molecules just written cannot be read; check the disk, or change ELE_CACHE")
    if not len(found.graphs):
        found = replace(found, graphs=CompactGraphs(torch.zeros(0, _width(limits), dtype=torch.int8)))
    return replace(found, rows=source.rows)


def _only(texts: Iterable[str], rows: Sequence[int]) -> Iterator[str]:
    chosen = set(rows)
    return (text for row, text in enumerate(texts) if row in chosen)


def _open(folder: Path) -> Molecules | None:
    """Open a cached folder; None if it is missing or damaged."""
    try:
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        # Copy-on-write: torch needs writable memory, and the file must not change.
        codes = np.load(folder / "codes.npy", mmap_mode="c" if summary["count"] else None)
    except (OSError, ValueError, KeyError):
        return None
    if len(codes) != summary["count"]:
        return None
    return Molecules(CompactGraphs(torch.from_numpy(codes)), folder, Counter(summary["reasons"]))


def _read(source: Source, limits: Limits, folder: Path, context: Context, processes: int | None) -> None:
    from ele_graphs.molecules.reader import BLOCK, read_many

    blocks = read_many(source.texts(), limits, processes)
    shown = context.monitor.progress(
        blocks, description=f"reading molecules of {source.name} (thousands)", total=ceil(source.count / BLOCK)
    )
    with replace_folder(folder) as fresh:
        _write(shown, fresh, _width(limits))


def _write(blocks: Iterable[Block], folder: Path, width: int) -> None:
    """Write blocks to files one by one: memory does not grow with their number."""
    reasons: Counter[str] = Counter()
    count = 0
    with (
        _growing_array(folder / "codes.npy", width) as codes,
        (folder / "smiles.txt").open("w", encoding="utf-8") as smiles,
        (folder / "rejected.jsonl").open("w", encoding="utf-8") as rejected,
    ):
        for block in blocks:
            codes.write(block.codes.tobytes())
            smiles.writelines(f"{text}\n" for text in block.smiles)
            room = max(0, KEPT_REJECTED - reasons.total())
            rejected.writelines(json.dumps(row) + "\n" for row in block.rejected[:room])
            reasons.update(reason for *_, reason in block.rejected)
            count += len(block.rows)
    (folder / "summary.json").write_text(json.dumps({"count": count, "reasons": reasons}), encoding="utf-8")


@contextmanager
def _growing_array(file: Path, width: int) -> Iterator[BinaryIO]:
    """Open a .npy file for int8 rows whose number is known only at the end, when its header is rewritten."""
    with file.open("wb") as stream:
        _write_header(stream, 0, width)
        start = stream.tell()
        yield stream
        rows = (stream.tell() - start) // width
        stream.seek(0)
        _write_header(stream, rows, width)
        if stream.tell() != start:
            raise OSError(f"{file}: the length of the header changed, so the file is damaged")
        stream.flush()
        os.fsync(stream.fileno())


def _write_header(stream: BinaryIO, rows: int, width: int) -> None:
    header = {"descr": "|i1", "fortran_order": False, "shape": (rows, width)}
    np.lib.format.write_array_header_1_0(stream, header)


def _width(limits: Limits) -> int:
    size = limits.max_atoms or 0
    return size * (size + 1) // 2


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
        what = "QM9 comes from the package qm9pack, which is not installed."
        raise DataError(what, fix=how_to_install("qm9"))
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
    """The cells of a column; a row that is too short has an empty SMILES: rows keep their numbers."""
    for file, place in zip(files, places, strict=True):
        with _rows(file) as rows:
            next(rows)
            for row in rows:
                yield row[place] if place < len(row) else ""


def _first_column(files: Sequence[Path]) -> Iterator[str]:
    """The first word of each line; an empty line is an empty SMILES: rows keep their numbers."""
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
