"""Rows that cannot be used: each with its number, its line, its text and the reason."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from ele_core.errors import DataError, counted
from ele_core.files.columns import Cell, Unreadable, cell_text


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


SHOWN = 100
"""The most rejected rows that a message lists; the others are only counted."""
LONGEST = 80
"""The most characters of a row that a message shows."""


def parsed(
    parse: Callable[[str], Any], cells: Sequence[Cell], row: int, rejected: list[Rejected], *, vectors: bool = False
) -> Any | None:
    """Parse one cell; if that fails, add the reason to `rejected` and return None. With `vectors` they are kept."""
    cell = cells[row]
    if not isinstance(cell, str):
        if vectors:
            return cell
        cell = cell_text(cell)
    if isinstance(cell, Unreadable):
        rejected.append(Rejected(row, cell, cell.reason))
        return None
    try:
        return parse(cell)
    except DataError as error:
        rejected.append(Rejected(row, cell, error.reason))
        return None


def located(rejected: Sequence[Rejected], lines: Sequence[int] | None) -> list[Rejected]:
    """The rejected rows with their lines, in the order of the rows; `lines` are those of all rows."""
    ordered = sorted(rejected, key=lambda each: each.row)
    return ordered if lines is None else [dataclasses.replace(each, line=lines[each.row]) for each in ordered]


def refuse(rejected: Sequence[Rejected], source: str, *, skipping: bool = False, fix: str = "") -> None:
    """Raise one error that lists the rejected rows, if there are any; `skipping`: such rows are left out already."""
    if not rejected:
        return
    lines = [f"  {each}" for each in sorted(rejected, key=lambda each: each.row)[:SHOWN]]
    if len(rejected) > SHOWN:
        lines.append(f"  … and {len(rejected) - SHOWN:,} more")
    what = f"{counted(len(rejected), 'row')} cannot be used{', and no row is left' if skipping else ''}"
    fix = fix or ("Check the columns." if skipping else "Correct them, or leave them out with --on-error skip.")
    raise DataError(f"{what}:\n" + "\n".join(lines) + "\n", where=source, fix=fix)
