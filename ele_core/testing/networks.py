"""`check_encoder` and `check_backbone`, and the laws of all components that map batches to vectors."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ele_core.energies import SquaredDistance
from ele_core.errors import counted
from ele_core.interfaces import Encoder, InputSpace, Proposer, Regressor, Surrogate
from ele_core.networks import Backbone
from ele_core.testing.common import EVERY
from ele_core.testing.results import Check, CheckResult, NotApplicable, after, laws_in, require, run_checks
from ele_core.testing.samples import (
    Space,
    close,
    example_batch,
    fixed_weights,
    points,
    repeated,
    require_own_randomness,
    same_state,
    same_tensors,
    seeded,
    structures,
    unchanged,
    unusual_generators,
)

POINTS = 6
STEP = 1e-6
MANY = 150
"""More rows than a chunk of any usual size below it."""
STRUCTURES = 24
"""Structures that surrogates are fitted on."""


@dataclasses.dataclass(frozen=True)
class Mapped:
    """A component as a function of a batch of B rows with values (B, dim)."""

    batch: Any
    """Rows to map; a learner has seen some of them in `fit`."""
    call: Callable[[Any], Tensor]
    dim: int | None
    """The length of a value; None if it may be any."""
    fresh: Callable[[int], Any]
    """Another component of the same configuration, with weights drawn from a seed."""
    what: str
    """The operation, for messages."""


def mapped(component: Any, *partners: Any) -> Mapped:
    """What the shared laws need of a component."""

    def fresh(seed: int) -> Any:
        return fresh_of(component, *partners, seed=seed)

    if isinstance(component, Encoder):
        batch = points(partners[0], POINTS, seeded())
        return Mapped(batch, lambda each: applied(component, each), component.dim, fresh, "a call in evaluation mode")
    if isinstance(component, Backbone):
        batch = packed(partners[0])
        return Mapped(batch, lambda each: applied(component, each), component.dim, fresh, "a call in evaluation mode")
    if isinstance(component, Surrogate):
        return Mapped(few(component), component.embed, component.dim, fresh, "`embed`")
    if isinstance(component, Proposer):
        return Mapped(packed(component.inputs), component.predict, None, fresh, "`predict`")
    assert isinstance(component, Regressor)
    plain = component.surrogate.energy(torch.zeros(0, component.surrogate.dim))
    own = not isinstance(plain, SquaredDistance)  # queries need not be embeddings
    dim = None if own else component.surrogate.dim
    return Mapped(packed(component.inputs), component.predict, dim, fresh, "`predict`")


def fresh_of(component: Any, *partners: Any, seed: int) -> Any:
    """Another component of the same configuration, not fitted, with weights drawn from a seed."""
    with fixed_weights(seed):
        if isinstance(component, nn.Module):
            return type(component)(component.config, partners[0], component.dim)
        if isinstance(component, Surrogate):
            return type(component)(component.config, component.space)
        target = component.space if isinstance(component, Proposer) else component.surrogate
        return type(component)(component.config, component.inputs, target)


def state_of(component: Any) -> dict[str, Tensor]:
    """A copy of all that a component has learned."""
    found = component.state_dict() if isinstance(component, nn.Module) else component.state()
    return {name: value.clone() for name, value in found.items()}


def restored(component: Any, state: Mapping[str, Tensor]) -> Any:
    """The component, given a state."""
    (component.load_state_dict if isinstance(component, nn.Module) else component.restore)(dict(state))
    return component


def few(surrogate: Surrogate) -> Any:
    """Structures to embed; `fit` has seen some of them."""
    return structures(surrogate.space, STRUCTURES + 6)[-8:]


def packed(inputs: InputSpace[Any]) -> Any:
    """The examples of fitted inputs, packed."""
    return inputs.pack(inputs.examples())


def repeated_rows(tensor: Tensor, count: int) -> Tensor:
    """`count` rows: those of `tensor`, repeated in turn."""
    return tensor[torch.arange(count) % len(tensor)]


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


def check_gives_embeddings(component: Any, *partners: Any) -> None:
    """B rows become (B, dim) finite floats; those of learners have no gradient.

    Queries may have another length if the surrogate defines its own `energies`. `dim` is known before `fit`.
    """
    made = mapped(component, *partners)
    found = made.call(made.batch)
    shape = (len(made.batch), found.shape[-1] if made.dim is None else made.dim)
    require(found.shape == shape, f"{len(made.batch)} rows became {tuple(found.shape)}, not {shape}")
    require(found.is_floating_point(), f"the values are {found.dtype}, not floats")
    require(found.isfinite().all(), "a value is not finite")
    if not isinstance(component, nn.Module):
        require(not found.requires_grad, f"{made.what} keeps a gradient, which costs memory: use torch.no_grad")
    if isinstance(component, Surrogate):
        known = made.fresh(0).dim
        require(known == component.dim, f"dim is {known} before fit and {component.dim} after")


@after(check_gives_embeddings)
def check_calls_change_nothing(component: Any, *partners: Any) -> None:
    """A call changes neither its batch nor the state, draws from no global generator, and is repeatable bit for bit.

    A network is called in evaluation mode.
    """
    made = mapped(component, *partners)
    before = state_of(component)
    require(unchanged(made.batch, made.call), f"{made.what} changes its batch in place: clone it first")
    called = copy.deepcopy(component).eval() if isinstance(component, nn.Module) else made.call
    require_own_randomness(made.what, lambda: called(made.batch))
    found = []
    for seed in (1, 2):
        with unusual_generators(seed):
            found.append(called(made.batch))
    require(torch.equal(*found), f"two calls differ: {made.what} may not be random. Draw only if `self.training`")
    require(same_state(before, state_of(component)), f"{made.what} changes the state")


@after(check_calls_change_nothing)
def check_rows_are_independent(component: Any, *partners: Any) -> None:
    """The value of a row does not depend on the other rows; batches of one row and of none work."""
    made = mapped(component, *partners)
    together = made.call(made.batch)
    for row in range(len(made.batch)):
        alone = made.call(made.batch[row : row + 1])
        require(close(alone, together[row : row + 1]), f"the value of row {row} depends on the other rows")
    empty, shape = made.call(made.batch[:0]), (0, together.shape[1])
    require(empty.shape == shape, f"no rows became {tuple(empty.shape)}, not {shape}")


@after(check_rows_are_independent)
def check_takes_many_rows(component: Any, *partners: Any) -> None:
    """More than a hundred rows have the values of each alone."""
    made = mapped(component, *partners)
    found, expected = made.call(repeated(made.batch, MANY)), repeated_rows(made.call(made.batch), MANY)
    require(found.shape == expected.shape, f"{MANY} rows became {tuple(found.shape)}, not {tuple(expected.shape)}")
    wrong = ~torch.isclose(found, expected, rtol=1e-4, atol=1e-5).all(dim=1)
    require(not wrong.any(), f"the values of {MANY} rows are wrong from row {int(wrong.int().argmax())} on")


@after(check_calls_change_nothing)
def check_state_is_complete(component: Any, *partners: Any) -> None:
    """Another component of the same configuration gives the same once it has the `state` (`state_dict`) of this one."""
    made = mapped(component, *partners)
    other = mapped(restored(made.fresh(99), state_of(component)), *partners)
    same = torch.equal(other.call(made.batch), made.call(made.batch))
    require(same, "a copy with the same state gives different values: the state does not hold all that was learned")


@after(check_rows_are_independent)
def check_takes_small_batches(network: Any, partner: Any) -> None:
    """Batches of one row and of none work in training mode too."""
    batch = mapped(network, partner).batch
    for count in (1, 0):
        shape, expected = tuple(applied(network, batch[:count], training=True).shape), (count, network.dim)
        require(shape == expected, f"{counted(count, 'row')} became {shape} in training mode, not {expected}")


@after(check_calls_change_nothing)
def check_is_trainable(network: Any, partner: Any) -> None:
    """Finite gradients reach the weights, and not all of them are zero."""
    weights = [weight for weight in network.parameters() if weight.requires_grad]
    if not weights:
        raise NotApplicable("the network has no weights to train")
    found = applied(network, mapped(network, partner).batch, training=True)
    probe = torch.randn(found.shape, generator=torch.Generator().manual_seed(0)).to(found)
    gradients = torch.autograd.grad((found * probe).sum(), weights, allow_unused=True)
    reached = [gradient for gradient in gradients if gradient is not None]
    require(all(bool(gradient.isfinite().all()) for gradient in reached), "a gradient of the weights is not finite")
    require(
        any(bool(gradient.any()) for gradient in reached),
        "all weights have zero gradients: the output does not depend on them, or is detached",
    )


MAPPED = (
    check_gives_embeddings,
    check_calls_change_nothing,
    check_rows_are_independent,
    check_takes_many_rows,
    check_state_is_complete,
)
"""The laws of networks and learners."""
NETWORKS = (check_takes_small_batches, check_is_trainable)
"""The laws of encoders and backbones."""

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


@after(check_gives_embeddings)
def check_encoder_keeps_the_dtype(encoder: Encoder, space: Space) -> None:
    """Points in float32 give float32; after `.double()`, points in float64 give float64."""
    for dtype in (torch.float32, torch.float64):
        moved = copy.deepcopy(encoder).to(dtype)
        found = applied(moved, points(space, POINTS, seeded(), dtype))
        require(found.dtype == dtype, f"points in {dtype} give {found.dtype}")


@after(check_gives_embeddings)
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


@after(check_calls_change_nothing)
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


@after(check_gives_embeddings)
def check_backbone_tells_inputs_apart(backbone: Backbone, inputs: InputSpace[Any]) -> None:
    """Different inputs have different outputs."""
    found = applied(backbone, packed(inputs))
    require(
        len(torch.unique(found, dim=0)) == len(found),
        "two different inputs have the same output: the backbone ignores a part of its batch",
    )


ENCODER_CHECKS: tuple[Check, ...] = (*MAPPED, *NETWORKS, *laws_in(globals(), "check_encoder_"), *EVERY)

BACKBONE_CHECKS: tuple[Check, ...] = (*MAPPED, *NETWORKS, *laws_in(globals(), "check_backbone_"), *EVERY)


def check_encoder(
    encoder: Encoder, space: Space, expected_failures: Mapping[str, str] | None = None
) -> list[CheckResult]:
    """Run every check of an encoder that was built for `space`. `expected_failures`: check → reason."""
    return run_checks(ENCODER_CHECKS, (encoder, space), expected_failures)


def check_backbone(
    backbone: Backbone, inputs: InputSpace[Any], expected_failures: Mapping[str, str] | None = None
) -> list[CheckResult]:
    """Run every check of a backbone that was built for the fitted `inputs`. `expected_failures`: check → reason."""
    return run_checks(BACKBONE_CHECKS, (backbone, inputs), expected_failures)


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
