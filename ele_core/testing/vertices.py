"""The vertices of a convex set, all of them if there are few, and the hull that they span: a second opinion."""

from __future__ import annotations

import dataclasses
import itertools
import math

import torch
from torch import Tensor

from ele_core.numerics import projections
from ele_core.numerics.sets import ConvexSet
from ele_core.testing.samples import seeded

DRAWS = 8192
"""Vertices that are drawn to find all of them."""
DRAWS_OF_EACH = 8
"""How often each vertex must be expected among the draws, to believe that none is missing."""
ENUMERATED = 4096
"""The most labels that are enumerated."""
KEPT = 512
"""The most vertices to compare with, if there are too many to find them all."""
COORDINATES = 1 << 22
"""Coordinates of drawn vertices in memory at once."""
ROUNDS = 1000
"""Steps of the search for the nearest mean of vertices."""
MEANS = 256
"""The most vertices of which means are searched for."""


@dataclasses.dataclass(frozen=True)
class Vertices:
    """Different vertices of a set: labels (V, *label_shape), points (V, D) in float64, and how often each was drawn."""

    labels: Tensor
    points: Tensor
    drawn: Tensor
    complete: bool
    """Whether these are all vertices, as far as `sample_labels` knows them."""

    def __len__(self) -> int:
        return len(self.labels)

    def distances(self, x: Tensor, enough: float) -> Tensor:
        """How far points (B, …) are from the nearest mean of vertices (B,); none that is below `enough` is exact."""
        flat = x.double().flatten(1)
        found: Tensor = (flat - nearest_means(self.points, flat, enough)).norm(dim=1)
        return found


def vertices_of(convex: ConvexSet) -> Vertices:
    """Draw vertices by `sample_labels`: all if there are few, else some."""
    size = max(1, math.prod(convex.point_shape))
    count = min(DRAWS, max(KEPT, COORDINATES // size))
    labels = convex.sample_labels(count, seeded(5))
    rows, drawn = torch.unique(labels.reshape(count, math.prod(convex.label_shape)), dim=0, return_counts=True)
    complete = len(rows) * DRAWS_OF_EACH <= count
    kept = slice(None) if complete else slice(KEPT)
    found = rows[kept].reshape(-1, *convex.label_shape)
    return Vertices(found, convex.vertices(found).double().flatten(1), drawn[kept], complete)


def enumerated(convex: ConvexSet) -> Tensor | None:
    """All labels that stand for vertices, by trying every combination; None if there are too many."""
    places = math.prod(convex.label_shape)
    if convex.label_count**places > ENUMERATED:
        return None
    every = torch.tensor(list(itertools.product(range(convex.label_count), repeat=places)))
    labels = every.reshape(-1, *convex.label_shape).to(convex.label_dtype)
    points = convex.vertices(labels)
    same = (convex.nearest_vertex(points) == labels).reshape(len(labels), places).all(dim=1)
    inside = torch.tensor([convex.contains(point[None]) for point in points])
    return labels[same & inside]


def nearest_means(vertices: Tensor, x: Tensor, enough: float) -> Tensor:
    """The mean of `vertices` (V, D) nearest to each x (B, D), by accelerated descent on the weights.

    It ends as soon as all are nearer than `enough`.
    """
    centred, target = vertices - vertices.mean(dim=0), x - vertices.mean(dim=0)
    curvature = max(float(torch.linalg.matrix_norm(centred, 2)) ** 2, 1e-12)
    weights = projections.simplex(-torch.cdist(target, centred).square())
    ahead, momentum = weights, 1.0
    for _ in range(ROUNDS):
        off = ahead @ centred - target
        moved = projections.simplex(ahead - off @ centred.T / curvature)
        if float((moved @ centred - target).norm(dim=1).max()) < enough:
            weights = moved
            break
        following = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        ahead = moved + (momentum - 1) / following * (moved - weights)
        weights, momentum = moved, following
    return weights @ vertices
