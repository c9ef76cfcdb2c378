"""What an output space may bring besides what it must: each is a class with defaults that a space replaces.

A space names its own class, as `Show = RowShow` or as a nested class; ELE builds it with the space and calls it as
`space.show`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import torch
from pydantic import BaseModel
from torch import Tensor

from ele_core.numerics.keys import first_two, fresh_moves, ranks
from ele_core.numerics.sets import all_switches
from ele_core.numerics.sparse import PartEnergies
from ele_core.numerics.tensors import Tensors
from ele_core.types import Drawing

if TYPE_CHECKING:
    from ele_core.interfaces import OutputSpace

Y = TypeVar("Y")
T = TypeVar("T", bound=Tensors)


MOVES_AT_ONCE = 2048
"""Moves whose parts are counted at once: bounds the memory."""


class Moves(Generic[T]):
    """The small changes of structures that `search` and `pgd` try.

    By default a move switches one block of one field to another vertex. For moves of your own define `list`, and
    `along` if you have a faster way to sort them.
    """

    def __init__(self, space: OutputSpace[Any, T]) -> None:
        self.space = space

    def list(self, batch: T) -> tuple[T, Tensor]:
        """The structures one move away from each row of `batch`, and the row (M,) that each comes from, ascending.

        They may repeat a structure or change nothing: `neighbours` leaves these out.
        """
        return all_switches(self.space.geometry, batch, None)

    def along(self, batch: T, gradient: T) -> tuple[T, Tensor]:
        """As `list`, those of a row sorted by ⟨gradient, relaxed move − relaxed structure⟩, smallest first.

        `gradient` is that of a loss, at the relaxed batch.
        """
        if type(self).list is Moves.list:
            return all_switches(self.space.geometry, batch, gradient)
        moved, row = self.list(batch)
        order = self._changes(batch, moved, row, gradient).argsort(stable=True)
        order = order[row[order].argsort(stable=True)]
        return moved[order], row[order]

    def neighbours(self, batch: T, gradient: T | None = None, limit: int | None = None) -> tuple[T, Tensor]:
        """The different structures one move away, sorted by `gradient` if it is given; at most `limit` of each row."""
        moved, row = self.list(batch) if gradient is None else self.along(batch, gradient)
        kept = fresh_moves(self.space.keys(moved), row, self.space.keys(batch), limit)
        return moved[kept], row[kept]

    def _changes(self, batch: T, moved: T, row: Tensor, gradient: T) -> Tensor:
        """⟨gradient of the row, relaxed move − relaxed structure⟩ of each move (M,)."""
        here, found = self.space.relax(batch), []
        for part in torch.arange(len(row), device=row.device).split(MOVES_AT_ONCE):
            there, own = self.space.relax(moved[part]), row[part]
            steps = {name: getattr(there, name) - getattr(here, name)[own] for name in self.space.geometry}
            terms = [(step * getattr(gradient, name)[own]).flatten(1).sum(dim=1) for name, step in steps.items()]
            found.append(torch.stack(terms).sum(dim=0))
        return torch.cat(found) if found else torch.zeros(0, device=row.device)


class PartMoves(Moves[T]):
    """Moves whose energies can be estimated by the parts that they change, much faster than by the surrogate.

    `search` then scores only the best of them. Replace `best` by a faster way to the same result.
    """

    def best(self, batch: T, estimate: PartEnergies, limit: int) -> tuple[T, Tensor]:
        """The first `limit` of the moves of each row by an estimate of their energy, best first, and their rows (M,).

        Row i of `estimate` is for row i of `batch`. Of moves with equal estimates, which mostly lead to the same
        structure, only two are listed.
        """
        moved, row = self.list(batch)
        parts = torch.arange(len(row), device=row.device).split(MOVES_AT_ONCE)
        found = [estimate[row[part]].of(self.space.features(moved[part])) for part in parts]
        energies = torch.cat(found) if found else estimate.queries.new_zeros(0)
        order = energies.argsort(stable=True)
        order = order[row[order].argsort(stable=True)]
        order = order[first_two(energies[order], row[order])]
        order = order[ranks(row[order]) < limit]
        return moved[order], row[order]


class Rules(ABC, Generic[T]):
    """The constraints on predictions that a space understands, such as a length or a molecular formula."""

    Constraint: ClassVar[type[BaseModel]]
    """A constraint: a pydantic model whose fields are the rules, each None if it is not given."""

    def __init__(self, space: OutputSpace[Any, T]) -> None:
        self.space = space

    @abstractmethod
    def violation(self, batch: T, constraint: Any) -> Tensor:
        """(N,) floats: 0 if a structure satisfies one `Constraint`, else larger the further away, about 1 per move.

        `search` follows it towards structures that satisfy the constraint.
        """

    def satisfies(self, batch: T, constraint: Any) -> Tensor:
        """(N,) bool: whether each structure satisfies one `Constraint`; by default where `violation` is 0."""
        return self.violation(batch, constraint) == 0

    def costly(self, constraint: Any) -> bool:
        """Whether judging takes so long that decoders should judge only the few dozen structures of least energy."""
        return False

    def of(self, batch: T, names: Sequence[str]) -> list[Any]:
        """For each structure the `Constraint` of these names that it satisfies, such as its own molecular formula.

        Evaluations use it to give models a part of the truth. Raise `KeyError` for a name of which a structure has no
        single value, such as a substructure. By default there is no name.
        """
        if names:
            raise KeyError(names[0])
        return [None] * len(batch)


class TextFormat(Generic[Y]):
    """How the outputs of a file are written under the `options` of a space: `parse` and `format` are inverses.

    By default as `parse` and `format` of the space, whatever the options. It is built with the class of the space: the
    objects of a file are read before `OutputSpace.infer` makes the configuration from them.
    """

    any_text: ClassVar[bool] = False
    """Whether any text is an output: `ele train FILE` takes such a space if its user names none."""

    def __init__(self, space: type[OutputSpace[Y, Any]], options: Mapping[str, Any]) -> None:
        self.space = space
        self.options = options

    @classmethod
    def infer(cls, texts: Sequence[str], options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Options that tell how all outputs of a file are written, such as a separator; by default none.

        `OutputSpace.infer` gets these too; the user's `options` take precedence.
        """
        return {}

    def parse(self, text: str) -> Y:
        """Read an object; raise `InvalidOutput` if that is impossible."""
        return self.space.parse(text)

    def format(self, obj: Y) -> str:
        """Write an object in one line."""
        return self.space.format(obj)

    def echo(self, text: str) -> Y:
        """Read the text of an input as an object, for the baseline of echoing; by default as `parse` does."""
        return self.parse(text)


class Show(Generic[Y, T]):
    """How objects are shown: drawn, described by numbers, and described in words before training."""

    def __init__(self, space: OutputSpace[Y, T]) -> None:
        self.space = space

    def render(self, obj: Y, against: Y | None = None) -> Drawing:
        """Draw `obj` as a picture or text; mark how it differs from `against` if you can. By default its text."""
        return Drawing(self.space.format(obj) or "(empty)")

    def properties(self, batch: T) -> dict[str, Tensor]:
        """Numbers (B,) that describe each structure, by name, for colouring and filtering in reports."""
        return {}

    def describe(self) -> str:
        """What was inferred from the data, for the line `output: …` before training; empty: no line."""
        return ""

    def dropped_note(self, objects: Sequence[Y]) -> str:
        """What reading or packing dropped from `objects`, for a line before training; empty: no line."""
        return ""
