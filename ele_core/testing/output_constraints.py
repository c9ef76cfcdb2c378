"""The check of an output space with constraints, and a constraint that every space can have, to check decoders with."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import torch
from pydantic import BaseModel
from torch import Tensor

from ele_core.interfaces import OutputSpace, Problem
from ele_core.testing.output_packing import check_unpack_inverts_pack
from ele_core.testing.results import NotApplicable, after, require
from ele_core.testing.samples import Space, example_batch, seeded, structures

STRUCTURES = 40


@after(check_unpack_inverts_pack)
def check_constraints_judge_structures(space: Space) -> None:
    """Of one constraint, `satisfies` gives (N,) bools and `violation` (N,) floats that are 0 exactly where it is true.

    Every structure satisfies the constraints that `constraints_of` computes from it, in any packing, and it is judged
    by itself: the other rows do not matter.
    """
    if space.Constraint is None:
        raise NotApplicable("the space has no constraints: `Constraint` is None")
    require(issubclass(space.Constraint, BaseModel), "`Constraint` is not a pydantic model")
    batch = structures(space, STRUCTURES)
    for name, row, constraint in computed(space):
        kept, off = space.satisfies(batch, constraint), space.violation(batch, constraint)
        for what, values in (("satisfies", kept), ("violation", off)):
            shape = tuple(values.shape)
            require(shape == (len(batch),), f"`{what}` for '{name}' gives shape {shape}, not ({len(batch)},)")
        require(kept.dtype == torch.bool, f"`satisfies` for '{name}' gives {kept.dtype}, not bool")
        require(off.is_floating_point(), f"`violation` for '{name}' gives {off.dtype}, not floats")
        require(bool((off >= 0).all()), f"`violation` for '{name}' is negative")
        require(torch.equal(off == 0, kept), f"`violation` for '{name}' is not 0 exactly where `satisfies` is true")
        own = example_batch(space)[row : row + 1]
        for packing in (own, space.equivalents(own, seeded())):
            require(
                space.satisfies(packing, constraint).all(),
                f"a structure does not satisfy the '{name}' that `constraints_of` computes from it: {constraint}",
            )
        alone = torch.cat([space.violation(batch[i : i + 1], constraint) for i in range(len(batch))])
        require(torch.allclose(alone, off), f"`violation` for '{name}' depends on the other rows")
        require(len(space.satisfies(batch[:0], constraint)) == 0, f"`satisfies` for '{name}' refuses an empty batch")


def computed(space: Space) -> Iterator[tuple[str, int, Any]]:
    """The constraints that the space computes from its examples: the name, the row of the example, the constraint."""
    assert space.Constraint is not None
    found = False
    for name in space.Constraint.model_fields:
        try:
            constraints = space.constraints_of(example_batch(space), [name])
        except KeyError:
            continue
        found = True
        yield from ((name, row, constraint) for row, constraint in enumerate(constraints))
    if not found:
        raise NotApplicable("`constraints_of` computes no constraint from a structure")


class Remainder(BaseModel):
    """A constraint that about half of the structures of any space satisfy: the remainder of their key by 2."""

    remainder: int


class HalfAllowed(OutputSpace[Any, Any]):
    """Mixed into a space, replaces its constraints by `Remainder`."""

    Constraint = Remainder

    def satisfies(self, batch: Any, constraint: Remainder) -> Tensor:
        return self.keys(batch)[:, 0] % 2 == constraint.remainder

    def violation(self, batch: Any, constraint: Remainder) -> Tensor:
        return (~self.satisfies(batch, constraint)).float()


def constrained(problem: Problem, queries: int) -> Problem:
    """The problem with a `Remainder` for two of three queries."""
    kind = type(type(problem.space).__name__, (HalfAllowed, type(problem.space)), {})
    space: Any = object.__new__(kind)
    space.__dict__.update(problem.space.__dict__)
    given = [Remainder(remainder=number % 3) if number % 3 < 2 else None for number in range(queries)]
    fresh = dataclasses.replace(problem.candidates, satisfying={})
    return dataclasses.replace(problem, space=space, candidates=fresh, constraints=given)
