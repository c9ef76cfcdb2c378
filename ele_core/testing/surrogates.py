"""Checks of a surrogate that was fitted on a few structures of its space."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ele_core.interfaces import Surrogate
from ele_core.runtime.context import Context
from ele_core.testing.fitting import require_seeded_fit, same_state
from ele_core.testing.global_generators import require_own_randomness
from ele_core.testing.output_measures import close
from ele_core.testing.results import NotApplicable, after, require
from ele_core.testing.samples import (
    SEED,
    described,
    fixed_weights,
    points,
    repeated,
    seeded,
    structures,
    unchanged,
)
from ele_core.testing.slopes import require_gradient_at_vertices, require_slope

STRUCTURES = 24
MANY = 150
"""More rows than a chunk of any usual size below it."""
NEAR = 1e-4
"""The largest rounding error of an energy, for embeddings of length 1."""


def fresh_surrogate(surrogate: Surrogate, seed: int = SEED) -> Surrogate:
    """Another surrogate of the same configuration, not fitted."""
    with fixed_weights(seed):
        return type(surrogate)(surrogate.config, surrogate.space)


def fitted_surrogate(surrogate: Surrogate) -> Surrogate:
    """A fresh surrogate of the same configuration, fitted on a few structures from a fixed seed."""
    fresh = fresh_surrogate(surrogate)
    outputs = structures(surrogate.space, STRUCTURES)
    fresh.fit(outputs, outputs[: STRUCTURES // 3], None, Context(SEED))
    return fresh


def check_surrogate_gives_embeddings(surrogate: Surrogate) -> None:
    """`embed` gives (B, dim) finite floats without gradient, and `dim` is known before `fit`."""
    batch = few(surrogate)
    found = surrogate.embed(batch)
    require(
        found.shape == (len(batch), surrogate.dim),
        f"embeddings have shape {tuple(found.shape)}, not {(len(batch), surrogate.dim)}",
    )
    require(found.is_floating_point(), f"embeddings are {found.dtype}, not floats")
    require(found.isfinite().all(), "an embedding is not finite")
    require(not found.requires_grad, "embed keeps a gradient, which costs memory: use torch.no_grad")
    known = fresh_surrogate(surrogate).dim
    require(known == surrogate.dim, f"dim is {known} before fit and {surrogate.dim} after")


@after(check_surrogate_gives_embeddings)
def check_surrogate_tells_structures_apart(surrogate: Surrogate) -> None:
    """Not all structures have the same embedding."""
    found = surrogate.embed(few(surrogate))
    require(float((found - found[:1]).abs().max()) > 0, "all structures have the same embedding")


@after(check_surrogate_tells_structures_apart)
def check_surrogate_energy_is_a_distance(surrogate: Surrogate) -> None:
    """`energy` gives (B,) finite numbers, not negative, and less for a structure's own embedding than for others.

    Unless `energies` is overridden, it is a squared distance, almost zero at the structure's own embedding.
    """
    batch = few(surrogate)
    queries = surrogate.embed(batch)
    own, other = surrogate.energy(queries, batch), surrogate.energy(queries.roll(1, dims=0), batch)
    for energy in (own, other):
        require(energy.shape == (len(batch),), f"energy has shape {tuple(energy.shape)}, not ({len(batch)},)")
        require(energy.isfinite().all() and bool((energy >= -NEAR).all()), "an energy is negative or not finite")
    require(own.mean() < other.mean(), "the energy of structures is not less at their own embedding than at another's")
    if type(surrogate).energies is Surrogate.energies:
        most, scale = float(own.max()), 1 + float(queries.square().sum(dim=1).max())
        require(most <= NEAR * scale, f"the energy at a structure's own embedding is {most:.3g}, not almost zero")


@after(check_surrogate_energy_is_a_distance)
def check_surrogate_energies_agree(surrogate: Surrogate) -> None:
    """`energies` of queries and of `embed`, or of `compact`, (B, N), are equal to `energy` of each pair."""
    batch = few(surrogate)
    embeddings = surrogate.embed(batch)
    queries, count = embeddings.flip(0), len(batch)
    for kept in (embeddings, surrogate.compact(batch)):
        table = surrogate.energies(queries, kept)
        require(table.shape == (count, count), f"energies have shape {tuple(table.shape)}, not {(count, count)}")
        for column in range(count):
            single = surrogate.energy(queries, batch[torch.full((count,), column)])
            off = float((table[:, column] - single).abs().max())
            require(off <= NEAR * (1 + float(single.max())), f"energies and energy differ by {off:.3g}")


@after(check_surrogate_energy_is_a_distance)
def check_surrogate_energy_at_vertices(surrogate: Surrogate) -> None:
    """If `differentiable`, `energy_at` a relaxed structure is its `energy`, with a finite gradient in the point."""
    if not surrogate.differentiable:
        raise NotApplicable("the surrogate has no gradient: `differentiable` is false")
    batch = few(surrogate)
    queries = surrogate.embed(batch).roll(1, dims=0)
    point = surrogate.space.relax(batch)
    leaves = {name: getattr(point, name).requires_grad_(True) for name in surrogate.space.geometry}
    found = surrogate.energy_at(queries, point.replace(**leaves))
    expected = surrogate.energy(queries, batch)
    off = float((found.detach() - expected).abs().max())
    require(off <= NEAR * (1 + float(expected.max())), f"energy_at and energy differ by {off:.3g} at vertices")
    require(found.requires_grad, "energy_at has no gradient in the point: do not detach it")
    gradients = torch.autograd.grad(found.sum(), list(leaves.values()), allow_unused=True)
    moved = [gradient for gradient in gradients if gradient is not None and bool(gradient.any())]
    require(moved, "the gradient of energy_at is zero")
    require(all(bool(gradient.isfinite().all()) for gradient in moved), "the gradient of energy_at is not finite")


@after(check_surrogate_energy_at_vertices)
def check_surrogate_energy_at_has_a_slope(surrogate: Surrogate) -> None:
    """The gradient of `energy_at` agrees with its values, and does not vanish at vertices, where descent starts."""
    if not surrogate.differentiable:
        raise NotApplicable("the surrogate has no gradient: `differentiable` is false")
    space, batch = surrogate.space, few(surrogate)
    queries = surrogate.embed(batch)
    vertices, elsewhere = space.relax(batch), points(space, len(batch), seeded())
    here, there = (energy_gradient(surrogate, queries.roll(1, dims=0), point) for point in (vertices, elsewhere))
    require_gradient_at_vertices("energy_at", vertices, here, there)
    require_slope("energy_at", space, lambda point: surrogate.energy_at(repeated_rows(queries, len(point)), point))


def energy_gradient(surrogate: Surrogate, queries: Tensor, point: Any) -> dict[str, Tensor | None]:
    """The gradient of the sum of energies in each relaxed field."""
    leaves = {name: getattr(point, name).clone().requires_grad_(True) for name in surrogate.space.geometry}
    found = surrogate.energy_at(queries, point.replace(**leaves)).sum()
    return dict(zip(leaves, torch.autograd.grad(found, list(leaves.values()), allow_unused=True), strict=True))


def repeated_rows(tensor: Tensor, count: int) -> Tensor:
    """`count` rows: those of `tensor`, repeated in turn."""
    return tensor[torch.arange(count) % len(tensor)]


@after(check_surrogate_gives_embeddings)
def check_surrogate_rows_are_independent(surrogate: Surrogate) -> None:
    """The embedding of a structure does not depend on the others; batches of one and of no structures work."""
    batch = few(surrogate)
    together = surrogate.embed(batch)
    for row in range(len(batch)):
        alone = surrogate.embed(batch[row : row + 1])
        require(close(alone, together[row : row + 1]), f"the embedding of row {row} depends on the other rows")
    empty = surrogate.embed(batch[:0])
    require(
        empty.shape == (0, surrogate.dim),
        f"embeddings of no structures have shape {tuple(empty.shape)}, not (0, {surrogate.dim})",
    )


@after(check_surrogate_energies_agree, check_surrogate_rows_are_independent)
def check_surrogate_takes_many_rows(surrogate: Surrogate) -> None:
    """`embed` and `energies` of more than a hundred structures are those of each alone."""
    batch = repeated(few(surrogate), MANY)
    found, expected = surrogate.embed(batch), repeated_rows(surrogate.embed(few(surrogate)), MANY)
    require(found.shape == expected.shape, f"`embed` of {MANY} structures gives {len(found)} embeddings")
    wrong = ~torch.isclose(found, expected, rtol=1e-4, atol=1e-5).all(dim=1)
    row = int(wrong.int().argmax())
    require(not wrong.any(), f"`embed` of {MANY} structures is wrong from row {row} on: {described_at(surrogate, row)}")
    different = torch.arange(MANY)[:, None] * 1e-3 + expected
    queries = expected[:3]
    table = surrogate.energies(queries, different)
    require(table.shape == (3, MANY), f"`energies` for {MANY} embeddings has shape {tuple(table.shape)}")
    alone = torch.cat([surrogate.energies(queries, part) for part in different.split(7)], dim=1)
    off = (table - alone).abs() > NEAR * (1 + alone.abs())
    column = int(off.any(dim=0).int().argmax())
    require(not off.any(), f"`energies` for {MANY} embeddings are wrong from embedding {column} on")


def described_at(surrogate: Surrogate, row: int) -> str:
    """The structure at a row of repeated ones."""
    return described(surrogate.space, few(surrogate), row % len(few(surrogate)))


@after(check_surrogate_gives_embeddings)
def check_surrogate_leaves_all_alone(surrogate: Surrogate) -> None:
    """`embed` changes neither its batch nor its state, and does not draw from a global generator."""
    before = {name: value.clone() for name, value in surrogate.state().items()}
    batch = few(surrogate)
    require(unchanged(batch, surrogate.embed), "embed changed its batch in place: clone it first")
    require_own_randomness("`embed`", lambda: surrogate.embed(batch))
    require(same_state(before, surrogate.state()), "embed changes the state of the surrogate")


@after(check_surrogate_gives_embeddings)
def check_surrogate_state_is_complete(surrogate: Surrogate) -> None:
    """A fresh surrogate that `restore`s this one's `state` embeds the same."""
    fresh = fresh_surrogate(surrogate, seed=99)
    fresh.restore({name: value.clone() for name, value in surrogate.state().items()})
    batch = few(surrogate)
    same = torch.equal(fresh.embed(batch), surrogate.embed(batch))
    require(same, "a restored surrogate embeds differently: `state` does not hold all that was learned")


@after(check_surrogate_state_is_complete)
def check_surrogate_fit_is_seeded(surrogate: Surrogate) -> None:
    """`fit` with the same seed and data gives a bit-equal state, and does not draw from a global generator."""
    require_seeded_fit(lambda: fitted_surrogate(surrogate))


def few(surrogate: Surrogate) -> Any:
    """Structures to embed; `fit` has seen some of them."""
    return structures(surrogate.space, STRUCTURES + 6)[-8:]
