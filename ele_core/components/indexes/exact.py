"""The index that compares a query with every vector: exact, in memory that does not grow with the vectors."""

from __future__ import annotations

import torch
from torch import Tensor

from ele_core.interfaces import Index
from ele_core.numerics.nearest import Nearest

CHUNK = 1 << 15
"""Vectors that are compared at once."""


class ExactIndex(Index):
    """Read all vectors at each search; the queries of a search share the reading."""

    def search(self, queries: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """The k nearest vectors of each query."""
        found, first = Nearest(queries, k), 0
        for vectors in self.vectors.chunks(CHUNK):
            found.add(torch.arange(first, first + len(vectors)), vectors)
            first += len(vectors)
        return found.filled()
