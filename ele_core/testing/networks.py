"""`check_encoder` and `check_backbone`: the laws of networks and of their gradients."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ele_core.errors import counted
from ele_core.interfaces import Backbone, Encoder, InputSpace
from ele_core.testing.common import COMMON, check_model_saves_and_loads
from ele_core.testing.results import CheckResult, NotApplicable, after, require, run_checks
from ele_core.testing.samples import (
    Space,
    close,
    example_batch,
    fixed_weights,
    points,
    require_own_randomness,
    same_tensors,
    seeded,
    structures,
)


def applied(network: nn.Module, batch: Any, *, training: bool = False) -> Tensor:
    """The network's output, in evaluation mode unless `training`; restores the mode and torch's global generator."""
    before = network.training
    network.train(training)
    try:
        with fixed_weights():
            found: Tensor = network(batch)
            return found
    finally:
        network.train(before)


def require_embeddings(network: nn.Module, batch: Any, dim: int) -> None:
    """Require outputs of shape (B, dim) that are finite floats."""
    found = applied(network, batch)
    require(
        found.shape == (len(batch), dim), f"{len(batch)} rows became {tuple(found.shape)}, not ({len(batch)}, {dim})"
    )
    require(found.is_floating_point(), f"the output is {found.dtype}, not floats")
    require(found.isfinite().all(), "the output is not finite")


def require_independent_rows(network: nn.Module, batch: Any) -> None:
    """Require that the output of a row is the same alone as in a batch."""
    together = applied(network, batch)
    for row in range(len(batch)):
        alone = applied(network, batch[row : row + 1])
        require(close(alone, together[row : row + 1]), f"the output of row {row} depends on the other rows")


def require_small_batches(network: nn.Module, batch: Any, dim: int) -> None:
    """Require that batches of one row and of none work in both modes."""
    for training in (False, True):
        for count in (1, 0):
            found = applied(network, batch[:count], training=training)
            mode = "training" if training else "evaluation"
            require(
                found.shape == (count, dim),
                f"{counted(count, 'row')} became {tuple(found.shape)} in {mode} mode, not ({count}, {dim})",
            )


def require_deterministic(network: nn.Module, batch: Any) -> None:
    """Require calls in evaluation mode to be bit-equal, to change no state, and to draw nothing."""
    network = copy.deepcopy(network).eval()
    require_own_randomness("a call in evaluation mode", lambda: network(batch))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        first = network(batch)
        torch.manual_seed(2)
        second = network(batch)
    require(
        torch.equal(first, second),
        "two calls in evaluation mode give different outputs: use randomness only if `self.training`",
    )
    after = network.state_dict()
    changed = [name for name, value in before.items() if not torch.equal(value, after[name])]
    require(not changed, f"a call in evaluation mode changes {', '.join(changed)}")


def require_state_round_trip(network: nn.Module, fresh: nn.Module, batch: Any) -> None:
    """Require that a network with other weights computes the same once it has this one's `state_dict`."""
    fresh.load_state_dict({name: value.clone() for name, value in network.state_dict().items()})
    same = torch.equal(applied(network, batch), applied(fresh, batch))
    require(same, "a copy with the same state_dict gives different outputs: it does not hold all that was learned")


def require_trainable(network: nn.Module, batch: Any) -> None:
    """Require that finite gradients reach the weights, and that not all are zero."""
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    if not weights:
        raise NotApplicable("the network has no weights to train")
    found = applied(network, batch, training=True)
    probe = torch.randn(found.shape, generator=torch.Generator().manual_seed(0)).to(found)
    gradients = torch.autograd.grad((found * probe).sum(), weights, allow_unused=True)
    reached = [gradient for gradient in gradients if gradient is not None]
    require(all(bool(gradient.isfinite().all()) for gradient in reached), "a gradient of the weights is not finite")
    require(
        any(bool(gradient.any()) for gradient in reached),
        "all weights have zero gradients: the output does not depend on them, or is detached",
    )


VANISHING = 1e-4
"""The least gradient at vertices, as a share of that at other points."""
SHARE = 1e-3
"""The step of finite differences, as a share of the way to another point; large enough for float32."""
AGREE = 0.05
"""The largest relative difference of a slope and a finite difference."""
MOST_WRONG = 1 / 3
"""The share of directions in which slopes may disagree: an energy may have a few kinks."""

Gradients = Mapping[str, Tensor | None]


def require_gradient_at_vertices(what: str, vertices: Any, here: Gradients, elsewhere: Gradients) -> None:
    """Raise `Broken` unless the gradient at vertices, `here`, is finite and not much less than `elsewhere`.

    Both the entries that a vertex has and those that it has not need a gradient: without the latter, descent does not
    know which label to choose instead.
    """
    for name, gradient in here.items():
        usual = elsewhere[name]
        if gradient is None or usual is None:
            continue
        require(gradient.isfinite().all(), f"field '{name}': the gradient of {what} at a vertex is not finite")
        values = getattr(vertices, name).detach()
        absent = values <= values.min()
        for kind, entries in (("are 0 there", absent), ("are 1 there", ~absent)):
            most = float(gradient[entries].abs().max()) if entries.any() else 1.0
            require(
                most > VANISHING * float(usual.abs().max()),
                f"field '{name}': at vertices, where descent starts, the gradient of {what} is {most:.3g} for entries "
                f"that {kind}, and {float(usual.abs().max()):.3g} at other points: do not clamp, sharpen or square it",
            )


def require_slope(what: str, space: Space, value: Callable[[Any], Tensor]) -> None:
    """Raise `Broken` if the gradient of `value`, a function of a point (B,), disagrees with its finite differences.

    Steps lead towards other points of the relaxed set, so that `value` need not be defined outside.
    """
    here, there = (points(space, 12, seeded(seed)) for seed in (11, 12))
    leaves = {name: getattr(here, name).clone().requires_grad_(True) for name in space.geometry}
    found = value(here.replace(**leaves))
    gradients = torch.autograd.grad(found.sum(), list(leaves.values()), allow_unused=True)
    claimed = torch.zeros(len(here), dtype=torch.float64)
    for name, gradient in zip(leaves, gradients, strict=True):
        if gradient is not None:
            direction = getattr(there, name) - getattr(here, name)
            claimed += (gradient * direction).flatten(1).sum(dim=1).double()
    with torch.no_grad():
        start, one, two = (value(towards(space, here, there, steps * SHARE)).double() for steps in (0, 1, 2))
    measured = (4 * one - 3 * start - two) / (2 * SHARE)
    size = torch.maximum(claimed.abs(), measured.abs())
    wrong = (claimed - measured).abs() > AGREE * (size + size.median())
    row = int((wrong * size).argmax())
    require(
        float(wrong.double().mean()) <= MOST_WRONG,
        f"{what}: the slope is {float(claimed[row]):.4g} by gradient, but {float(measured[row]):.4g} by finite "
        f"differences, and disagrees in {int(wrong.sum())} of {len(wrong)} directions: do not detach, round or clip "
        "between the point and the value",
    )


def towards(space: Space, here: Any, there: Any, share: float) -> Any:
    """A share of the way from one point to another."""
    return here.replace(
        **{name: torch.lerp(getattr(here, name), getattr(there, name), share) for name in space.geometry}
    )


POINTS = 6
STEP = 1e-6


def check_encoder_gives_embeddings(encoder: Encoder, space: Space) -> None:
    """A point of B structures becomes (B, dim) finite floats."""
    require_embeddings(encoder, points(space, POINTS, seeded()), encoder.dim)


@after(check_encoder_gives_embeddings)
def check_encoder_leaves_its_point_alone(encoder: Encoder, space: Space) -> None:
    """The encoder does not change the point that it is given."""
    point = points(space, POINTS, seeded())
    before = point.map(torch.clone)
    applied(encoder, point)
    require(same_tensors(before, point), "the encoder changed its point in place: clone it first")


@after(check_encoder_leaves_its_point_alone)
def check_encoder_is_deterministic(encoder: Encoder, space: Space) -> None:
    """In evaluation mode two calls agree bit for bit and change no state."""
    require_deterministic(encoder, points(space, POINTS, seeded()))


@after(check_encoder_is_deterministic)
def check_encoder_rows_are_independent(encoder: Encoder, space: Space) -> None:
    """The embedding of a row does not depend on the other rows, in evaluation mode."""
    require_independent_rows(encoder, points(space, POINTS, seeded()))


@after(check_encoder_gives_embeddings)
def check_encoder_takes_small_batches(encoder: Encoder, space: Space) -> None:
    """Batches of one structure and of no structures work, in training and in evaluation mode."""
    require_small_batches(encoder, points(space, POINTS, seeded()), encoder.dim)


@after(check_encoder_gives_embeddings)
def check_encoder_keeps_the_dtype(encoder: Encoder, space: Space) -> None:
    """Points in float32 give float32; after `.double()`, points in float64 give float64."""
    for dtype in (torch.float32, torch.float64):
        moved = copy.deepcopy(encoder).to(dtype)
        found = applied(moved, points(space, POINTS, seeded(), dtype))
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
    require_state_round_trip(encoder, fresh, points(space, POINTS, seeded()))


@after(check_encoder_leaves_its_point_alone)
def check_encoder_is_trainable(encoder: Encoder, space: Space) -> None:
    """Finite gradients reach the weights, and not all of them are zero."""
    require_trainable(encoder, points(space, POINTS, seeded()))


@after(check_encoder_is_deterministic)
def check_encoder_is_invariant(encoder: Encoder, space: Space) -> None:
    """If `invariant` is true, all packings of a structure (`OutputSpace.equivalents`) have the same embedding."""
    if not encoder.invariant:
        raise NotApplicable(f"{type(encoder).__name__} is not invariant: `invariant` is false")
    batch = example_batch(space)
    others = space.equivalents(batch, seeded())
    if same_tensors(batch, others):
        raise NotApplicable(f"`equivalents` of {type(space).__name__} gives no other packings")
    found, expected = (applied(encoder, space.relax(each)) for each in (others, batch))
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
    found = applied(encoder, point)
    return (found * torch.randn(found.shape, generator=seeded(7), dtype=torch.float64).to(found)).sum()


def input_gradient(encoder: Encoder, point: Any, fields: tuple[str, ...]) -> dict[str, Tensor | None]:
    """The gradient of `probed` in each relaxed field."""
    leaves = {name: getattr(point, name).clone().requires_grad_(True) for name in fields}
    value = probed(encoder, point.replace(**leaves))
    require(value.requires_grad, "the embedding has no gradient in the point: do not detach it")
    return dict(zip(leaves, torch.autograd.grad(value, list(leaves.values()), allow_unused=True), strict=True))


Inputs = InputSpace[Any]


def check_backbone_gives_embeddings(backbone: Backbone, inputs: Inputs) -> None:
    """A batch of B inputs becomes (B, dim) finite floats."""
    require_embeddings(backbone, packed(inputs), backbone.dim)


@after(check_backbone_gives_embeddings)
def check_backbone_leaves_its_batch_alone(backbone: Backbone, inputs: Inputs) -> None:
    """The backbone does not change the batch that it is given."""
    batch = packed(inputs)
    before = batch.map(torch.clone)
    applied(backbone, batch)
    require(same_tensors(before, batch), "the backbone changed its batch in place: clone it first")


@after(check_backbone_leaves_its_batch_alone)
def check_backbone_is_deterministic(backbone: Backbone, inputs: Inputs) -> None:
    """In evaluation mode two calls agree bit for bit and change no state."""
    require_deterministic(backbone, packed(inputs))


@after(check_backbone_is_deterministic)
def check_backbone_rows_are_independent(backbone: Backbone, inputs: Inputs) -> None:
    """The output of a row does not depend on the other rows, such as on their lengths, in evaluation mode."""
    require_independent_rows(backbone, packed(inputs))


@after(check_backbone_gives_embeddings)
def check_backbone_takes_small_batches(backbone: Backbone, inputs: Inputs) -> None:
    """Batches of one input and of no inputs work, in training and in evaluation mode."""
    require_small_batches(backbone, packed(inputs), backbone.dim)


@after(check_backbone_is_deterministic)
def check_backbone_state_is_complete(backbone: Backbone, inputs: Inputs) -> None:
    """A backbone of the same configuration with this one's `state_dict` gives the same outputs."""
    with fixed_weights(seed=99):
        fresh = type(backbone)(backbone.config, inputs, backbone.dim)
    require_state_round_trip(backbone, fresh, packed(inputs))


@after(check_backbone_leaves_its_batch_alone)
def check_backbone_is_trainable(backbone: Backbone, inputs: Inputs) -> None:
    """Finite gradients reach the weights, and not all of them are zero."""
    require_trainable(backbone, packed(inputs))


@after(check_backbone_gives_embeddings)
def check_backbone_tells_inputs_apart(backbone: Backbone, inputs: Inputs) -> None:
    """Different inputs have different outputs."""
    found = applied(backbone, packed(inputs))
    require(
        len(torch.unique(found, dim=0)) == len(found),
        "two different inputs have the same output: the backbone ignores a part of its batch",
    )


BACKBONE_CHECKS = (
    check_backbone_gives_embeddings,
    check_backbone_leaves_its_batch_alone,
    check_backbone_is_deterministic,
    check_backbone_rows_are_independent,
    check_backbone_takes_small_batches,
    check_backbone_state_is_complete,
    check_backbone_is_trainable,
    check_backbone_tells_inputs_apart,
    *COMMON,
    check_model_saves_and_loads,
)


def check_backbone(
    backbone: Backbone, inputs: Inputs, expected_failures: Mapping[str, str] | None = None
) -> list[CheckResult]:
    """Run every check of a backbone that was built for the fitted `inputs`. `expected_failures`: check → reason."""
    return run_checks(BACKBONE_CHECKS, (backbone, inputs), expected_failures)


def packed(inputs: Inputs) -> Any:
    """The examples of fitted inputs, packed."""
    return inputs.pack(inputs.examples())
