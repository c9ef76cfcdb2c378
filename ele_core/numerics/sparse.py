"""Sparse features of many objects, stored as keys and values, and their inner products."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from ele_core.numerics.keys import mix

NOTHING = torch.iinfo(torch.int64).max
"""The key of an entry that is not present; no feature has this key."""
FREQUENT = 64
"""A key is frequent if at least one in this many rows has it."""
CHUNK = 256
"""Rows that are compared with all others at once."""

Nearest = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class SparseRows:
    """B rows φ(x), each a sum of `values` at `keys`; a key occurs once in a row.

    keys: (E,) int64, hashes or column numbers. values: (E,) floats. offsets: (B+1,) int64, where each row begins.
    """

    keys: Tensor
    values: Tensor
    offsets: Tensor

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @classmethod
    def counted(cls, keys: Tensor, present: Tensor) -> SparseRows:
        """How often each key occurs in each row of `keys` (B, L), among entries with `present` (B, L) true."""
        return cls.summed(keys, present.float())

    @classmethod
    def summed(cls, keys: Tensor, values: Tensor) -> SparseRows:
        """The sum of the `values` (B, L) of each key in each row of `keys` (B, L); entries of value 0 are dropped."""
        ordered, order = keys.masked_fill(values == 0, NOTHING).sort(dim=1)
        there = ordered != NOTHING
        first = there.clone()
        first[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
        place = first[there].cumsum(0) - 1
        sums = values.new_zeros(int(first.sum())).index_add_(0, place, values.gather(1, order)[there])
        return cls(ordered[first], sums, _offsets(first.sum(dim=1)))

    @classmethod
    def dense(cls, values: Tensor) -> SparseRows:
        """The entries of a matrix (B, D) that are not zero, under their column numbers."""
        there = values != 0
        return cls(there.nonzero()[:, 1], values[there].float(), _offsets(there.sum(dim=1)))

    @classmethod
    def cat(cls, parts: Iterable[SparseRows]) -> SparseRows:
        """The rows of all parts, one part after the other."""
        listed = list(parts)
        sizes = torch.cat([part.offsets.diff() for part in listed])
        return cls(torch.cat([p.keys for p in listed]), torch.cat([p.values for p in listed]), _offsets(sizes))

    @property
    def rows(self) -> Tensor:
        """(E,) int64: the row of each entry."""
        return torch.arange(len(self), device=self.keys.device).repeat_interleave(self.offsets.diff())

    @property
    def squares(self) -> Tensor:
        """(B,) ‖φ(x)‖²."""
        return self.values.new_zeros(len(self)).index_add_(0, self.rows, self.values.square())

    def normalised(self) -> SparseRows:
        """φ(x) / ‖φ(x)‖; an empty row stays empty."""
        scale = self.squares.clamp(min=torch.finfo(torch.float32).tiny).rsqrt()
        return SparseRows(self.keys, self.values * scale[self.rows], self.offsets)

    def between(self, first: int, end: int) -> SparseRows:
        """The rows from `first` up to `end`."""
        start, stop = int(self.offsets[first]), int(self.offsets[end])
        return SparseRows(self.keys[start:stop], self.values[start:stop], self.offsets[first : end + 1] - start)

    def within(self, vocabulary: Tensor) -> SparseRows:
        """The entries whose key is in the ascending `vocabulary` (D,); the position there is the new key."""
        if not len(vocabulary):
            return SparseRows(self.keys[:0], self.values[:0], torch.zeros_like(self.offsets))
        place = torch.searchsorted(vocabulary, self.keys).clamp(max=len(vocabulary) - 1)
        known = vocabulary[place] == self.keys
        sizes = torch.bincount(self.rows[known], minlength=len(self))
        return SparseRows(place[known], self.values[known], _offsets(sizes))

    def times(self, matrix: Tensor) -> Tensor:
        """Φ M for column numbers as keys: (B, D), (D, k) → (B, k)."""
        if not len(self.keys):
            return matrix.new_zeros(len(self), matrix.shape[1])
        return functional.embedding_bag(
            self.keys,
            matrix,
            self.offsets,
            mode="sum",
            per_sample_weights=self.values.to(matrix.dtype),
            include_last_offset=True,
        )

    def transposed(self, columns: int) -> Tensor:
        """Φᵀ as a dense matrix (D, B), where D is `columns`."""
        matrix = self.values.new_zeros(columns, len(self))
        matrix[self.keys, self.rows] = self.values
        return matrix

    def double(self) -> SparseRows:
        """The same rows in double precision."""
        return SparseRows(self.keys, self.values.double(), self.offsets)

    def to(self, device: torch.device) -> SparseRows:
        """The same rows on another device."""
        return SparseRows(self.keys.to(device), self.values.to(device), self.offsets.to(device))


class Products:
    """Inner products with fixed rows, the anchors: calling it returns ⟨φ(x_i), φ(anchor_j)⟩ as (B, a).

    Keys that many anchors have are rows of a dense matrix. Most keys of rich features belong to few anchors; these are
    looked up instead, so the matrix has at most `FREQUENT` times as many cells as the anchors have entries.
    """

    def __init__(self, anchors: SparseRows) -> None:
        vocabulary, columns, counts = anchors.keys.unique(return_inverse=True, return_counts=True)
        frequent = counts * FREQUENT >= len(anchors)
        self.frequent = vocabulary[frequent]
        self.matrix = anchors.within(self.frequent).transposed(len(self.frequent))
        self.rare, self.sizes = vocabulary[~frequent], counts[~frequent]
        self.starts = self.sizes.cumsum(0) - self.sizes
        entries = (~frequent[columns]).nonzero().flatten()
        entries = entries[anchors.keys[entries].argsort(stable=True)]
        self.owners, self.values = anchors.rows[entries], anchors.values[entries]

    def __call__(self, rows: SparseRows) -> Tensor:
        """Rows of features → (B, a)."""
        products = rows.within(self.frequent).times(self.matrix)
        found = rows.within(self.rare)
        sizes = self.sizes[found.keys]
        entry = torch.arange(len(sizes), device=sizes.device).repeat_interleave(sizes)
        shift = self.starts[found.keys] - (sizes.cumsum(0) - sizes)
        posting = torch.arange(len(entry), device=sizes.device) + shift[entry]
        places = found.rows[entry], self.owners[posting]
        return products.index_put_(places, found.values[entry] * self.values[posting], accumulate=True)


def nearest_rows(rows: SparseRows, others: SparseRows, kind: Literal["euclidean", "tanimoto"] = "euclidean") -> Nearest:
    """The row of `others` nearest to each of `rows`, and its distance: (B,), (B,).

    `euclidean`: ‖φ − φ′‖. `tanimoto`: 1 − ⟨φ, φ′⟩ / (‖φ‖² + ‖φ′‖² − ⟨φ, φ′⟩), 0 between two empty rows.
    """
    products, found = Products(others), []
    for first in range(0, len(rows), CHUNK):
        some = rows.between(first, min(first + CHUNK, len(rows)))
        inner, sums = products(some), some.squares[:, None] + others.squares
        if kind == "tanimoto":
            union = sums - inner
            distances = torch.where(union > 0, 1 - inner / union.clamp(min=torch.finfo(inner.dtype).tiny), 0)
        else:
            distances = (sums - 2 * inner).clamp(min=0).sqrt()
        found.append(distances.min(dim=1))
    if not found:
        return torch.zeros(0, dtype=torch.int64), torch.zeros(0)
    return torch.cat([least.indices for least in found]), torch.cat([least.values for least in found])


def signs(keys: Tensor, dim: int) -> Tensor:
    """A fixed random vector of ±1 for each key: (U,) int64 → (U, dim) floats, from the bits of its hashes."""
    blocks = torch.arange(-(-dim // 64), device=keys.device)
    bits = mix(keys[:, None] + mix(blocks))[:, :, None] >> torch.arange(64, device=keys.device)
    return (bits & 1).flatten(1)[:, :dim].float().mul_(2).sub_(1)


def _offsets(sizes: Tensor) -> Tensor:
    """Where rows of these sizes begin, and where the last one ends."""
    return functional.pad(sizes.cumsum(0), (1, 0))


def flat_rows(tensors: Sequence[Tensor]) -> SparseRows:
    """Tensors (B, …), flattened and side by side: one row for each of B."""
    flat = [tensor.flatten(start_dim=1) if tensor.dim() > 1 else tensor[:, None] for tensor in tensors]
    return SparseRows.dense(torch.cat([part.float() for part in flat], dim=1))


@dataclass(frozen=True)
class PartEnergies:
    """Estimates of energies from parts: Σ_p c_p ⟨query, signs(p)⟩ + squares · Σ_p c_p², up to a constant per query.

    c_p is how often a structure has part p (`OutputSpace.features`), `signs` the vector of ±1 of each part.
    """

    queries: Tensor
    """(B, d) floats, one row per query."""
    squares: float = 0.0
    """The weight of the squared counts."""

    def __getitem__(self, rows: Tensor) -> PartEnergies:
        return PartEnergies(self.queries[rows], self.squares)

    def of(self, features: SparseRows) -> Tensor:
        """The estimate for row i of `features` and query i: (B,)."""
        parts = features.keys.unique()
        counts = features.within(parts)
        linear = (counts.times(signs(parts, self.queries.shape[1])) * self.queries).sum(dim=1)
        return linear + self.squares * features.squares
