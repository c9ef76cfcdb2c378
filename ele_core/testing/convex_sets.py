"""`check_convex_set`: every law of a convex set, against all its vertices and the hull that they span."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol

import torch
from torch import Generator, Tensor

from ele_core.numerics import projections
from ele_core.numerics.sets import ConvexSet
from ele_core.testing.results import CheckResult, after, laws_in, require, run_checks
from ele_core.testing.samples import require_own_randomness, seeded

DRAWS = 8192
"""Vertices that are drawn to find all of them."""
DRAWS_OF_EACH = 8
"""How often each vertex must be expected among the draws, to believe that none is missing."""
ENUMERATED = 4096
"""Maximum number of labels to enumerate."""
KEPT = 512
"""Maximum number of vertices to compare with, if there are too many to find them all."""
COORDINATES = 1 << 22
"""Coordinates of drawn vertices in memory at once."""
ROUNDS = 1000
"""Steps of the search for the nearest mean of vertices."""
MEANS = 256
"""Maximum number of vertices whose means are searched for."""


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


POINTS = 48
SAMPLES = 512
NEAR = 1e-4
"""The largest distance that counts as rounding, for sets whose vertices are about 1 apart."""
OUTSIDE = 0.25
"""How far outside of the set a point is that must be refused."""
BUILT = 1 << 22
"""Coordinates of moved vertices in memory at once."""


class HasSets(Protocol):
    """Anything with convex sets by name, such as an output space."""

    @property
    def geometry(self) -> Mapping[str, ConvexSet]:
        """The name of each field → its set."""


def check_sets_have_these_vertices(space: HasSets) -> None:
    """`vertices` gives a different float32 point for each label, `nearest_vertex` inverts it, `contains` accepts it.

    If a set is small, `sample_labels` draws every vertex, about equally often, and every label value is used.
    """
    for name, convex, known in sets_of(space):
        points = convex.vertices(known.labels)
        require(points.dtype == torch.float32, f"{name}: `vertices` gives {points.dtype}, not torch.float32")
        back = convex.nearest_vertex(points)
        wrong = rows(back != known.labels).any(dim=1)
        if wrong.any():
            row = int(wrong.int().argmax())
            shown = f"{known.labels[row].tolist()} comes back as {back[row].tolist()}"
            require(False, f"{name}: `nearest_vertex` of a vertex is another one: labels {shown}")
        inside, reason = convex.contains(points, explain=True)
        require(inside, f"{name}: `contains` refuses a vertex: {reason}")
        if known.complete and len(known) > 1:
            require_all_drawn(name, convex, known)


def require_all_drawn(name: str, convex: ConvexSet, known: Vertices) -> None:
    """Raise `Broken` if labels that are vertices are never drawn, unused or drawn too rarely."""
    every = enumerated(convex)
    if every is not None:
        drawn = known.labels.tolist()
        missing = [row for row in every.tolist() if row not in drawn]
        require(
            not missing,
            f"{name}: the labels {missing[:1]} are a vertex by `nearest_vertex` and `contains`, but `sample_labels` "
            "never draws them",
        )
    used = int(known.labels.max()) + 1
    require(
        used == convex.label_count,
        f"{name}: label_count is {convex.label_count}, but no vertex has a label above {used - 1}",
    )
    expected = float(known.drawn.sum()) / len(known)
    spread = float((known.drawn - expected).square().sum()) / expected
    row = int((known.drawn - expected).abs().argmax())
    require(
        spread <= len(known) + 10 * (2 * len(known)) ** 0.5 + 20,
        f"{name}: `sample_labels` does not draw all vertices equally often: {known.labels[row].tolist()} "
        f"{int(known.drawn[row])} times of {int(known.drawn.sum())}, where {expected:.0f} are expected",
    )


@after(check_sets_have_these_vertices)
def check_sets_round_to_the_nearest_vertex(space: HasSets) -> None:
    """No vertex is nearer to a point, inside or outside of the set, than that of `nearest_vertex`."""
    for name, convex, known in sets_of(space):
        for scale in (0.3, 3.0):
            x = around(convex, scale)
            labels = convex.nearest_vertex(x)
            found = (x - convex.vertices(labels).double()).flatten(1).norm(dim=1)
            apart = torch.cdist(x.flatten(1), known.points)
            worst = found - apart.min(dim=1).values
            row = int(worst.argmax())
            nearer = known.labels[apart[row].argmin()].tolist()
            require(
                float(worst[row]) <= NEAR * (1 + scale),
                f"{name}: `nearest_vertex` gives the labels {labels[row].tolist()}, but {nearer} are nearer by "
                f"{float(worst[row]):.3g} to the point {shown(x[row])}",
            )


@after(check_sets_have_these_vertices)
def check_sets_are_the_hull_of_their_vertices(space: HasSets) -> None:
    """Projected points and samples are means of vertices, and no vertex lies beyond a projected point.

    If there are few vertices, the nearest mean of them is computed; else linear functions are compared with their
    maxima at vertices.
    """
    for name, convex, known in sets_of(space):
        x = around(convex, 1.0)
        require_hull(name, "project", convex, known, convex.project(x))
        require_hull(name, "sample", convex, known, convex.sample(POINTS, seeded(3), torch.float64))
        residual = (x - convex.project(x)).flatten(1)
        beyond = residual @ known.points.T - (residual * convex.project(x).flatten(1)).sum(dim=1, keepdim=True)
        row, vertex = divmod(int(beyond.argmax()), len(known))
        require(
            float(beyond.max()) <= NEAR * (1 + float(residual.norm(dim=1).max())),
            f"{name}: `project` of {shown(x[row])} is {shown(convex.project(x)[row])}, but a point towards the vertex "
            f"{known.labels[vertex].tolist()} is nearer",
        )


@after(check_sets_are_the_hull_of_their_vertices)
def check_sets_refuse_points_outside(space: HasSets) -> None:
    """`contains` is false for a point clearly outside, alone and among points of the set."""
    for name, convex, _ in sets_of(space):
        x = torch.cat([around(convex, scale) for scale in (0.3, 2.0)])
        inside = convex.project(x)
        away = (x - inside).flatten(1).norm(dim=1)
        good = convex.project(around(convex, 0.1))
        for row in (away > OUTSIDE).nonzero().flatten().tolist():
            outside = (inside[row] + OUTSIDE * (x[row] - inside[row]) / away[row])[None]
            what = f"{name}: `contains` accepts {shown(outside)}, which is {OUTSIDE} away from the set"
            require(not convex.contains(outside), f"{what}: look at `violations` and `tolerance`")
            among = torch.cat([good, outside])
            require(not convex.contains(among), f"{what}, if it is in a batch: `violations` must judge each row")


@after(check_sets_have_these_vertices)
def check_sets_move_between_vertices(space: HasSets) -> None:
    """`switch` leads to vertices, leaves its labels alone, and `idle` says which moves change nothing.

    In a small set, moves lead from each vertex to all others, and no two of the `switches` are always the same.
    """
    for name, convex, known in sets_of(space):
        if not convex.switches:
            continue
        labels = known.labels if known.complete else known.labels[: few(convex)]
        moved = moved_labels(name, convex, labels)
        require_vertices(name, convex, moved.flatten(0, 1))
        changed = rows((moved != labels[:, None]).flatten(0, 1)).any(dim=1).view(len(labels), convex.switches)
        idle = convex.idle(labels).expand(len(labels), convex.switches)
        if not torch.equal(idle, ~changed):
            row, move = divmod(int((idle != ~changed).flatten().int().argmax()), convex.switches)
            says, does = ("nothing", "something") if idle[row, move] else ("something", "nothing")
            where = f"move {move} of the vertex {labels[row].tolist()}"
            require(False, f"{name}: `idle` says that {where} changes {says}, but it changes {does}")
        if known.complete and len(known) > 1:
            require_connected(name, known, moved)
            require_different_moves(name, moved)


@after(check_sets_move_between_vertices)
def check_sets_rank_their_moves(space: HasSets) -> None:
    """`gains` is ⟨gradient, new vertex − old vertex⟩ for every move that changes something."""
    for name, convex, known in sets_of(space):
        if not convex.switches:
            continue
        labels = known.labels[: few(convex)]
        gradient = torch.randn(len(labels), *convex.point_shape, generator=seeded(4), dtype=torch.float64)
        found, expected = convex.gains(labels, gradient), ConvexSet.gains(convex, labels, gradient)
        require(found.shape == expected.shape, f"{name}: `gains` has shape {tuple(found.shape)}, not (B, switches)")
        off = (found - expected).abs().masked_fill(convex.idle(labels).expand(found.shape), 0)
        row, move = divmod(int(off.argmax()), convex.switches)
        require(
            float(off.max()) <= NEAR * (1 + float(expected.abs().max())),
            f"{name}: `gains` of move {move} of the vertex {labels[row].tolist()} is {float(found[row, move]):.4g}, "
            f"but ⟨gradient, new − old vertex⟩ is {float(expected[row, move]):.4g}",
        )


@after(check_sets_have_these_vertices)
def check_sets_sample_everywhere(space: HasSets) -> None:
    """`sample` gives vertices and other points, in the dtype that is asked for; other generators give other points.

    `soften` stays in the set.
    """
    for name, convex, known in sets_of(space):
        if known.complete and len(known) == 1:
            continue
        for dtype in (torch.float32, torch.float64):
            points = convex.sample(SAMPLES, seeded(), dtype)
            require(points.dtype == dtype, f"{name}: `sample` gives {points.dtype}, although {dtype} is asked for")
        other = convex.sample(SAMPLES, seeded(1), torch.float64)
        require(not torch.equal(points, other), f"{name}: `sample` gives the same points for every generator")
        labels = [convex.sample_labels(SAMPLES, seeded(seed)) for seed in (0, 1)]
        require(not torch.equal(*labels), f"{name}: `sample_labels` gives the same labels for every generator")
        vertices = convex.vertices(convex.nearest_vertex(points)).to(points)
        at_vertex = (points - vertices).flatten(1).abs().amax(dim=1) <= NEAR
        require(at_vertex.any(), f"{name}: none of {SAMPLES} samples is a vertex: let vertices and faces occur")
        require(not at_vertex.all(), f"{name}: all of {SAMPLES} samples are vertices: let points inside occur")
        soft = convex.soften(convex.vertices(labels[0]).double(), 1.0, seeded(2))
        inside, reason = convex.contains(soft, explain=True)
        require(inside, f"{name}: `soften` leaves the set ({reason}): `shares` must move what belongs together alike")


def check_sets_draw_from_their_generator(space: HasSets) -> None:
    """`sample`, `sample_labels`, `shares` and `soften` draw only from the generator that they are given."""
    for name, convex in space.geometry.items():
        points = convex.sample(8, seeded())
        calls: dict[str, Callable[[Generator], Tensor]] = {
            "sample": partial(convex.sample, 8),
            "sample_labels": partial(convex.sample_labels, 8),
            "shares": partial(convex.shares, 8),
            "soften": partial(convex.soften, points, 0.5),
        }
        for method, drawn in calls.items():

            def call(drawn: Callable[[Generator], Tensor] = drawn) -> Tensor:
                return drawn(seeded())

            require_own_randomness(f"field '{name}', {type(convex).__name__}: `{method}`", call)
            require(torch.equal(call(), call()), f"field '{name}': `{method}` differs between two equal generators")


SET_CHECKS = laws_in(globals())


def sets_of(space: HasSets) -> Iterator[tuple[str, ConvexSet, Vertices]]:
    """The sets of a space, each with what to call it in a message, and its vertices."""
    for name, convex in space.geometry.items():
        yield f"field '{name}', {type(convex).__name__}", convex, vertices_of(convex)


def around(convex: ConvexSet, scale: float) -> Tensor:
    """Points in and around a set, in float64."""
    inside = convex.sample(POINTS, seeded(6), torch.float64)
    return inside + scale * torch.randn(inside.shape, generator=seeded(7), dtype=torch.float64)


def require_hull(name: str, method: str, convex: ConvexSet, known: Vertices, points: Tensor) -> None:
    """Raise `Broken` if a point is not a mean of vertices."""
    flat = points.double().flatten(1)
    if known.complete and len(known) <= MEANS:
        off = known.distances(points, 5 * NEAR)
        row = int(off.argmax())
        require(
            float(off[row]) <= 10 * NEAR,
            f"{name}: `{method}` gives {shown(points[row])}, which is {float(off[row]):.3g} away from every mean of "
            f"the {len(known)} vertices",
        )
        return
    directions = torch.randn(64, flat.shape[1], generator=seeded(8), dtype=torch.float64)
    ends = convex.vertices(convex.nearest_vertex(1e6 * directions.reshape(-1, *convex.point_shape)))
    most = (directions * ends.double().flatten(1)).sum(dim=1)
    excess = flat @ directions.T - torch.maximum(most, (known.points @ directions.T).amax(dim=0))
    row = int(excess.amax(dim=1).argmax())
    require(
        float(excess.max()) <= 10 * NEAR,
        f"{name}: `{method}` gives {shown(points[row])}, which is outside of the hull of the vertices by "
        f"{float(excess.max()):.3g}",
    )


def moved_labels(name: str, convex: ConvexSet, labels: Tensor) -> Tensor:
    """Every move of every vertex: (B, K, *label_shape)."""
    given = labels.repeat_interleave(convex.switches, dim=0)
    before = given.clone()
    moved = convex.switch(given, torch.arange(convex.switches).repeat(len(labels)))
    require(torch.equal(given, before), f"{name}: `switch` writes into the labels that it is given: clone them first")
    return moved.reshape(len(labels), convex.switches, *convex.label_shape)


def require_vertices(name: str, convex: ConvexSet, moved: Tensor) -> None:
    """Raise `Broken` if moved labels are not those of a vertex."""
    wrong = rows(convex.nearest_vertex(convex.vertices(moved)) != moved).any(dim=1)
    row = int(wrong.int().argmax())
    require(not wrong.any(), f"{name}: `switch` leads to the labels {moved[row].tolist()}, which are no vertex")


def require_connected(name: str, known: Vertices, moved: Tensor) -> None:
    """Raise `Broken` if some vertices cannot be reached from others."""
    number = {tuple(row): place for place, row in enumerate(rows(known.labels).tolist())}
    moves = moved.reshape(len(known), moved.shape[1], -1).tolist()
    after_moves = [{number.get(tuple(row), -1) for row in own} for own in moves]
    for start in (0, len(known) - 1):
        seen, waiting = {start}, [start]
        while waiting:
            fresh = after_moves[waiting.pop()] - seen - {-1}
            seen |= fresh
            waiting += fresh
        lost = next((place for place in range(len(known)) if place not in seen), None)
        require(
            lost is None,
            f"{name}: no sequence of moves leads from {known.labels[start].tolist()} to "
            f"{known.labels[lost or 0].tolist()}: `switch` misses moves",
        )


def require_different_moves(name: str, moved: Tensor) -> None:
    """Raise `Broken` if two moves do the same at every vertex."""
    _, found = torch.unique(rows(moved.transpose(0, 1)), dim=0, return_inverse=True)
    groups = found.tolist()
    for move, number in enumerate(groups):
        first = groups.index(number)
        require(
            first == move,
            f"{name}: moves {first} and {move} do the same at every vertex: does `switch` use all of `which`?",
        )


def few(convex: ConvexSet) -> int:
    """How many vertices can be moved in every way at once."""
    return max(1, min(16, BUILT // max(1, convex.switches * math.prod(convex.point_shape))))


def rows(tensor: Tensor) -> Tensor:
    """(B, …) → (B, N)."""
    return tensor.reshape(len(tensor), math.prod(tensor.shape[1:]))


def shown(point: Tensor) -> str:
    """A point with three digits, cut if it is long."""
    numbers = [float(f"{number:.3g}") for number in point.flatten()[:13].tolist()]
    return f"{numbers[:12]}{'…' if len(numbers) > 12 else ''}"


class _Alone:
    """A set that belongs to no space."""

    def __init__(self, convex: ConvexSet) -> None:
        self.geometry: Mapping[str, ConvexSet] = {"points": convex}


def check_convex_set(convex: ConvexSet, expected_failures: Mapping[str, str] | None = None) -> list[CheckResult]:
    """Run every check of a convex set alone; small sets are compared with all their vertices."""
    subject: Any = _Alone(convex)
    return run_checks(SET_CHECKS, (subject,), expected_failures)
