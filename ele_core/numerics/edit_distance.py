"""The edit distance of many pairs of sequences at once."""

from __future__ import annotations

import torch
from torch import Tensor


def edit_distances(left: Tensor, right: Tensor) -> Tensor:
    """Levenshtein distances of rows of two (B, L) label tensors, zeros after the end: (B,).

    D[i, j] = min(D[i-1, j] + 1, D[i, j-1] + 1, D[i-1, j-1] + [left_i ≠ right_j]), for all pairs and all cells of a
    diagonal i + j = d at once: they depend on the two diagonals before only. Row i of a diagonal is D[i, d-i].
    """
    rows, columns = left.shape[1], right.shape[1]
    ends, total = (left > 0).sum(dim=1), (left > 0).sum(dim=1) + (right > 0).sum(dim=1)
    left, mirrored = left.T.contiguous(), right.T.flip(0)
    cells = torch.zeros(rows + 1, len(ends), dtype=torch.int16 if rows + columns < 1 << 15 else torch.int32)
    before, last, found = cells, cells, cells[0]
    for d in range(1, rows + columns + 1):
        cells = torch.full_like(cells, d)  # D[d, 0] and D[0, d]; the others are replaced
        low, high = max(1, d - columns), min(rows + 1, d)
        if low < high:
            above, here, shift = slice(low - 1, high - 1), slice(low, high), columns - d
            replaced = before[above] + (left[above] != mirrored[low + shift : high + shift])
            torch.minimum(replaced, torch.minimum(last[above], last[here]).add_(1), out=cells[here])
        found = torch.where(total == d, cells.gather(0, ends[None])[0], found)
        before, last = last, cells
    return found.float()
