"""`ConvexSet`: the base class of the sets into which fields are relaxed."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Literal, overload

import torch
from torch import Generator, Tensor


class ConvexSet(ABC):
    """The convex hull of finitely many vertices, each of which is packed as integer labels.

    Points are (B, *point_shape) floats, labels (B, *label_shape) small integers. A *switch* is a move from one
    vertex to a neighbouring one; each vertex has `switches` of them, some of which may change nothing.
    """

    @property
    @abstractmethod
    def point_shape(self) -> tuple[int, ...]:
        """The shape of one point."""

    @property
    @abstractmethod
    def label_shape(self) -> tuple[int, ...]:
        """The shape of the labels of one vertex."""

    @property
    @abstractmethod
    def label_count(self) -> int:
        """The number of values of a label: 0 … label_count − 1."""

    @property
    @abstractmethod
    def switches(self) -> int:
        """K, the number of moves of a vertex."""

    @abstractmethod
    def vertices(self, labels: Tensor) -> Tensor:
        """Labels (B, *label_shape) → vertices (B, *point_shape) float32."""

    @abstractmethod
    def nearest_vertex(self, x: Tensor) -> Tensor:
        """Argmin over vertices v of ‖v − x‖²: (B, *point_shape) → labels (B, *label_shape); the smallest of ties."""

    @abstractmethod
    def project(self, x: Tensor) -> Tensor:
        """Argmin over p in the set of ‖p − x‖²: (B, *point_shape) → the same shape and dtype."""

    @abstractmethod
    def sample(self, count: int, generator: Generator, dtype: torch.dtype = torch.float32) -> Tensor:
        """(count, *point_shape) random points of the set: interior, faces and vertices all occur."""

    @abstractmethod
    def sample_labels(self, count: int, generator: Generator) -> Tensor:
        """(count, *label_shape) random vertices, uniformly."""

    @abstractmethod
    def switch(self, labels: Tensor, which: Tensor) -> Tensor:
        """Apply move `which[i]` to vertex i: (M, *label_shape), (M,) → (M, *label_shape)."""

    @abstractmethod
    def violations(self, x: Tensor) -> dict[str, Tensor]:
        """Each condition on points of the set, as text → by how much x breaks it, elementwise; at most 0: it holds."""

    # -- defaults that follow from the above; a set with a faster way overrides them ------------------------------

    def gains(self, labels: Tensor, gradient: Tensor) -> Tensor:
        """⟨gradient, new vertex − old vertex⟩ for each move: (B, K). By default all B·K vertices are built."""
        count, size = len(labels), math.prod(self.point_shape)
        new = self.vertices(self._moved(labels)).to(gradient).reshape(count, self.switches, size)
        old = self.vertices(labels).to(gradient).reshape(count, 1, size)
        return ((new - old) * gradient.reshape(count, 1, size)).sum(dim=2)

    def idle(self, labels: Tensor) -> Tensor:
        """Whether a move changes nothing: boolean, broadcastable to (B, K)."""
        count, size = len(labels), math.prod(self.label_shape)
        return (self._moved(labels).reshape(count, self.switches, size) == labels.reshape(count, 1, size)).all(dim=2)

    def shares(self, count: int, generator: Generator) -> Tensor:
        """Uniform on [0, 1), one for each block that moves separately; by default the whole point is one block."""
        return uniform((count, *[1] * len(self.point_shape)), generator)

    def switch_gains(self, labels: Tensor, gradient: Tensor | None = None) -> Tensor:
        """First-order change of a loss for each move, ⟨gradient, new vertex − old vertex⟩: (B, K).

        +inf if the move changes nothing. Without a gradient (B, *point_shape), every other gain is zero.
        """
        if gradient is None:
            gains = torch.zeros(len(labels), self.switches, device=labels.device)
        else:
            gains = self.gains(labels, gradient)
        return gains.masked_fill(self.idle(labels), math.inf)

    @overload
    def contains(self, x: Tensor, *, explain: Literal[False] = False) -> bool: ...
    @overload
    def contains(self, x: Tensor, *, explain: Literal[True]) -> tuple[bool, str]: ...
    def contains(self, x: Tensor, *, explain: bool = False) -> bool | tuple[bool, str]:
        """Whether every point of the batch lies in the set, within `tolerance`; with `explain`, also the reason."""
        reason = self._why_not(x)
        return (not reason, reason) if explain else not reason

    def soften(self, points: Tensor, amount: float, generator: Generator) -> Tensor:
        """Move each block of the points a random share of the way, up to `amount`, towards a random vertex."""
        others = self.vertices(self.sample_labels(len(points), generator)).to(points)
        return torch.lerp(points, others, (amount * self.shares(len(points), generator)).to(points))

    def tolerance(self, dtype: torch.dtype) -> float:
        """How far a point may be from a constraint and still count as inside."""
        return 64 * torch.finfo(dtype).eps

    @property
    def label_dtype(self) -> torch.dtype:
        """The smallest signed integer type that holds every label."""
        fits = (t for t in (torch.int8, torch.int16, torch.int32) if self.label_count - 1 <= torch.iinfo(t).max)
        return next(fits, torch.int64)

    def _moved(self, labels: Tensor) -> Tensor:
        """Every move applied to every vertex: (B·K, *label_shape)."""
        every = torch.arange(self.switches, device=labels.device).repeat(len(labels))
        return self.switch(labels.repeat_interleave(self.switches, dim=0), every)

    def _why_not(self, x: Tensor) -> str:
        """Why x is not a batch of points of this set; empty if it is."""
        if x.shape[1:] != self.point_shape:
            return f"shape {tuple(x.shape)} is not (B, {', '.join(map(str, self.point_shape))})"
        if not x.is_floating_point():
            return f"points are floats, not {x.dtype}"
        if not bool(x.isfinite().all()):
            return "some entries are not finite"
        limit = self.tolerance(x.dtype)
        for rule, excess in self.violations(x).items():
            worst = float(excess.max()) if excess.numel() else 0.0
            if worst > limit:
                return f"{rule}: broken by {worst:.3g}, more than the tolerance {limit:.3g}"
        return ""


def one_hot(labels: Tensor, size: int) -> Tensor:
    """(…) labels → (…, size) boolean."""
    return labels[..., None] == torch.arange(size, device=labels.device)


def new_label(which: Tensor, size: int, like: Tensor) -> Tensor:
    """The new label of a move numbered position · size + label: (M, 1), in the dtype of `like`."""
    return (which % size)[:, None].to(like.dtype)


def upper_pairs(size: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The pairs i < j, in row-major order."""
    i, j = torch.triu_indices(size, size, offset=1, device=device)
    return i, j


def off_one(x: Tensor) -> Tensor:
    """How far the sum over the last dimension is from 1."""
    return (x.double().sum(dim=-1) - 1).abs()


def uniform(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Uniform on [0, 1), in float64, on the device of the generator."""
    return torch.rand(shape, generator=generator, device=generator.device, dtype=torch.float64)


def levels(count: int, dimensions: int, generator: Generator) -> Tensor:
    """How far inside each sample is: 0 (a vertex) for one sixth of them, 1 (the interior) for another sixth."""
    return (uniform((count,), generator) * 1.5 - 0.25).clamp_(0.0, 1.0).reshape(count, *[1] * dimensions)
