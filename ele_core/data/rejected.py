"""Rows that cannot be used: each with its number, its text and the reason."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from ele_core.errors import DataError, counted
from ele_core.files.tables import Unreadable


@dataclasses.dataclass(frozen=True)
class Rejected:
    """A row that was not used, and why."""

    row: int
    text: str
    reason: str


SHOWN = 100
"""The most rejected rows that a message lists; the others are only counted."""


def parsed(parse: Callable[[str], Any], texts: Sequence[str], row: int, rejected: list[Rejected]) -> Any | None:
    """Parse one cell; if that fails, add the reason to `rejected` and return None."""
    cell = texts[row]
    if isinstance(cell, Unreadable):
        rejected.append(Rejected(row, cell, cell.reason))
        return None
    try:
        return parse(cell)
    except DataError as error:
        rejected.append(Rejected(row, texts[row], error.reason))
        return None


def refuse(rejected: Sequence[Rejected], source: str) -> None:
    """Raise one error that lists the rejected rows, if there are any."""
    if not rejected:
        return
    ordered = sorted(rejected, key=lambda r: r.row)
    lines = [f"  row {r.row + 1}: {r.text!r}: {r.reason}" for r in ordered[:SHOWN]]
    if len(ordered) > SHOWN:
        lines.append(f"  … and {len(ordered) - SHOWN} more")
    what = f"{counted(len(ordered), 'row')} cannot be used:\n" + "\n".join(lines) + "\n"
    raise DataError(what, where=source, fix="Correct them, or leave them out with --on-error skip.")
