"""Doubly stochastic matrices, whose vertices are permutations."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ele_core.numerics import projections
from ele_core.numerics.sets.base import ConvexSet, off_one, one_hot, uniform, upper_pairs
from ele_core.numerics.sets.simplex import Simplex


@dataclass(frozen=True)
class Birkhoff(ConvexSet):
    """Doubly stochastic matrices (size, size), the hull of permutations; label i is the column of the 1 in row i.

    A move swaps the labels of two rows. No rule says which of several equally near permutations is chosen.
    """

    size: int

    @property
    def point_shape(self) -> tuple[int, ...]:
        return (self.size, self.size)

    @property
    def label_shape(self) -> tuple[int, ...]:
        return (self.size,)

    @property
    def label_count(self) -> int:
        return self.size

    @property
    def switches(self) -> int:
        return self.size * (self.size - 1) // 2

    def tolerance(self, dtype: torch.dtype) -> float:
        return max(1e-8, super().tolerance(dtype))  # the projection is iterative

    def vertices(self, labels: Tensor) -> Tensor:
        return one_hot(labels, self.size).float()

    def nearest_vertex(self, x: Tensor) -> Tensor:
        return projections.assignment(x).to(self.label_dtype)

    def project(self, x: Tensor) -> Tensor:
        return projections.birkhoff(x)

    def sample(self, count: int, generator: Generator, dtype: torch.dtype = torch.float32) -> Tensor:
        labels = self.sample_labels(count * self.size, generator).reshape(count, self.size, self.size)
        permutations = self.vertices(labels).double()
        centre = torch.full_like(permutations[:, :1], 1 / self.size)  # so that samples reach the interior
        parts = torch.cat([permutations, centre], dim=1)
        weights = Simplex(self.size + 1).sample(count, generator, torch.float64)
        return torch.einsum("bk,bkij->bij", weights, parts).to(dtype)

    def sample_labels(self, count: int, generator: Generator) -> Tensor:
        return uniform((count, self.size), generator).argsort(dim=1).to(self.label_dtype)

    def switch(self, labels: Tensor, which: Tensor) -> Tensor:
        swapped = torch.stack(upper_pairs(self.size, labels.device), dim=1)[which]
        return labels.scatter(1, swapped, labels.gather(1, swapped.flip(1)))

    def gains(self, labels: Tensor, gradient: Tensor) -> Tensor:
        i, j = upper_pairs(self.size, labels.device)
        taken = gradient.gather(2, labels.long()[:, None, :].expand_as(gradient))  # row i with the label of row j
        current = taken.diagonal(dim1=1, dim2=2)
        return taken[:, i, j] + taken[:, j, i] - current[:, i] - current[:, j]

    def idle(self, labels: Tensor) -> Tensor:
        return torch.zeros(len(labels), self.switches, dtype=torch.bool, device=labels.device)

    def violations(self, x: Tensor) -> dict[str, Tensor]:
        return {"entries are at least 0": -x, "rows sum to 1": off_one(x), "columns sum to 1": off_one(x.mT)}
