"""`check_encoder`: every law of an encoder, with a space that it accepts."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ele_core.interfaces import Encoder
from ele_core.testing import networks
from ele_core.testing.common import COMMON
from ele_core.testing.output_measures import close
from ele_core.testing.results import CheckResult, NotApplicable, after, require, run_checks
from ele_core.testing.samples import Space, example_batch, fixed_weights, points, same_tensors, seeded, structures
from ele_core.testing.saving import check_model_saves_and_loads
from ele_core.testing.slopes import require_gradient_at_vertices

POINTS = 6
STEP = 1e-6


def check_encoder_gives_embeddings(encoder: Encoder, space: Space) -> None:
    """A point of B structures becomes (B, dim) finite floats."""
    networks.require_embeddings(encoder, points(space, POINTS, seeded()), encoder.dim)


@after(check_encoder_gives_embeddings)
def check_encoder_leaves_its_point_alone(encoder: Encoder, space: Space) -> None:
    """The encoder does not change the point that it is given."""
    point = points(space, POINTS, seeded())
    before = point.map(torch.clone)
    networks.applied(encoder, point)
    require(same_tensors(before, point), "the encoder changed its point in place: clone it first")


@after(check_encoder_leaves_its_point_alone)
def check_encoder_is_deterministic(encoder: Encoder, space: Space) -> None:
    """In evaluation mode two calls agree bit for bit and change no state."""
    networks.require_deterministic(encoder, points(space, POINTS, seeded()))


@after(check_encoder_is_deterministic)
def check_encoder_rows_are_independent(encoder: Encoder, space: Space) -> None:
    """The embedding of a row does not depend on the other rows, in evaluation mode."""
    networks.require_independent_rows(encoder, points(space, POINTS, seeded()))


@after(check_encoder_gives_embeddings)
def check_encoder_takes_small_batches(encoder: Encoder, space: Space) -> None:
    """Batches of one structure and of no structures work, in training and in evaluation mode."""
    networks.require_small_batches(encoder, points(space, POINTS, seeded()), encoder.dim)


@after(check_encoder_gives_embeddings)
def check_encoder_keeps_the_dtype(encoder: Encoder, space: Space) -> None:
    """Points in float32 give float32; after `.double()`, points in float64 give float64."""
    for dtype in (torch.float32, torch.float64):
        moved = copy.deepcopy(encoder).to(dtype)
        found = networks.applied(moved, points(space, POINTS, seeded(), dtype))
        require(found.dtype == dtype, f"points in {dtype} give {found.dtype}")


@after(check_encoder_gives_embeddings)
def check_encoder_has_a_gradient(encoder: Encoder, space: Space) -> None:
    """The embedding has a finite gradient in every relaxed field, and none is zero: descent has to move them all."""
    point = points(space, POINTS, seeded())
    for name, gradient in input_gradient(encoder, point, tuple(space.geometry)).items():
        require(gradient is not None, f"field '{name}' has no gradient: the embedding does not depend on it")
        assert gradient is not None
        require(gradient.isfinite().all(), f"the gradient of field '{name}' is not finite")
        require(gradient.any(), f"the gradient of field '{name}' is zero: the embedding does not depend on it")


@after(check_encoder_has_a_gradient)
def check_encoder_has_a_gradient_at_vertices(encoder: Encoder, space: Space) -> None:
    """At relaxed structures, where descent starts, the gradient is finite and not zero, also for labels not there."""
    fields, vertices = tuple(space.geometry), space.relax(structures(space, POINTS))
    elsewhere = input_gradient(encoder, points(space, POINTS, seeded()), fields)
    require_gradient_at_vertices("the embedding", vertices, input_gradient(encoder, vertices, fields), elsewhere)


@after(check_encoder_has_a_gradient, check_encoder_keeps_the_dtype)
def check_encoder_gradient_is_the_slope(encoder: Encoder, space: Space) -> None:
    """The gradient agrees with finite differences, in float64."""
    exact = copy.deepcopy(encoder).double()
    point = points(space, POINTS, seeded(), torch.float64)
    gradient = input_gradient(exact, point, tuple(space.geometry))
    generator = seeded(3)
    for name in space.geometry:
        value, slope = getattr(point, name), gradient[name]
        assert slope is not None
        direction = torch.randn(value.shape, generator=generator, dtype=torch.float64)
        with torch.no_grad():
            ahead, behind = (
                probed(exact, point.replace(**{name: value + sign * STEP * direction})) for sign in (1, -1)
            )
        measured, claimed = float(ahead - behind) / (2 * STEP), float((slope * direction).sum())
        agree = abs(measured - claimed) <= 1e-4 * (1 + abs(measured))
        require(agree, f"field '{name}': the slope is {claimed:.6g} by gradient, {measured:.6g} by finite differences")


@after(check_encoder_is_deterministic)
def check_encoder_state_is_complete(encoder: Encoder, space: Space) -> None:
    """An encoder of the same configuration with this one's `state_dict` gives the same embeddings."""
    with fixed_weights(seed=99):
        fresh = type(encoder)(encoder.config, space, encoder.dim)
    networks.require_state_round_trip(encoder, fresh, points(space, POINTS, seeded()))


@after(check_encoder_leaves_its_point_alone)
def check_encoder_is_trainable(encoder: Encoder, space: Space) -> None:
    """Finite gradients reach the weights, and not all of them are zero."""
    networks.require_trainable(encoder, points(space, POINTS, seeded()))


@after(check_encoder_is_deterministic)
def check_encoder_is_invariant(encoder: Encoder, space: Space) -> None:
    """If `invariant` is true, all packings of a structure (`OutputSpace.equivalents`) have the same embedding."""
    if not encoder.invariant:
        raise NotApplicable(f"{type(encoder).__name__} is not invariant: `invariant` is false")
    batch = example_batch(space)
    others = space.equivalents(batch, seeded())
    if same_tensors(batch, others):
        raise NotApplicable(f"`equivalents` of {type(space).__name__} gives no other packings")
    found, expected = (networks.applied(encoder, space.relax(each)) for each in (others, batch))
    require(
        close(found, expected),
        "another packing of the same structure has a different embedding, although `invariant` is true",
    )


ENCODER_CHECKS = (
    check_encoder_gives_embeddings,
    check_encoder_leaves_its_point_alone,
    check_encoder_is_deterministic,
    check_encoder_rows_are_independent,
    check_encoder_takes_small_batches,
    check_encoder_keeps_the_dtype,
    check_encoder_has_a_gradient,
    check_encoder_has_a_gradient_at_vertices,
    check_encoder_gradient_is_the_slope,
    check_encoder_state_is_complete,
    check_encoder_is_trainable,
    check_encoder_is_invariant,
    *COMMON,
    check_model_saves_and_loads,
)


def check_encoder(
    encoder: Encoder, space: Space, expected_failures: Mapping[str, str] | None = None
) -> list[CheckResult]:
    """Run every check of an encoder that was built for `space`. `expected_failures`: check → reason."""
    return run_checks(ENCODER_CHECKS, (encoder, space), expected_failures)


def probed(encoder: Encoder, point: Any) -> Tensor:
    """⟨a fixed random matrix, embeddings⟩: one number that depends on all of them."""
    found = networks.applied(encoder, point)
    return (found * torch.randn(found.shape, generator=seeded(7), dtype=torch.float64).to(found)).sum()


def input_gradient(encoder: Encoder, point: Any, fields: tuple[str, ...]) -> dict[str, Tensor | None]:
    """The gradient of `probed` in each relaxed field."""
    leaves = {name: getattr(point, name).clone().requires_grad_(True) for name in fields}
    value = probed(encoder, point.replace(**leaves))
    require(value.requires_grad, "the embedding has no gradient in the point: do not detach it")
    return dict(zip(leaves, torch.autograd.grad(value, list(leaves.values()), allow_unused=True), strict=True))
