"""Checks of output spaces: augmented views, and the neighbours that search visits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ele_core.numerics.keys import ranks
from ele_core.testing.global_generators import require_own_randomness
from ele_core.testing.output_packing import check_unpack_inverts_pack
from ele_core.testing.output_relaxation import check_unrelax_gives_structures
from ele_core.testing.results import Broken, NotApplicable, after, require
from ele_core.testing.samples import (
    Space,
    described,
    example_batch,
    repeated,
    require_inside,
    same_rows,
    same_tensors,
    seeded,
    structures,
    unchanged,
)

VIEWS = 512
LIMIT = 3
NEAR = 1e-4
"""The largest rounding error of a first-order change."""


@after(check_unpack_inverts_pack)
def check_augment_stays_inside(space: Space) -> None:
    """`augment` gives a valid batch with the same number of structures."""
    batch = repeated(example_batch(space), 64)
    views = space.augment(batch, seeded())
    require(len(views) == len(batch), f"{len(batch)} structures became {len(views)} views")
    require_inside(space, views, "a view")


@after(check_augment_stays_inside)
def check_augment_leaves_its_input_alone(space: Space) -> None:
    """`augment` does not change the batch that it is given."""
    batch = repeated(example_batch(space), 64)
    same = unchanged(batch, lambda each: space.augment(each, seeded()))
    require(same, "augment changed its argument in place: clone it first")


@after(check_augment_leaves_its_input_alone)
def check_augment_is_seeded(space: Space) -> None:
    """`augment` is a function of its batch and its generator, and draws nothing from a global generator."""
    batch = repeated(example_batch(space), 64)
    require_own_randomness("`augment`", lambda: space.augment(batch, seeded()))
    first, second = (space.augment(batch, seeded()) for _ in range(2))
    require(same_tensors(first, second), "augment gives different views with equal generators")


@after(check_augment_is_seeded)
def check_augment_changes_something(space: Space) -> None:
    """Some views differ from their structures: otherwise there is nothing to learn from them."""
    batch = repeated(example_batch(space), VIEWS)
    views = space.augment(batch, seeded())
    require(not same_rows(space.keys(views), space.keys(batch)).all(), f"all {VIEWS} views equal their structures")


@after(check_unrelax_gives_structures)
def check_neighbours_are_inside(space: Space) -> None:
    """`neighbours` gives valid structures and the row of each: int64, in range, in ascending order."""
    batch = structures(space, 6)
    moved, owner = some_neighbours(space, batch)
    require_inside(space, moved, "a neighbour")
    require(owner.shape == (len(moved),), f"{len(moved)} neighbours, but rows of shape {tuple(owner.shape)}")
    require(owner.dtype == torch.int64, f"rows are {owner.dtype}, not int64")
    require(bool(((owner >= 0) & (owner < len(batch))).all()), f"rows are not between 0 and {len(batch) - 1}")
    require(
        bool((owner.diff() >= 0).all()),
        "rows do not ascend: return the neighbours of the first row first, then those of the second",
    )


@after(check_neighbours_are_inside)
def check_neighbours_belong_to_their_rows(space: Space) -> None:
    """A row has the same neighbours in a batch as alone."""
    batch = structures(space, 6)
    moved, owner = some_neighbours(space, batch)
    for row in range(len(batch)):
        alone, _ = space.neighbours(batch[row : row + 1])
        own = moved[owner == row]
        same = len(own) == len(alone) and bool(same_rows(space.keys(own), space.keys(alone)).all())
        require(same, f"row {row} has different neighbours in a batch ({len(own)}) and alone ({len(alone)})")


@after(check_neighbours_belong_to_their_rows)
def check_neighbours_are_different(space: Space) -> None:
    """No neighbour is the structure itself, and none occurs twice for the same structure."""
    batch = structures(space, 6)
    moved, owner = some_neighbours(space, batch)
    keys = space.keys(moved)
    itself = same_rows(keys, space.keys(batch)[owner])
    require(not itself.any(), f"{int(itself.sum())} of {len(moved)} neighbours are the structure itself")
    different = len(torch.unique(torch.cat([owner[:, None], keys], dim=1), dim=0))
    require(
        different == len(moved),
        f"{len(moved) - different} of {len(moved)} neighbours occur twice for the same structure",
    )


@after(check_neighbours_belong_to_their_rows)
def check_neighbours_respect_the_limit(space: Space) -> None:
    """With `limit`, each row has at most `limit` neighbours, and all of them if it has fewer."""
    batch = structures(space, 6)
    _, owner = some_neighbours(space, batch)
    _, few = space.neighbours(batch, None, LIMIT)
    found, there = (torch.bincount(rows, minlength=len(batch)) for rows in (few, owner))
    expected = there.clamp(max=LIMIT)
    require(
        torch.equal(found, expected),
        f"limit={LIMIT} gives {found.tolist()} neighbours per row, not {expected.tolist()}",
    )


@after(check_neighbours_respect_the_limit, check_neighbours_are_different)
def check_neighbours_follow_the_gradient(space: Space) -> None:
    """With a gradient, a row has the same neighbours, sorted by first-order change, and `limit` keeps the first ones.

    The change is ⟨gradient, relaxed neighbour − relaxed structure⟩.
    """
    batch = structures(space, 6)
    _, without = some_neighbours(space, batch)
    relaxed, generator = space.relax(batch), seeded()
    slope = {name: torch.randn(getattr(relaxed, name).shape, generator=generator) for name in space.geometry}
    moved, owner = space.neighbours(batch, relaxed.replace(**slope))
    require(torch.equal(owner, without), "a gradient changes the number of neighbours of a row")
    few, rows = space.neighbours(batch, relaxed.replace(**slope), LIMIT)
    first = ranks(owner) < LIMIT
    same = torch.equal(rows, owner[first]) and bool(same_rows(space.keys(few), space.keys(moved[first])).all())
    require(same, f"with a gradient, limit={LIMIT} does not keep the first {LIMIT} neighbours of each row")
    loss = linear_loss(space, moved, slope, owner)
    for row in range(len(batch)):
        own = loss[owner == row]
        falls = own.diff() < -NEAR * (1 + own.abs().max()) if len(own) else own
        for place in falls.nonzero().flatten().tolist()[:1]:
            raise Broken(
                f"the neighbours of row {row}, {described(space, batch, row)}, are not sorted by first-order change: "
                f"neighbours {place} and {place + 1} change the loss to {own[place]:.4g} and {own[place + 1]:.4g}"
            )


def some_neighbours(space: Space, batch: Any) -> tuple[Any, Tensor]:
    """The neighbours of a batch; raise `NotApplicable` if there are none."""
    moved, owner = space.neighbours(batch)
    if not len(moved):
        raise NotApplicable("no structure has a neighbour")
    return moved, owner


def linear_loss(space: Space, batch: Any, slope: dict[str, Tensor], rows: Tensor) -> Tensor:
    """⟨slope of the row, relaxed structure⟩: (M,)."""
    point = space.relax(batch)
    terms = [(getattr(point, name) * values[rows]).flatten(1).sum(dim=1) for name, values in slope.items()]
    return torch.stack(terms).sum(dim=0)
