"""The outputs in a column of a large file, parsed and packed chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ele_core.data.packing import PACKED_AT_ONCE, accept
from ele_core.data.rejected import Rejected, located, parsed
from ele_core.errors import DataError, counted
from ele_core.files.columns import cell_text
from ele_core.files.tables import Cells, Readers, count_chunks, stream_column
from ele_core.interfaces import OutputSpace
from ele_core.runtime.distributed import Processes
from ele_core.runtime.monitor import Monitor

CHUNK = 8 * PACKED_AT_ONCE
"""Rows that are read, packed and compared at once."""
SHOWN = 3
"""The rows that cannot be used of which a message says why; the others are only counted."""


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
            what = "is read twice, which standard input cannot be."
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
        parse = self.space.parser(dict(self.space.config))
        shown = monitor.progress(self._cells(), description=f"embedding {self.file}", total=total)
        for number, (cells, lines) in enumerate(shown):
            first, self.rows = self.rows, self.rows + len(cells)
            if number % processes.count == processes.rank:
                rejected: list[Rejected] = []
                found = ((row, parsed(parse, cells, row, rejected)) for row in range(len(cells)))
                objects = {row: obj for row, obj in found if obj is not None}
                rows = list(objects)
                parts, accepted, refused = accept([objects[row] for row in rows], self.space.pack)
                rejected += [Rejected(rows[at], cell_text(cells[rows[at]]), reason) for at, reason in refused]
                self._reject(rejected, lines, first)
                if parts:
                    numbers = torch.tensor([first + rows[place] for place in accepted])
                    yield numbers, self.space.Batch.cat(parts)

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

    def _reject(self, rejected: list[Rejected], lines: Sequence[int] | None, first: int) -> None:
        self.left_out += len(rejected)
        room = SHOWN - len(self.first)
        for each in located(rejected, lines)[: max(0, room)]:
            self.first.append(Rejected(first + each.row, each.text, each.reason, each.line))
