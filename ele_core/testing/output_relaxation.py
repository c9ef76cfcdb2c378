"""Checks of output spaces: relaxing, projecting onto the relaxed set, and unrelaxing."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ele_core.numerics.sets import ConvexSet
from ele_core.testing.output_packing import (
    check_keys_tell_structures_apart,
    check_pack_gives_labels,
    check_unpack_inverts_pack,
)
from ele_core.testing.results import after, require
from ele_core.testing.samples import (
    Space,
    example_batch,
    points,
    points_around,
    require_inside,
    require_same_structures,
    same_tensors,
    seeded,
)

POINTS = 8
OTHERS = 64
SCALES = (1e-6, 1e6)
DTYPES = (torch.float32, torch.float64)
_EXACT = "donot_use_mm_for_euclid_dist"  # a matrix product would lose digits by cancellation


@after(check_pack_gives_labels)
def check_relax_gives_vertices(space: Space) -> None:
    """`relax` maps a structure to a vertex of the relaxed set, in floats."""
    point = space.relax(example_batch(space))
    for name, convex in space.geometry.items():
        value = getattr(point, name)
        require_contains(convex, value, f"relax, field '{name}'")
        vertex = convex.vertices(convex.nearest_vertex(value)).to(value)
        off = float((vertex - value).abs().max())
        require(off <= convex.tolerance(value.dtype), f"field '{name}' is {off:.3g} away from the nearest vertex")


@after(check_relax_gives_vertices, check_keys_tell_structures_apart)
def check_unrelax_inverts_relax(space: Space) -> None:
    """`unrelax(relax(batch))` holds the same structures as `batch`."""
    batch = example_batch(space)
    require_same_structures(space, space.unrelax(space.relax(batch)), batch, "unrelax(relax(batch))")


@after(check_unrelax_inverts_relax, check_unpack_inverts_pack)
def check_unrelax_gives_structures(space: Space) -> None:
    """`unrelax` of any point of the relaxed set is a valid batch, and relaxes into the set again."""
    batch = space.unrelax(points(space, 4 * POINTS, seeded()))
    require_inside(space, batch, "unrelax of a random point")
    point = space.relax(batch)
    for name, convex in space.geometry.items():
        require_contains(convex, getattr(point, name), f"relax(unrelax(point)), field '{name}'")


def check_project_is_feasible(space: Space) -> None:
    """`project` gives a point of the relaxed set, within the tolerance of each convex set."""
    for dtype in DTYPES:
        projected = space.project(points_around(space, POINTS, 1.0, dtype))
        for name, convex in space.geometry.items():
            require_contains(convex, getattr(projected, name), f"project, field '{name}', {dtype}")


@after(check_project_is_feasible)
def check_project_keeps_dtype_and_device(space: Space) -> None:
    """`project` keeps the dtype, the device and the shape of each field."""
    for dtype in DTYPES:
        point = points_around(space, POINTS, 1.0, dtype)
        projected = space.project(point)
        for name, tensor in point.named_tensors():
            found = getattr(projected, name)
            require(found.dtype == tensor.dtype, f"field '{name}' changed from {tensor.dtype} to {found.dtype}")
            require(found.device == tensor.device, f"field '{name}' moved from {tensor.device} to {found.device}")
            require(
                found.shape == tensor.shape,
                f"field '{name}' changed shape from {tuple(tensor.shape)} to {tuple(found.shape)}",
            )


def check_project_leaves_its_input_alone(space: Space) -> None:
    """`project` does not change the point that it is given."""
    point = points_around(space, POINTS, 1.0, torch.float32)
    before = point.map(torch.clone)
    space.project(point)
    require(same_tensors(before, point), "project changed its argument in place: clone it first")


@after(check_project_keeps_dtype_and_device, check_project_leaves_its_input_alone)
def check_project_is_idempotent(space: Space) -> None:
    """`project` does not move a point that is already in the relaxed set."""
    for dtype in DTYPES:
        inside = points(space, 4 * POINTS, seeded(), dtype)
        again = space.project(inside)
        for name, convex in space.geometry.items():
            off = float((getattr(again, name) - getattr(inside, name)).abs().max())
            allowed = 4 * convex.tolerance(dtype)
            require(off <= allowed, f"field '{name}' of a point of the set moves by {off:.3g} ({dtype})")


@after(check_project_is_idempotent)
def check_project_is_nearest(space: Space) -> None:
    """No point p of the set is nearer to x than Px is, and ⟨x − Px, p − Px⟩ ≤ 0 for each p, within the tolerance."""
    for dtype in DTYPES:
        point = points_around(space, POINTS, 1.0, dtype)
        require_nearest(space, point, space.project(point))


@after(check_project_is_nearest)
def check_project_works_at_all_scales(space: Space) -> None:
    """`project` is feasible and nearest for points that are a million times nearer or farther than usual."""
    for dtype in DTYPES:
        for scale in SCALES:
            point = points_around(space, POINTS, scale, dtype)
            projected = space.project(point)
            for name, convex in space.geometry.items():
                require_contains(convex, getattr(projected, name), f"project at scale {scale:g}, field '{name}'")
            require_nearest(space, point, projected)


def require_contains(convex: ConvexSet, value: Tensor, what: str) -> None:
    """Raise `Broken`, with the set's reason, unless every point is in it."""
    inside, reason = convex.contains(value, explain=True)
    require(inside, f"{what}: {reason}")


def require_nearest(space: Space, point: Any, projected: Any) -> None:
    """Raise `Broken` if a random point of the set is nearer, or if the variational inequality does not hold."""
    others = points(space, OTHERS, seeded(1), torch.float64)
    for name, convex in space.geometry.items():
        dtype = getattr(point, name).dtype
        x, found, rivals = (getattr(each, name).double().flatten(1) for each in (point, projected, others))
        residual = x - found
        allowed = 10 * convex.tolerance(dtype) * (1 + residual.norm(dim=1, keepdim=True))
        excess = residual.norm(dim=1, keepdim=True) - torch.cdist(x, rivals, compute_mode=_EXACT) - allowed
        require((excess <= 0).all(), f"field '{name}': another point of the set is nearer by {float(excess.max()):.3g}")
        angles = residual @ rivals.T - (residual * found).sum(dim=1, keepdim=True)
        worst = float((angles - allowed).max())
        require(worst <= 0, f"field '{name}': the variational inequality is broken by {worst:.3g}")
