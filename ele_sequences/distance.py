"""The alignment of two sequences."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(left: Sequence[str], right: Sequence[str]) -> list[tuple[str | None, str | None]]:
    """Align the tokens of two sequences with the fewest edits; None marks a token that one of them lacks."""
    table = [[i + j if 0 in (i, j) else 0 for j in range(len(right) + 1)] for i in range(len(left) + 1)]
    for i, one in enumerate(left, start=1):
        for j, other in enumerate(right, start=1):
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + (one != other))
    pairs: list[tuple[str | None, str | None]] = []
    i, j = len(left), len(right)
    while i or j:
        if i and j and table[i][j] == table[i - 1][j - 1] + (left[i - 1] != right[j - 1]):
            i, j = i - 1, j - 1
            pairs.append((left[i], right[j]))
        elif i and table[i][j] == table[i - 1][j] + 1:
            i -= 1
            pairs.append((left[i], None))
        else:
            j -= 1
            pairs.append((None, right[j]))
    return pairs[::-1]
