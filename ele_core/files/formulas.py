"""Cells of CSV files that a spreadsheet would run: written with an apostrophe before them, and read without it.

A cell is such a formula if it begins with `=`, `@`, a tab or a carriage return; or with `+` or `-`, unless it holds
only numbers. To keep the way there and back exact, a formula that has apostrophes before it gets one more.
"""

from __future__ import annotations

import re

FORMULA = re.compile(r"'*(?:[=@\t\r]|[+-][\d\s.,;+eE-]*[^\d\s.,;+eE-])")


def guarded(cell: str) -> str:
    """The cell as it is written: `=1` becomes `'=1`, `-1` stays as it is."""
    return f"'{cell}" if FORMULA.match(cell) else cell


def unguarded(cell: str) -> str:
    """The cell that `guarded` returns this text for."""
    return cell[1:] if cell[:1] == "'" and FORMULA.match(cell) else cell
