"""Checks of output spaces: augmented views, and the neighbours that search visits."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ele_core.numerics.keys import ranks
from ele_core.testing.output_packing import check_unpack_inverts_pack
from ele_core.testing.output_relaxation import check_unrelax_gives_structures
from ele_core.testing.results import NotApplicable, after, require
from ele_core.testing.samples import (
    Space,
    draws_globally,
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


@after(check_unpack_inverts_pack)
def check_augment_stays_inside(space: Space) -> None:
    """`augment` gives a valid batch of as many structures."""
    batch = repeated(example_batch(space), 64)
    views = space.augment(batch, seeded())
    require(len(views) == len(batch), f"{len(batch)} structures became {len(views)} views")
    require_inside(space, views, "a view")


@after(check_augment_stays_inside)
def check_augment_leaves_its_input_alone(space: Space) -> None:
    """`augment` does not write into the batch that it is given."""
    batch = repeated(example_batch(space), 64)
    require(unchanged(batch, lambda each: space.augment(each, seeded())), "augment changed its argument in place")


@after(check_augment_leaves_its_input_alone)
def check_augment_is_seeded(space: Space) -> None:
    """`augment` is a function of its batch and its generator, and draws nothing from torch's global generator."""
    batch = repeated(example_batch(space), 64)
    require(not draws_globally(lambda: space.augment(batch, seeded())), "augment draws from torch's global generator")
    first, second = (space.augment(batch, seeded()) for _ in range(2))
    require(same_tensors(first, second), "two equal generators give different views")


@after(check_augment_is_seeded)
def check_augment_changes_something(space: Space) -> None:
    """Of many views some are other structures than they were made of: else there is nothing to learn from them."""
    batch = repeated(example_batch(space), VIEWS)
    views = space.augment(batch, seeded())
    require(not same_rows(space.keys(views), space.keys(batch)).all(), f"{VIEWS} views are all what they were made of")


@after(check_unrelax_gives_structures)
def check_neighbours_are_inside(space: Space) -> None:
    """`neighbours` gives valid structures, and names the row of each: int64, in range, in order."""
    batch = structures(space, 6)
    moved, owner = some_neighbours(space, batch)
    require_inside(space, moved, "a neighbour")
    require(owner.shape == (len(moved),), f"{len(moved)} neighbours, but rows of shape {tuple(owner.shape)}")
    require(owner.dtype == torch.int64, f"rows are {owner.dtype}, not int64")
    require(bool(((owner >= 0) & (owner < len(batch))).all()), f"rows are not between 0 and {len(batch) - 1}")
    require(bool((owner.diff() >= 0).all()), "the neighbours of a row do not stand together, in the order of rows")


@after(check_neighbours_are_inside)
def check_neighbours_belong_to_their_rows(space: Space) -> None:
    """The neighbours of a row are those that it has alone."""
    batch = structures(space, 6)
    moved, owner = some_neighbours(space, batch)
    for row in range(len(batch)):
        alone, _ = space.neighbours(batch[row : row + 1])
        own = moved[owner == row]
        same = len(own) == len(alone) and bool(same_rows(space.keys(own), space.keys(alone)).all())
        require(same, f"row {row} has {len(own)} neighbours among others and {len(alone)} alone, or other ones")


@after(check_neighbours_belong_to_their_rows)
def check_neighbours_are_different(space: Space) -> None:
    """No neighbour is the structure itself, and none comes twice in a row."""
    batch = structures(space, 6)
    moved, owner = some_neighbours(space, batch)
    keys = space.keys(moved)
    itself = same_rows(keys, space.keys(batch)[owner])
    require(not itself.any(), f"{int(itself.sum())} of {len(moved)} neighbours are the structure itself")
    different = len(torch.unique(torch.cat([owner[:, None], keys], dim=1), dim=0))
    require(different == len(moved), f"{len(moved) - different} of {len(moved)} neighbours come twice in their row")


@after(check_neighbours_belong_to_their_rows)
def check_neighbours_respect_the_limit(space: Space) -> None:
    """With `limit` a row has at most so many neighbours, and as many as it has without where these are fewer."""
    batch = structures(space, 6)
    _, owner = some_neighbours(space, batch)
    _, few = space.neighbours(batch, None, LIMIT)
    found, there = (torch.bincount(rows, minlength=len(batch)) for rows in (few, owner))
    expected = there.clamp(max=LIMIT)
    require(torch.equal(found, expected), f"limit {LIMIT} leaves {found.tolist()} neighbours, not {expected.tolist()}")


@after(check_neighbours_respect_the_limit, check_neighbours_are_different)
def check_neighbours_follow_the_gradient(space: Space) -> None:
    """With a gradient a row has the same neighbours, better ones first, and `limit` keeps the first of them.

    Better is seen on a loss that is linear in the point, whose first-order change is its change: the first neighbours
    have less of it than all have on average.
    """
    batch = structures(space, 6)
    _, without = some_neighbours(space, batch)
    relaxed, generator = space.relax(batch), seeded()
    slope = {name: torch.randn(getattr(relaxed, name).shape, generator=generator) for name in space.geometry}
    moved, owner = space.neighbours(batch, relaxed.replace(**slope))
    require(torch.equal(owner, without), "with a gradient there are other neighbours than without")
    few, rows = space.neighbours(batch, relaxed.replace(**slope), LIMIT)
    first = ranks(owner) < LIMIT
    require(torch.equal(rows, owner[first]), "limit keeps other neighbours than the first ones")
    require(
        same_rows(space.keys(few), space.keys(moved[first])).all(), "limit keeps other neighbours than the first ones"
    )
    if bool(first.all()):
        return
    loss = linear_loss(space, moved, slope, owner)
    require(loss[first].mean() < loss[~first].mean(), "the first neighbours are no better than the others")


def some_neighbours(space: Space, batch: Any) -> tuple[Any, Tensor]:
    """The neighbours of a batch; where there are none, no law is tested."""
    moved, owner = space.neighbours(batch)
    if not len(moved):
        raise NotApplicable("no structure has a neighbour")
    return moved, owner


def linear_loss(space: Space, batch: Any, slope: dict[str, Tensor], rows: Tensor) -> Tensor:
    """⟨slope of the row, relaxed structure⟩: (M,)."""
    point = space.relax(batch)
    terms = [(getattr(point, name) * values[rows]).flatten(1).sum(dim=1) for name, values in slope.items()]
    return torch.stack(terms).sum(dim=0)
