"""The edit distance of many pairs of sequences at once."""

from __future__ import annotations

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
