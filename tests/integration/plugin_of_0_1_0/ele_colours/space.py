"""The output space: rows of a fixed number of slots, each of one colour."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property
from html import escape
from typing import Any

import torch
from ele_core import ComponentConfig, ConvexSet, Drawing, Metric, OutputSpace, Simplex, Tensors
from pydantic import Field
from torch import Generator, Tensor

Row = tuple[str, ...]
"""An object as your users have it. Change it to whatever they have: a graph, a text, a set."""


@dataclasses.dataclass(frozen=True, eq=False)
class Rows(Tensors):
    """(B, n) colour numbers; relaxed, (B, n, K) shares of each colour. Add a field for each further part."""

    slots: Tensor


class ColoursSpace(OutputSpace[Row, Rows]):
    """Rows of `length` slots, each of one of the `colours`."""

    Batch = Rows

    class Config(ComponentConfig):
        """All that tells one such space from another. A string below an option is its documentation."""

        colours: tuple[str, ...] = Field(min_length=2)
        """The colours that a slot may have."""
        length: int = Field(ge=1)
        """The number of slots."""
        recolour_rate: float = Field(0.2, ge=0, le=1)
        """Probability with which each slot of a view has a random colour."""

    config: Config

    @cached_property
    def geometry(self) -> Mapping[str, ConvexSet]:
        # One convex set for each field of the batch. Others: Box for yes or no, Birkhoff for an order,
        # SymmetricSimplex for the edges of a graph. Relaxing, projecting, rounding and moves follow from it.
        return {"slots": Simplex(size=len(self.config.colours), rows=(self.config.length,))}

    def pack(self, objects: Sequence[Row]) -> Rows:
        # Objects to small integers. Refuse what does not fit: users see the reason beside the row of their file.
        number = {colour: i for i, colour in enumerate(self.config.colours)}
        for index, row in enumerate(objects):
            if not isinstance(row, tuple | list) or len(row) != self.config.length:
                raise self.invalid(f"{row!r} is not a row of {self.config.length} slots.", index)
            if unknown := [colour for colour in row if colour not in self.config.colours]:
                raise self.invalid(f"unknown colour {unknown[0]!r}.", index)
        slots = [[number[colour] for colour in row] for row in objects]
        dtype = self.geometry["slots"].label_dtype
        return Rows(torch.tensor(slots, dtype=dtype).reshape(len(slots), self.config.length))

    def unpack(self, batch: Rows) -> list[Row]:
        return [tuple(self.config.colours[i] for i in row) for row in batch.slots.tolist()]

    def augment(self, batch: Rows, generator: Generator) -> Rows:
        # Another view of the same structure: a small change. What is near in this sense will be near in the loss.
        changed = torch.rand(batch.slots.shape, generator=generator) < self.config.recolour_rate
        colour = torch.randint(len(self.config.colours), batch.slots.shape, generator=generator)
        return Rows(torch.where(changed, colour.to(batch.slots.dtype), batch.slots))

    @classmethod
    def parse(cls, text: str) -> Row:
        # How an object is written in a cell of a CSV file, and read from there.
        return tuple(text.split())

    @classmethod
    def format(cls, obj: Row) -> str:
        return " ".join(obj)

    @classmethod
    def infer(cls, objects: Sequence[Row], options: Mapping[str, Any]) -> ComponentConfig:
        # What a file of your users' own tells of the options; those that they give by hand win.
        colours = sorted({colour for row in objects for colour in row})
        length = max((len(row) for row in objects), default=1)
        return cls.Config(**{"colours": colours, "length": length, **options})

    def examples(self) -> list[Row]:
        # A few valid, different objects: the tests begin with them.
        colours, length = self.config.colours, self.config.length
        rows = [(colours[0],) * length, (colours[-1],) * length, (*colours[:1] * (length - 1), colours[1])]
        return list(dict.fromkeys(rows))

    # -- the rest is optional ---------------------------------------------------------------------------------------

    @property
    def metrics(self) -> Sequence[Metric[Rows]]:
        return self.exact_match, Metric("wrong_slots", "min", wrong_slots, "slots of another colour than the truth")

    def render(self, obj: Row, against: Row | None = None) -> Drawing:
        # A picture for notebooks and reports; a slot that differs from `against` gets a thick border.
        squares = [
            f'<rect x="{24 * i + 3}" y="3" width="20" height="20" fill="{escape(colour)}" stroke="black" '
            f'stroke-width="{3 if against is not None and against[i] != colour else 1}"/>'
            for i, colour in enumerate(obj)
        ]
        size = f'width="{24 * len(obj) + 2}" height="26"'
        svg = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(squares)}</svg>'
        return Drawing(self.format(obj), svg)


def wrong_slots(predicted: Rows, true: Rows) -> Tensor:
    """The number of slots that differ: (B,)."""
    return (predicted.slots != true.slots).sum(dim=1).float()
