"""The edit distance of many pairs of sequences at once, and the alignment of two."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def edit_distances(left: Tensor, right: Tensor) -> Tensor:
    """Levenshtein distances of rows of two (B, L) label tensors, zeros after the end: (B,).

    D[i, j] = min(D[i-1, j] + 1, D[i, j-1] + 1, D[i-1, j-1] + [left_i ≠ right_j]), row by row for all pairs at once.
    """
    rows, columns = left.shape[1], right.shape[1]
    row = torch.arange(columns + 1).expand(len(left), -1)
    table = [row]
    for i in range(1, rows + 1):
        previous, cells = row, [torch.full((len(left),), i)]
        for j in range(1, columns + 1):
            replaced = previous[:, j - 1] + (left[:, i - 1] != right[:, j - 1])
            cells.append(torch.minimum(replaced, torch.minimum(previous[:, j], cells[-1]) + 1))
        row = torch.stack(cells, dim=1)
        table.append(row)
    ends = (left > 0).sum(dim=1), (right > 0).sum(dim=1)
    return torch.stack(table, dim=1)[torch.arange(len(left)), *ends].float()


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
