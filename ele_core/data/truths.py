"""Several right answers for one input: an answer is right if it is any of them, and measured against the nearest."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from ele_core.data.dataset import DataSet
from ele_core.data.objects import pack_all
from ele_core.errors import DataError, counted
from ele_core.interfaces import OutputSpace
from ele_core.runtime.context import Context


@dataclasses.dataclass(frozen=True, init=False, repr=False)
class AnyOf:
    """Objects that are all right for one input, as `AnyOf("T AH M EY T OW", "T AH M AA T OW")`.

    Give it in place of an output to `fit`, `evaluate` and `score`. Training uses every pair of the input and one of the
    objects; a prediction is measured against the nearest of them.
    """

    objects: tuple[Any, ...]

    def __init__(self, *objects: Any) -> None:
        if not objects:
            raise DataError("there are no objects.", where="AnyOf", fix="Give at least one right answer.")
        object.__setattr__(self, "objects", objects)

    def __repr__(self) -> str:
        return f"AnyOf({', '.join(map(repr, self.objects))})"


@dataclasses.dataclass(frozen=True)
class Truths:
    """The right outputs of B examples: row i of `outputs` is one for example `example[i]`.

    `example` (M,) is ascending and names each of 0…B−1 at least once.
    """

    outputs: Any
    example: Tensor
    several: bool = True
    """Whether an example can have several; if not, row i is the output of example i."""

    @classmethod
    def single(cls, outputs: Any) -> Truths:
        """One right output for each example."""
        return cls(outputs, torch.arange(len(outputs)), several=False)

    def __len__(self) -> int:
        return int(self.example[-1]) + 1 if len(self.example) else 0

    @property
    def first(self) -> Any:
        """The first truth of each example."""
        rows = torch.arange(len(self.example))
        return self.outputs[self.best(rows, "min")] if self.several else self.outputs

    def part(self, first: int, end: int) -> Truths:
        """The truths of the examples from `first` up to `end`."""
        if not self.several:
            return Truths.single(self.outputs[first:end])
        start, stop = torch.searchsorted(self.example, torch.tensor([first, end])).tolist()
        return Truths(self.outputs[start:stop], self.example[start:stop] - first)

    def of_examples(self, values: Any) -> Any:
        """Repeat row i of `values`, one per example, for each truth of example i."""
        return values[self.example] if self.several else values

    def best(self, values: Tensor, direction: Literal["min", "max"]) -> Tensor:
        """The best of the `values` (M,), one per truth, for each example: (B,)."""
        if not self.several:
            return values
        empty, example = values.new_zeros(len(self)), self.example.to(values.device)
        return empty.scatter_reduce(0, example, values, f"a{direction}", include_self=False)

    def nearest(self, values: Tensor, direction: Literal["min", "max"]) -> Tensor:
        """The row of `outputs` with the best of the `values` (M,) for each example, of equal ones the first: (B,)."""
        rows = torch.arange(len(self.example))
        matching = values == self.of_examples(self.best(values, direction))
        return self.best(torch.where(matching, rows, len(rows)), "min")


def examples(
    data: DataSet, rows: Tensor, written: Callable[[Any], str], limit: int | None = None
) -> tuple[Tensor, Truths]:
    """The first pair of each example among the pairs at `rows`, and the truths of these examples.

    If any truth is right (`DataSet.any_truth`), all pairs with equal inputs, as `written`, are one example; else every
    pair is one. `limit`: only the first examples.
    """
    if not data.any_truth:
        return rows[:limit], Truths.single(data.outputs[rows[:limit]])
    example = numbered(map(written, data.inputs_at(rows)))
    order = example.argsort(stable=True)
    if limit is not None:
        order = order[example[order] < limit]
    example = example[order]
    first = torch.ones_like(example, dtype=torch.bool)
    first[1:] = example[1:] != example[:-1]
    return rows[order[first]], Truths(data.outputs[rows[order]], example)


def numbered(keys: Iterable[Hashable]) -> Tensor:
    """A number for each key, such as a text, equal for equal keys, counted in the order in which they occur first."""
    known: dict[Hashable, int] = {}
    return torch.tensor([known.setdefault(key, len(known)) for key in keys], dtype=torch.long)


def note_on_repeats(inputs: Sequence[Any], outputs: Sequence[str]) -> str:
    """A line for the user if texts occur as inputs with different outputs; else, and for other inputs, empty."""
    found: dict[str, set[str]] = {}
    for x, y in zip(inputs, outputs, strict=True):
        if isinstance(x, str):
            found.setdefault(x, set()).add(y)
    count = sum(len(each) > 1 for each in found.values())
    if not count:
        return ""
    return (
        f"note: {counted(count, 'input')} with different outputs in several rows; each row counts by itself. "
        "If any of these outputs is right: --set data.any_truth=true"
    )


def packed_truths(space: OutputSpace[Any, Any], outputs: Sequence[Any], context: Context) -> Truths:
    """Pack the user's objects, some of which may be an `AnyOf`."""
    _, objects, example = spread_out(outputs, outputs)
    return Truths(pack_all(space, objects, context), example, several=len(objects) > len(outputs))


def spread_out(inputs: Sequence[Any], outputs: Sequence[Any]) -> tuple[list[Any], list[Any], Tensor]:
    """Pairs of each input with every object of its `AnyOf`, and the position of the input of each pair."""
    pairs = [
        (place, x, y)
        for place, (x, given) in enumerate(zip(inputs, outputs, strict=True))
        for y in (given.objects if isinstance(given, AnyOf) else (given,))
    ]
    position = torch.tensor([place for place, _, _ in pairs], dtype=torch.long)
    return [x for _, x, _ in pairs], [y for _, _, y in pairs], position
