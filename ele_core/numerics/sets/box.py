"""Numbers between two bounds."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ele_core.numerics import projections
from ele_core.numerics.sets.base import ConvexSet, levels, uniform
from ele_core.numerics.sets.simplex import Simplex


@dataclass(frozen=True)
class Box(ConvexSet):
    """Vectors (size,) with entries between `low` and `high`, labels 0 and 1. A move flips one entry."""

    size: int
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        """Refuse low ≥ high: many labels would have the same vertex."""
        if not self.low < self.high:
            message = f"a box needs low < high, not {self.low} and {self.high}"
            raise ValueError(message)

    @property
    def point_shape(self) -> tuple[int, ...]:
        return (self.size,)

    @property
    def label_shape(self) -> tuple[int, ...]:
        return (self.size,)

    @property
    def label_count(self) -> int:
        return 2

    @property
    def switches(self) -> int:
        return self.size

    def tolerance(self, dtype: torch.dtype) -> float:
        return super().tolerance(dtype) * max(abs(self.low), abs(self.high))

    def vertices(self, labels: Tensor) -> Tensor:
        return torch.where(labels > 0, self.high, self.low).float()

    def nearest_vertex(self, x: Tensor) -> Tensor:
        return (x > (self.low + self.high) / 2).to(self.label_dtype)

    def project(self, x: Tensor) -> Tensor:
        return projections.box(x, self.low, self.high)

    def sample(self, count: int, generator: Generator, dtype: torch.dtype = torch.float32) -> Tensor:
        inside = uniform((count, self.size), generator)
        free = uniform(inside.shape, generator) < levels(count, 1, generator)
        return (self.low + (self.high - self.low) * torch.where(free, inside, inside.round())).to(dtype)

    def sample_labels(self, count: int, generator: Generator) -> Tensor:
        return Simplex(2, (self.size,)).sample_labels(count, generator)

    def switch(self, labels: Tensor, which: Tensor) -> Tensor:
        return labels.scatter(1, which[:, None], 1 - labels.gather(1, which[:, None]))

    def gains(self, labels: Tensor, gradient: Tensor) -> Tensor:
        return gradient * torch.where(labels > 0, self.low - self.high, self.high - self.low).to(gradient)

    def idle(self, labels: Tensor) -> Tensor:
        return torch.zeros_like(labels, dtype=torch.bool)

    def shares(self, count: int, generator: Generator) -> Tensor:
        return uniform((count, self.size), generator)

    def violations(self, x: Tensor) -> dict[str, Tensor]:
        return {f"entries are at least {self.low}": self.low - x, f"entries are at most {self.high}": x - self.high}
