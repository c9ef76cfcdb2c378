"""What an output space may bring besides what it must: each is a class with defaults that a space replaces.

A space names its own class, as `Show = RowShow` or as a nested class; ELE builds it with the space, once, and calls it
as `space.show`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from torch import Tensor

from ele_core.numerics.tensors import Tensors
from ele_core.types import Drawing

if TYPE_CHECKING:
    from ele_core.interfaces import OutputSpace

Y = TypeVar("Y")
T = TypeVar("T", bound=Tensors)


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
