"""Plain text for a terminal: durations, lists, and columns of equal width."""

from __future__ import annotations

from collections.abc import Sequence

CONTROLS = (*range(9), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
"""Characters by which a text could command a terminal, or change the direction of the line; not tab and line feed."""
_REPLACED = dict.fromkeys(CONTROLS, "\ufffd")


def harmless(text: str) -> str:
    """The text with every character replaced that a terminal would obey instead of showing."""
    return text.translate(_REPLACED)


def in_words(seconds: float | None) -> str:
    """A duration as text: 5 s, 2 min, 2.5 h."""
    if seconds is None:
        return "an unknown time"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def listed(words: Sequence[str]) -> str:
    """Words as a list in a sentence: a, b and c."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def columns(rows: Sequence[Sequence[str]], left: int | None = None) -> str:
    """Rows of cells as lines, each column as wide as its widest cell; right-aligned from column `left` on."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        placed = enumerate(zip(cells, widths, strict=True))
        return "  ".join(
            c.ljust(w) if left is None or place < left else c.rjust(w) for place, (c, w) in placed
        ).rstrip()

    return "\n".join(map(line, rows))
