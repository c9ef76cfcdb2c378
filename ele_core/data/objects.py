"""Objects from the cells of a file: parsed and packed, chunk by chunk; rows that cannot be used are listed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from ele_core.errors import DataError, InvalidObject, counted
from ele_core.files.archive import read_tensors
from ele_core.files.columns import Cell, Unreadable, cell_text
from ele_core.files.tables import Cells, Reader, Readers, count_chunks, stream_column
from ele_core.interfaces import InputSpace, OutputSpace
from ele_core.numerics.tensors import Tensors
from ele_core.plugins import Registry
from ele_core.runtime.context import Context
from ele_core.runtime.distributed import Processes
from ele_core.runtime.monitor import Monitor
from ele_core.runtime.work import as_bytes, from_bytes
from ele_core.sources import FileReader

PACKED_AT_ONCE = 1024
"""Objects that are given to `pack` at a time."""
CHUNK = 8 * PACKED_AT_ONCE
"""Rows that are read, packed and used at once: memory follows this number, not the length of a file."""
LISTED = 100
"""Rejected rows that an error message lists; the others are only counted."""
SHOWN = 3
"""Rejected rows of a large file that a message lists."""
LONGEST = 80
"""Characters of a row that a message shows."""
Object = TypeVar("Object")


# -- rows that cannot be used -------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Rejected:
    """A row that was not used, and why."""

    row: int
    text: str
    reason: str
    line: int | None = None
    """The line of the file, counted from 1; None: unknown."""

    def __str__(self) -> str:
        """Return the row, also its line if that is another number, the beginning of its text, and the reason."""
        number = self.row + 1
        line = "" if self.line in (None, number) else f" (line {self.line})"
        text = self.text if len(self.text) <= LONGEST else f"{self.text[:LONGEST]}…"
        return f"row {number}{line}: {text!r}: {self.reason}"


Lines = Sequence[int] | Mapping[int, int]
"""The line of each row of a file, or of some rows."""


def located(rejected: Iterable[Rejected], lines: Lines | None) -> list[Rejected]:
    """Return the rejected rows with their lines, in the order of the rows."""
    ordered = sorted(rejected, key=lambda each: each.row)
    return ordered if lines is None else [dataclasses.replace(each, line=lines[each.row]) for each in ordered]


def refuse(
    rejected: Sequence[Rejected], source: str, *, skipping: bool = False, fix: str = "", count: int | None = None
) -> None:
    """Raise one error that lists the rejected rows, if there are any.

    `skipping=True`: bad rows were dropped, and none is left. `count` is their number if only some are given.
    """
    if not rejected:
        return
    count = len(rejected) if count is None else count
    lines = [f"  {each}" for each in sorted(rejected, key=lambda each: each.row)[:LISTED]]
    if count > LISTED:
        lines.append(f"  … and {count - LISTED:,} more")
    what = f"{counted(count, 'row')} cannot be used{', and no row is left' if skipping else ''}"
    fix = fix or ("Check the columns." if skipping else "Correct them, or leave them out with --on-error skip.")
    raise DataError(f"{what}:\n" + "\n".join(lines) + "\n", where=source, fix=fix)


def left_out(rejected: Sequence[Rejected], file: str) -> dict[str, Tensor]:
    """How many rows of a file were left out, and the first of them, as tensors."""
    listed = [{"file": file, **dataclasses.asdict(each)} for each in rejected[:LISTED]]
    return {"left_out": torch.tensor(len(rejected)), "rejected": as_bytes(listed)}


def listed_left_out(files: Sequence[Path]) -> tuple[int, list[tuple[str, Rejected]]]:
    """How many rows were left out, as `left_out` wrote to these files, and the first of them with their own files."""
    skipped, listed = 0, list[tuple[str, Rejected]]()
    for stored in map(read_tensors, files):
        skipped += int(stored["left_out"])
        for each in from_bytes(stored["rejected"])[: LISTED - len(listed)]:
            listed.append((each.pop("file"), Rejected(**each)))
    return skipped, listed


# -- parse and pack -----------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Objects:
    """Objects that were read, the row of each, and the rows that cannot be used."""

    rows: Sequence[int]
    values: Sequence[Any]
    rejected: Sequence[Rejected] = ()
    parts: Sequence[Tensors] = ()
    """The objects packed, in batches; empty before `pack`."""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def batch(self) -> Any:
        """The packed objects as one batch; there must be at least one."""
        return type(self.parts[0]).cat(self.parts)

    def pack(self, pack: Callable[[Sequence[Any]], Tensors], text: Callable[[int], str]) -> Objects:
        """Pack the objects; those that `pack` refuses are rejected, with the `text` of their row."""
        parts, accepted, refused = accept(self.values, pack)
        rejected = [Rejected(self.rows[place], text(self.rows[place]), reason) for place, reason in refused]
        rows, values = ([column[place] for place in accepted] for column in (self.rows, self.values))
        return Objects(rows, values, [*self.rejected, *rejected], parts)

    def located(self, lines: Lines | None, numbers: Sequence[int] | None = None) -> Objects:
        """Return the same with the lines of the rejected rows, which are then in the order of the rows.

        `numbers` are those of the rows in their file, if not all of it was read.
        """
        rejected = self.rejected
        if numbers is not None:
            rejected = [dataclasses.replace(each, row=numbers[each.row]) for each in rejected]
        return dataclasses.replace(self, rejected=located(rejected, lines))


def parse_cells(
    parse: Callable[[Any], Any], cells: Sequence[Cell], rows: Iterable[int] | None = None, *, vectors: bool = False
) -> Objects:
    """Parse the cells at `rows`, by default all; with `vectors=True`, an array is an object already.

    The cells of several columns are then parsed as they are, not as one text.
    """
    found: list[int] = []
    values: list[Any] = []
    rejected: list[Rejected] = []
    for row in range(len(cells)) if rows is None else rows:
        cell = cells[row]
        if not isinstance(cell, str) and not vectors:
            cell = cell_text(cell)
        try:
            if isinstance(cell, Unreadable):
                raise DataError(cell.reason)
            values.append(parse(cell) if isinstance(cell, str | Mapping) else cell)
            found.append(row)
        except DataError as error:
            rejected.append(Rejected(row, cell_text(cell), error.reason))
    return Objects(found, values, rejected)


def parse_inputs(space: InputSpace[Any], cells: Sequence[Cell], rows: Iterable[int] | None = None) -> Objects:
    """Parse the cells of inputs; vectors and arrays stay as they are if the space takes them."""
    return parse_cells(space.parse, cells, rows, vectors=space.reads != "texts")


def read_inputs(
    space: InputSpace[Any],
    cells: Sequence[Cell],
    rows: Iterable[int] | None = None,
    lines: Sequence[int] | None = None,
    pack: Callable[[Sequence[Any]], Tensors] | None = None,
) -> Objects:
    """Parse and pack inputs: the cells at `rows`, by default all; `lines` are those of all rows.

    They are packed by the space, or by `pack`, which may refuse more.
    """
    return parse_inputs(space, cells, rows).pack(pack or space.pack, lambda row: cell_text(cells[row])).located(lines)


def read_outputs(
    space: OutputSpace[Any, Any],
    cells: Sequence[Cell],
    rows: Iterable[int] | None = None,
    lines: Sequence[int] | None = None,
) -> Objects:
    """Parse and pack outputs: the cells at `rows`, by default all; `lines` are those of all rows."""
    parsed = parse_cells(space.texts.parse, cells, rows)
    return parsed.pack(space.pack, lambda row: cell_text(cells[row])).located(lines)


def first_read(
    space: OutputSpace[Any, Any], texts: Sequence[Sequence[str]], parse: Callable[[str], Any], otherwise: Tensors
) -> tuple[Any, Tensor]:
    """Pack for each row of `otherwise` the first of its texts that is an output, else that row itself.

    Also return which rows were read (B,).
    """
    owner = [row for row, own in enumerate(texts) for _ in own]
    cells = [text for own in texts for text in own]
    read = parse_cells(parse, cells).pack(space.pack, cells.__getitem__)
    place = torch.arange(len(otherwise))
    for number, cell in reversed(list(enumerate(read.rows))):
        place[owner[cell]] = len(otherwise) + number
    joined = type(otherwise).cat([otherwise, *read.parts])
    return joined[place], place >= len(otherwise)


def accept(
    objects: Sequence[Object], function: Callable[[Sequence[Object]], Tensors]
) -> tuple[list[Tensors], list[int], list[tuple[int, str]]]:
    """Pack the valid objects; return the batches, the positions packed, and (position, reason) of the others.

    After a refused object the next are packed one, two, four, … at a time, up to `PACKED_AT_ONCE`: an object is packed
    a few times at most, however many are refused.
    """
    packed: list[Tensors] = []
    accepted: list[int] = []
    refused: list[tuple[int, str]] = []
    known: list[tuple[int, str]] = []  # refused, but after the objects that are packed next; the nearest is the last
    start, size = 0, PACKED_AT_ONCE
    while start < len(objects):
        stop = known[-1][0] if known else len(objects)
        if start == stop:
            refused.append(known.pop())
            start, size = start + 1, 1
            continue
        rows = range(start, min(start + size, stop))
        try:
            packed.append(function([objects[row] for row in rows]))
        except InvalidObject as error:
            known.append((rows[error.index], error.reason))
        else:
            accepted += rows
            start, size = rows.stop, min(2 * size, PACKED_AT_ONCE)
    return packed, accepted, refused


def pack_all(space: OutputSpace[Any, Any], objects: Sequence[Any], context: Context, first: int = 0) -> Any:
    """Pack all `objects` into one batch, with progress; the first that is not in the space raises with its position.

    Positions are counted from `first`.
    """
    starts = range(0, len(objects), PACKED_AT_ONCE)
    parts = []
    for start in context.monitor.progress(starts, description="packing outputs"):
        try:
            parts.append(space.pack(objects[start : start + PACKED_AT_ONCE]))
        except InvalidObject as error:
            error.shift(first + start)
            raise
    return space.Batch.cat(parts) if parts else space.pack([])


# -- files --------------------------------------------------------------------------------------------------------

LARGE = 20 << 20
"""Bytes of a file from which on a line says that it is being read."""


def reading(file: str, monitor: Monitor) -> None:
    """Say that a file is being read, if that takes a while."""
    path = Path(file)
    if path.is_file() and (size := path.stat().st_size) > LARGE:
        monitor.message(f"reading {file}, {size >> 20:,} MiB")


def readers(registry: Registry) -> Readers:
    """Return a function that gives the reader of a suffix, or None if no plugin provides one."""

    def reader_of(suffix: str) -> Reader | None:
        if suffix not in registry.names("reader"):
            return None
        reader: FileReader = registry.create("reader", suffix)
        return reader.read

    return reader_of


class OutputFile:
    """A file with one output in each row, in `column`, else in the column `usual` if it has that, else in the first.

    Nothing of the file is kept but the number of `rows`, how many were `left_out`, and the `first` few of these.
    """

    def __init__(
        self,
        file: str,
        space: OutputSpace[Any, Any],
        readers: Readers,
        column: str | None = None,
        usual: str | None = None,
    ) -> None:
        if file == "-":
            what = "standard input cannot be used: the file is read twice."
            raise DataError(what, where="--among", fix="Give a file.")
        self.file = file
        self.space = space
        self.readers = readers
        self.column = column
        self.usual = usual
        self.rows = 0
        self.left_out = 0
        self.first: list[Rejected] = []

    def chunks(self, monitor: Monitor, processes: Processes) -> Iterator[tuple[Tensor, Any]]:
        """Yield the numbers (N,) of rows, counted from 0, and their packed outputs; only this process's chunks."""
        self.rows = self.left_out = 0
        total = count_chunks(self.file, CHUNK, self.readers)
        shown = monitor.progress(self._cells(), description=f"embedding {self.file}", total=total)
        for number, (cells, lines) in enumerate(shown):
            first, self.rows = self.rows, self.rows + len(cells)
            if number % processes.count == processes.rank:
                found = read_outputs(self.space, cells, lines=lines)
                self.left_out += len(found.rejected)
                room = max(0, SHOWN - len(self.first))
                self.first += [dataclasses.replace(each, row=first + each.row) for each in found.rejected[:room]]
                if len(found):
                    yield first + torch.tensor(found.rows), found.batch

    def texts(self, rows: Sequence[int]) -> dict[int, str]:
        """Read the file again and return the texts of these rows, by their numbers."""
        wanted, found, first = sorted(set(rows)), {}, 0
        place = 0
        for cells, _ in self._cells():
            end = first + len(cells)
            while place < len(wanted) and wanted[place] < end:
                found[wanted[place]] = cell_text(cells[wanted[place] - first])
                place += 1
            if place == len(wanted):
                break
            first = end
        return found

    def summary(self) -> str:
        """What was read, how many rows were left out, and why the first of them were."""
        lines = [f"{self.file}: {counted(self.rows, 'row')}, {self.left_out:,} left out", *map(str, self.first)]
        return "\n  ".join(lines) + ("\n  …" if self.left_out > len(self.first) > 0 else "")

    def _cells(self) -> Iterator[Cells]:
        return stream_column(self.file, self.column, self.usual, CHUNK, self.readers)
