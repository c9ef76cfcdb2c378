"""The rows nearest to each query among rows that come in chunks: exact, in memory that does not grow with the rows."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

CELLS = 1 << 24
"""Numbers in memory at once for a chunk: 64 MiB."""


class Nearest:
    """The `k` rows of least squared distance for each of the queries (B, d), among all rows that were added.

    `distances` (B, k) ascend, `rows` (B, k) are the numbers of the rows; there are fewer columns until k rows were
    added. Of equally near rows, those that were added first come first.
    """

    def __init__(self, queries: Tensor, k: int) -> None:
        self.queries = queries
        self.k = k
        self.distances = queries.new_zeros(len(queries), 0)
        self.rows = torch.zeros(len(queries), 0, dtype=torch.long, device=queries.device)

    def add(self, rows: Tensor, embeddings: Tensor) -> None:
        """Take more rows into account: their numbers (N,) and embeddings (N, d)."""
        if not len(rows) or not len(self.queries):
            return
        embeddings, rows = embeddings.to(self.queries), rows.to(self.rows)
        squares = torch.linalg.vector_norm(embeddings, dim=1).square()  # without a copy of all embeddings
        found = min(self.k, len(rows))
        size = max(1, CELLS // max(len(rows), found * embeddings.shape[1]))
        parts = [self._merged(part, rows, embeddings, squares) for part in self._blocks(size)]
        self.distances, self.rows = (torch.cat(column) for column in zip(*parts, strict=True))

    def filled(self) -> tuple[Tensor, Tensor]:
        """Distances and rows (B, k); if fewer than k rows were added, missing distances are infinite, and rows 0."""
        missing = (0, self.k - self.rows.shape[1])
        return functional.pad(self.distances, missing, value=torch.inf), functional.pad(self.rows, missing)

    def _blocks(self, size: int) -> list[slice]:
        return [slice(first, first + size) for first in range(0, len(self.queries), size)]

    def _merged(self, part: slice, rows: Tensor, embeddings: Tensor, squares: Tensor) -> tuple[Tensor, Tensor]:
        """The nearest of those known and of the new ones, for the queries of one block.

        A matrix product finds the nearest of the new ones; their distances are then computed from the differences,
        which loses no precision if they are small.
        """
        queries = self.queries[part]
        scores = torch.addmm(squares[None], queries, embeddings.T, alpha=-2)
        columns = scores.topk(min(self.k, len(rows)), dim=1, largest=False).indices.sort(dim=1).values
        exact = (queries[:, None] - embeddings[columns]).square().sum(dim=2)
        distances, order = torch.cat([self.distances[part], exact], dim=1).sort(dim=1, stable=True)
        known = torch.cat([self.rows[part], rows[columns]], dim=1).gather(1, order)
        return distances[:, : self.k], known[:, : self.k]


def squared_distances(left: Tensor, right: Tensor) -> Tensor:
    """‖a − b‖² of each row of (n, d) and each of (m, d): (n, m), from the differences."""
    size = max(1, CELLS // max(1, right.numel()))
    parts = [(part[:, None] - right).square().sum(dim=2) for part in left.split(size)]
    return torch.cat(parts) if parts else left.new_zeros(0, len(right))
