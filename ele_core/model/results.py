"""Predictions: objects with their energies, and the path that a decoder took to one of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ele_core.display.notebook import beside, picture, table
from ele_core.errors import ConfigError, DataError, counted
from ele_core.interfaces import Decoding, Drawing, InputSpace, OutputSpace

if TYPE_CHECKING:
    import pandas as pd

NOT_SATISFIED = "no structure satisfies the constraint"
"""The status of an input for which a decoder found no structure that satisfies its constraint."""
COLUMNS = ("input", "prediction", "energy", "status")
"""The columns of a table of predictions."""
UNLIKE = "unlike_training"
"""A further column, if an input is unlike those of the training: the reason, or empty."""


@dataclasses.dataclass(frozen=True)
class Prediction:
    """The objects found for one input, best first, each with its energy."""

    input: Any
    objects: list[Any]
    energies: list[float]
    space: OutputSpace[Any, Any] | None = dataclasses.field(default=None, repr=False, compare=False)
    """The output space, which draws the objects."""
    status: str = "ok"
    """`ok`, or why there are no objects: the input could not be used, or no structure satisfies its constraint."""
    unlike_training: str = ""
    """Why the input is unlike those of the training, so that its objects deserve less trust; empty if it is not."""
    input_space: InputSpace[Any] | None = dataclasses.field(default=None, repr=False, compare=False)
    """The input space, which draws the input; None: it is shown as Python shows it."""

    @property
    def best(self) -> Any:
        """The object of least energy, or None if there is none: see `status`."""
        return self.objects[0] if self.objects else None

    def drawings(self) -> list[Drawing]:
        """Draw each object, as a picture or as text if its space has no pictures."""
        return [Drawing(str(obj)) if self.space is None else self.space.render(obj) for obj in self.objects]

    def _repr_html_(self) -> str:
        return table(("input", "found, best first"), [self._cells()])

    def _cells(self) -> tuple[str, str]:
        notes = [f"energy {energy:.4g}" for energy in self.energies]
        drawn = str(self.input) if self.input_space is None or not self.objects else self.input_space.render(self.input)
        shown = picture(drawn) if isinstance(drawn, Drawing) else drawn
        return shown, beside(map(picture, self.drawings(), notes)) or self.status


@dataclasses.dataclass(frozen=True)
class Predictions(Sequence[Prediction]):
    """The predictions for a sequence of inputs, with the decoding they came from. A notebook shows them as pictures."""

    space: OutputSpace[Any, Any]
    inputs: Sequence[Any]
    decoding: Decoding
    """The structures found for the inputs that could be used, in their order."""
    refused: Mapping[int, str] = dataclasses.field(default_factory=dict)
    """Position of an input that could not be used → the reason."""
    unlike_training: Mapping[int, str] = dataclasses.field(default_factory=dict)
    """Position of an input that is unlike those of the training → the reason."""
    input_space: InputSpace[Any] | None = dataclasses.field(default=None, repr=False)
    """The input space, which draws the inputs in a notebook."""

    def __len__(self) -> int:
        return len(self.inputs)

    def __iter__(self) -> Iterator[Prediction]:
        objects = self.space.unpack(self.decoding.structures)
        found, k = enumerate(self.decoding.energies.tolist()), self.decoding.top_k
        for place, value in enumerate(self.inputs):
            if place in self.refused:
                yield Prediction(value, [], [], self.space, self.refused[place])
                continue
            row, energies = next(found)
            finite = [energy for energy in energies if energy < float("inf")]
            found_for = objects[row * k : row * k + len(finite)]
            status = "ok" if finite else NOT_SATISFIED
            unlike = self.unlike_training.get(place, "")
            yield Prediction(value, found_for, finite, self.space, status, unlike, self.input_space)

    def __getitem__(self, index: Any) -> Any:
        return list(self)[index]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of `rows`; the last one only if an input is unlike those of the training."""
        return (*COLUMNS, UNLIKE) if self.unlike_training else COLUMNS

    def rows(self, input_text: Callable[[Any], str] = str) -> list[dict[str, str]]:
        """Return texts for a table, one mapping per structure: `input`, `prediction`, `energy`, `status`.

        An input without a prediction has one mapping, with an empty prediction and the reason as its status. If an
        input is unlike those of the training, there is also `unlike_training`, with the reason.
        """
        return [row for _, row in self.numbered_rows(input_text)]

    def numbered_rows(self, input_text: Callable[[Any], str] = str) -> Iterator[tuple[int, dict[str, str]]]:
        """Yield the rows of `rows`, each with the position of its input."""
        for place, each in enumerate(self):
            found = [
                (self.space.format(obj), f"{energy:.6g}")
                for obj, energy in zip(each.objects, each.energies, strict=True)
            ]
            for prediction, energy in found or [("", "")]:
                cells = (input_text(each.input), prediction, energy, each.status, each.unlike_training)
                yield place, dict(zip(self.columns, cells, strict=False))

    def to_dataframe(self) -> pd.DataFrame:
        """Return a pandas table, a row per structure: `input`, `rank`, `prediction` (the object), `energy`, `status`.

        The best structure of an input has rank 1. An input without a prediction has one row.
        If an input is unlike those of the training, there is also `unlike_training`, with the reason.
        """
        try:
            import pandas as pd
        except ImportError:
            what = "this needs the package pandas, which is not installed."
            raise ConfigError(what, where="to_dataframe", fix="Install it: pip install pandas") from None
        rows = [
            (each.input, rank, obj, energy, each.status, each.unlike_training)
            for each in self
            for rank, (obj, energy) in enumerate(
                zip(each.objects or [None], each.energies or [math.nan], strict=True), 1
            )
        ]
        columns = (self.columns[0], "rank", *self.columns[1:])
        return pd.DataFrame({name: [row[place] for row in rows] for place, name in enumerate(columns)})

    def trace(self, index: int = 0) -> DecodingPath:
        """Return the path of the decoder to the best object of input `index`; decode with `trace=True` to record it."""
        trace = self.decoding.trace
        if trace is None:
            fix = "Call decode(..., trace=True), with a decoder that can record one (Decoder.traces)."
            raise DataError("the decoder recorded no trace.", where="trace", fix=fix)
        if not -len(self) <= index < len(self):
            raise IndexError(f"there is no input {index}: these are the predictions for {counted(len(self), 'input')}")
        place = index % len(self)
        if place in self.refused:
            raise DataError(f"nothing was decoded: {self.refused[place]}", where=f"input {place}")
        row = place - sum(other < place for other in self.refused)
        objects = [self.space.unpack(structures[row : row + 1])[0] for structures in trace.structures]
        energies = [float(energies[row]) for energies in trace.energies]
        steps = tuple(map(PathStep, trace.steps, objects, energies))
        return DecodingPath(self.space, self.inputs[place], steps)

    def __str__(self) -> str:
        """Return a line for each input: the object of least energy, and the energy."""
        return "\n".join(map(self._line, self))

    def _line(self, each: Prediction) -> str:
        if not each.objects:
            return f"{each.input} → {each.status}"
        return f"{each.input} → {self.space.format(each.best)}  (energy {each.energies[0]:.4g})"

    def _repr_html_(self) -> str:
        return table(("input", "found, best first"), [prediction._cells() for prediction in self])


@dataclasses.dataclass(frozen=True)
class PathStep:
    """One step of a decoder: its number, the object and its energy."""

    step: int
    object: Any
    energy: float


@dataclasses.dataclass(frozen=True)
class DecodingPath(Sequence[PathStep]):
    """Every recorded step of the decoding of one input. A notebook shows each object and marks its changes."""

    space: OutputSpace[Any, Any]
    input: Any
    steps: tuple[PathStep, ...]

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, index: Any) -> Any:
        return self.steps[index]

    def changes(self) -> list[PathStep]:
        """Return the first step, and each whose object differs from that of the step before."""
        texts = [self.space.format(each.object) for each in self.steps]
        return [each for i, each in enumerate(self.steps) if i == 0 or texts[i] != texts[i - 1]]

    def drawings(self) -> list[Drawing]:
        """Draw the objects of `changes`; the space marks what differs from the object before, if it can."""
        objects = [each.object for each in self.changes()]
        return [self.space.render(obj, before) for obj, before in zip(objects, [None, *objects], strict=False)]

    def __str__(self) -> str:
        lines = [f"{each.step:>6}  {each.energy:8.4f}  {self.space.format(each.object)}" for each in self.changes()]
        return "\n".join([f"{'step':>6}  {'energy':>8}  object", *lines])

    def _repr_html_(self) -> str:
        notes = [f"step {each.step}, energy {each.energy:.4g}" for each in self.changes()]
        return table((str(self.input),), [[beside(map(picture, self.drawings(), notes))]])
