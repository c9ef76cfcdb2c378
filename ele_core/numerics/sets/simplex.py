"""Rows on the probability simplex, independent or in a symmetric matrix of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ele_core.numerics import projections
from ele_core.numerics.sets.base import ConvexSet, levels, new_label, off_one, one_hot, uniform, upper_pairs


@dataclass(frozen=True)
class Simplex(ConvexSet):
    """Rows on the probability simplex: points (*rows, size), labels `rows`. A move gives one row another label."""

    size: int
    rows: tuple[int, ...] = ()

    @property
    def point_shape(self) -> tuple[int, ...]:
        return (*self.rows, self.size)

    @property
    def label_shape(self) -> tuple[int, ...]:
        return self.rows

    @property
    def label_count(self) -> int:
        return self.size

    @property
    def switches(self) -> int:
        return math.prod(self.rows) * self.size

    def vertices(self, labels: Tensor) -> Tensor:
        return one_hot(labels, self.size).float()

    def nearest_vertex(self, x: Tensor) -> Tensor:
        return x.argmax(dim=-1).to(self.label_dtype)

    def project(self, x: Tensor) -> Tensor:
        return projections.simplex(x)

    def sample(self, count: int, generator: Generator, dtype: torch.dtype = torch.float32) -> Tensor:
        weights = uniform((count, *self.point_shape), generator).clamp_(min=1e-9).log_().neg_()
        kept = uniform(weights.shape, generator) < levels(count, len(self.point_shape), generator)
        certain = torch.randint(self.size, (count, *self.rows, 1), generator=generator, device=generator.device)
        weights = weights.add_(1e-6).mul_(kept.scatter_(-1, certain, True))
        return (weights / weights.sum(dim=-1, keepdim=True)).to(dtype)

    def sample_labels(self, count: int, generator: Generator) -> Tensor:
        labels = torch.randint(self.size, (count, *self.rows), generator=generator, device=generator.device)
        return labels.to(self.label_dtype)

    def switch(self, labels: Tensor, which: Tensor) -> Tensor:
        flat = labels.reshape(len(labels), math.prod(self.rows))
        return flat.scatter(1, (which // self.size)[:, None], new_label(which, self.size, flat)).reshape(labels.shape)

    def gains(self, labels: Tensor, gradient: Tensor) -> Tensor:
        current = gradient.gather(-1, labels.long()[..., None])
        return (gradient - current).reshape(len(labels), self.switches)

    def idle(self, labels: Tensor) -> Tensor:
        return one_hot(labels, self.size).reshape(len(labels), self.switches)

    def shares(self, count: int, generator: Generator) -> Tensor:
        return uniform((count, *self.rows, 1), generator)

    def violations(self, x: Tensor) -> dict[str, Tensor]:
        return {"entries are at least 0": -x, "rows sum to 1": off_one(x)}


@dataclass(frozen=True)
class SymmetricSimplex(ConvexSet):
    """Symmetric matrices of rows on the simplex, the diagonal fixed to label 0: points (nodes, nodes, size).

    A move gives one pair i < j, with its mirror image, another label.
    """

    nodes: int
    size: int

    @property
    def point_shape(self) -> tuple[int, ...]:
        return (self.nodes, self.nodes, self.size)

    @property
    def label_shape(self) -> tuple[int, ...]:
        return (self.nodes, self.nodes)

    @property
    def label_count(self) -> int:
        return self.size

    @property
    def switches(self) -> int:
        return self.nodes * (self.nodes - 1) // 2 * self.size

    def vertices(self, labels: Tensor) -> Tensor:
        return one_hot(labels, self.size).float()

    def nearest_vertex(self, x: Tensor) -> Tensor:
        labels = (x + x.transpose(1, 2)).argmax(dim=-1).to(self.label_dtype)
        labels.diagonal(dim1=1, dim2=2).zero_()
        return labels

    def project(self, x: Tensor) -> Tensor:
        return projections.symmetric_simplex(x)

    def sample(self, count: int, generator: Generator, dtype: torch.dtype = torch.float32) -> Tensor:
        pairs = Simplex(self.size, (self.switches // self.size,)).sample(count, generator, dtype)
        i, j = upper_pairs(self.nodes, pairs.device)
        points = self.vertices(torch.zeros(count, *self.label_shape, device=pairs.device)).to(dtype)
        points[:, i, j] = points[:, j, i] = pairs
        return points

    def sample_labels(self, count: int, generator: Generator) -> Tensor:
        pairs = Simplex(self.size, self.label_shape).sample_labels(count, generator).triu(diagonal=1)
        return pairs + pairs.transpose(1, 2)

    def switch(self, labels: Tensor, which: Tensor) -> Tensor:
        i, j = upper_pairs(self.nodes, labels.device)
        pair = which // self.size
        places = torch.stack([i * self.nodes + j, j * self.nodes + i], dim=1)[pair]
        return labels.flatten(1).scatter(1, places, new_label(which, self.size, labels).expand(-1, 2)).view_as(labels)

    def gains(self, labels: Tensor, gradient: Tensor) -> Tensor:
        i, j = upper_pairs(self.nodes, labels.device)
        pairs = gradient[:, i, j] + gradient[:, j, i]
        current = pairs.gather(-1, labels[:, i, j].long()[..., None])
        return (pairs - current).reshape(len(labels), self.switches)

    def idle(self, labels: Tensor) -> Tensor:
        i, j = upper_pairs(self.nodes, labels.device)
        return one_hot(labels[:, i, j], self.size).reshape(len(labels), self.switches)

    def shares(self, count: int, generator: Generator) -> Tensor:
        shares = uniform((count, self.nodes, self.nodes, 1), generator)
        return torch.minimum(shares, shares.transpose(1, 2))

    def violations(self, x: Tensor) -> dict[str, Tensor]:
        diagonal = x.diagonal(dim1=1, dim2=2).transpose(1, 2)
        vertex = self.vertices(torch.zeros(1, 1, device=x.device)).to(x.dtype)
        return {
            "entries are at least 0": -x,
            "rows sum to 1": off_one(x),
            "entries (i, j) and (j, i) are equal": (x - x.transpose(1, 2)).abs(),
            "the diagonal is label 0": (diagonal - vertex).abs(),
        }
