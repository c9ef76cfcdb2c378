"""Predictions: objects with their energies, and the path that a decoder took to one of them."""

from __future__ import annotations

import dataclasses
import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ele_core.display.pictures import beside, picture, table
from ele_core.errors import ConfigError, DataError, counted
from ele_core.interfaces import InputSpace, OutputSpace
from ele_core.types import Decoding, Drawing

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas as pd

    from ele_core.model.trust.judged import Trust
    from ele_core.model.trust.sets import PredictionSets

NOT_SATISFIED = "no structure satisfies the constraint"
"""The status of an input for which a decoder found no structure that satisfies its constraint."""
NOT_FINITE = "no structure has a finite energy: the numbers of this input are too large"
"""The status of an input for which there is no structure although it has no constraint."""
BETWEEN = " | "
"""Written between the texts of several structures in one cell."""
COLUMNS = ("input", "prediction", "energy", "status")
"""The columns of a table of predictions."""
UNLIKE = "unlike_training"
"""A further column, if an input is unlike those of the training: the reason, or empty."""
CONFIDENCE, EXPECTED = "confidence", "expected_"
"""Further columns of a calibrated model: the probability that the answer is exact, the expected value of a metric."""
DIGITS = {"energy": 6}
"""The significant digits of numbers in a table; of other columns four."""
LONGEST = 200
"""Characters of an input, or of the objects found for it, that a prediction shows of itself."""
UNPACKED_AT_ONCE = 1024
"""Inputs whose structures are unpacked at once while predictions are read one after the other."""
SET_SIZE, SET_NOTE, SET = "set_size", "set_note", "set"
"""Further columns of a calibrated model: the size of the prediction set, whether it is complete, and its structures."""


def short(value: Any) -> str:
    """A value as Python shows it, in one line of at most `LONGEST` characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} … {text[-LONGEST // 2 :]}"


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
    """Why the input is unlike those of the training: its objects deserve less trust. Empty if it is not."""
    confidence: float | None = None
    """The probability that the best object is exact; None: the model is not calibrated."""
    expected: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Name of a metric → its expected value for the best object."""
    set: list[Any] | None = None
    """The objects of the prediction set, best first; None: the model is not calibrated."""
    set_note: str = ""
    """`complete`, `empty` or `cut`, with details; empty: there is no prediction set."""
    input_space: InputSpace[Any] | None = dataclasses.field(default=None, repr=False, compare=False)
    """The input space, which draws the input; None: it is shown as Python shows it."""

    @property
    def best(self) -> Any:
        """The object of least energy, or None if there is none: see `status`."""
        return self.objects[0] if self.objects else None

    def __repr__(self) -> str:
        energies = f"[{', '.join(f'{energy:.4g}' for energy in self.energies)}]"
        shown = [f"input={short(self.input)}", f"objects={short(self.objects)}", f"energies={energies}"]
        shown += [f"status={self.status!r}"] if self.status != "ok" else []
        shown += [f"unlike_training={self.unlike_training!r}"] if self.unlike_training else []
        shown += [f"confidence={self.confidence:.3g}"] if self.confidence is not None else []
        return f"Prediction({', '.join(shown)})"

    def drawings(self) -> list[Drawing]:
        """Draw each object, as a picture or as text if its space has no pictures."""
        return [Drawing(str(obj)) if self.space is None else self.space.show.render(obj) for obj in self.objects]

    def _repr_html_(self) -> str:
        return table(("input", "found, best first"), [self._cells()])

    def _cells(self) -> tuple[str, str]:
        notes = [f"energy {energy:.4g}" for energy in self.energies]
        if notes and self.confidence is not None:
            notes[0] += f", confidence {self.confidence:.3g}"
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
    trust: Trust | None = dataclasses.field(default=None, repr=False)
    """The confidence of the answers, in the order of `decoding`; None: the model is not calibrated for them."""
    sets: PredictionSets | None = dataclasses.field(default=None, repr=False)
    """The prediction sets, in the order of `decoding`."""
    list_sets: bool = False
    """Whether tables also list the structures of the sets."""
    least_confidence: float = 0.0
    """Answers of less confidence are omitted; their status says so."""
    input_space: InputSpace[Any] | None = dataclasses.field(default=None, repr=False)
    """The input space, which draws the inputs in a notebook."""
    constrained: bool = True
    """Whether predictions had to satisfy constraints: the status of an input without a structure depends on it."""

    def __len__(self) -> int:
        return len(self.inputs)

    def __repr__(self) -> str:
        sure = "" if self.trust is None else ", with confidence"
        refused = f", {len(self.refused):,} not used" if self.refused else ""
        return f"Predictions({counted(len(self), 'input')}, top_k={self.decoding.top_k}{sure}{refused})"

    def __iter__(self) -> Iterator[Prediction]:
        for start in range(0, len(self), UNPACKED_AT_ONCE):
            yield from self[start : start + UNPACKED_AT_ONCE]

    @overload
    def __getitem__(self, index: int) -> Prediction: ...
    @overload
    def __getitem__(self, index: slice) -> list[Prediction]: ...
    def __getitem__(self, index: int | slice) -> Prediction | list[Prediction]:
        places = range(len(self))[index]
        return self._at(places) if isinstance(places, range) else self._at([places])[0]

    def _at(self, places: Sequence[int]) -> list[Prediction]:
        """The predictions for the inputs at `places`: only their structures are unpacked."""
        rows = {place: self.row(place) for place in places if place not in self.refused}
        listed = {place: self.decoding.energies[row].tolist() for place, row in rows.items()}
        energies = {place: [energy for energy in own if energy < math.inf] for place, own in listed.items()}
        wanted = [rows[place] * self.decoding.top_k + rank for place in rows for rank in range(len(energies[place]))]
        objects = iter(self.space.unpack(self.decoding.structures[wanted]) if wanted else ())
        found = {place: [next(objects) for _ in energies[place]] for place in rows}
        members = self.sets.objects(self.space, list(rows.values())) if self.sets is not None else [None] * len(rows)
        sets = dict(zip(rows, members, strict=True))
        return [
            self._prediction(place, rows[place], found[place], energies[place], sets[place])
            if place in rows
            else Prediction(self.inputs[place], [], [], self.space, self.refused[place])
            for place in places
        ]

    def row(self, place: int) -> int:
        """The row of `decoding` of the input at `place`, which could be used."""
        return place - bisect_left(self._refused, place)

    def _prediction(
        self, place: int, row: int, objects: list[Any], energies: list[float], members: list[Any] | None
    ) -> Prediction:
        status = "ok" if energies else NOT_SATISFIED if self.constrained else NOT_FINITE
        trust = {name: column[row] for name, column in self._trust.items()}
        confidence = trust.pop(CONFIDENCE, None)
        if energies and confidence is not None and confidence < self.least_confidence:
            status = f"confidence {confidence:.3g} is below {self.least_confidence:g}"
            objects, energies = [], []
        return Prediction(
            self.inputs[place],
            objects,
            energies,
            self.space,
            status,
            self.unlike_training.get(place, ""),
            confidence,
            trust,
            members,
            self._notes[row] if self._notes else "",
            self.input_space,
        )

    @cached_property
    def _refused(self) -> list[int]:
        return sorted(self.refused)

    @cached_property
    def _trust(self) -> dict[str, list[float]]:
        """The confidence and the expected value of each metric, one number per row of `decoding`."""
        if self.trust is None:
            return {}
        expected = {name: values.tolist() for name, values in self.trust.expected.items()}
        return {CONFIDENCE: self.trust.confidence.tolist(), **expected}

    @cached_property
    def _notes(self) -> list[str]:
        return [] if self.sets is None else self.sets.notes()

    @property
    def confidence(self) -> npt.NDArray[np.float64] | None:
        """The probability (N,) that each answer is exact, NaN if an input could not be used; None: not calibrated."""
        if self.trust is None:
            return None
        found = np.full(len(self), np.nan)
        found[[place for place in range(len(self)) if place not in self.refused]] = self._trust[CONFIDENCE]
        return found

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of `rows`: those of trust only if it is known, `unlike_training` only if an input is unlike."""
        sets = () if self.sets is None else (SET_NOTE, SET) if self.list_sets else (SET_NOTE,)
        return (*COLUMNS, *self.numbers[1:], *sets, *((UNLIKE,) if self.unlike_training else ()))

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns that hold numbers."""
        if self.trust is None:
            return ("energy",)
        expected = (EXPECTED + name for name in self.trust.expected)
        return ("energy", CONFIDENCE, *expected, *((SET_SIZE,) if self.sets is not None else ()))

    def rows(self, input_text: Callable[[Any], str] = str) -> list[dict[str, str]]:
        """Return texts for a table, one mapping per structure: `input`, `prediction`, `energy`, `status`.

        An input without a prediction has one mapping, with an empty prediction and the reason as its status. If an
        input is unlike those of the training, there is also `unlike_training`, with the reason. The first mapping of
        an input also has `confidence`, `expected_METRIC`, `set_size`, `set_note` and `set` if they are known; for its
        further structures they are empty.
        """
        return [
            {name: written(name, value) for name, value in row.items()} for _, row in self.numbered_rows(input_text)
        ]

    def numbered_rows(self, input_text: Callable[[Any], str] = str) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the cells of `rows`, with numbers as numbers and None for empty ones, and the position of the input."""
        columns = self.columns
        for place, each in enumerate(self):
            found: list[tuple[str, float | None]] = [
                (self.space.texts.format(obj), energy) for obj, energy in zip(each.objects, each.energies, strict=True)
            ]
            own = {**self._shared_cells(each), "input": input_text(each.input)}
            own[SET] = BETWEEN.join(map(self.space.texts.format, each.set or ())) if self.list_sets else ""
            for prediction, energy in found or [("", None)]:
                cells = {**own, "prediction": prediction, "energy": energy}
                yield place, {name: cells.get(name, None if name in self.numbers else "") for name in columns}
                own = {name: own[name] for name in ("input", "status", UNLIKE)}  # trust is written once

    def to_dataframe(self) -> pd.DataFrame:
        """Return a pandas table, a row per structure: `input`, `rank`, `prediction` (the object), `energy`, `status`.

        The best structure of an input has rank 1. An input without a prediction has one row.
        If an input is unlike those of the training, there is also `unlike_training`, with the reason. Rows of a
        calibrated model also have `confidence`, `expected_METRIC`, `set_size`, `set_note` and `set` of their input.
        """
        try:
            import pandas as pd
        except ImportError:
            what = "this needs the package pandas, which is not installed."
            raise ConfigError(what, where="to_dataframe", fix="Install it: pip install pandas") from None
        rows = [
            {"rank": rank, "prediction": obj, "energy": energy, **self._shared_cells(each)}
            for each in self
            for rank, (obj, energy) in enumerate(
                zip(each.objects or [None], each.energies or [math.nan], strict=True), 1
            )
        ]
        columns = (self.columns[0], "rank", *self.columns[1:])
        return pd.DataFrame({name: [row.get(name) for row in rows] for name in columns})

    def _shared_cells(self, each: Prediction) -> dict[str, Any]:
        """What is the same for all structures of an input."""
        cells = {"input": each.input, "status": each.status, UNLIKE: each.unlike_training, CONFIDENCE: each.confidence}
        cells |= {EXPECTED + name: value for name, value in each.expected.items()}
        return {**cells, SET_SIZE: None if each.set is None else len(each.set), SET_NOTE: each.set_note, SET: each.set}

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
        row = self.row(place)
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
        trust = "" if each.confidence is None else f", confidence {each.confidence:.3g}"
        return f"{each.input} → {self.space.texts.format(each.best)}  (energy {each.energies[0]:.4g}{trust})"

    def _repr_html_(self) -> str:
        return table(("input", "found, best first"), [prediction._cells() for prediction in self])


def written(name: str, value: Any) -> str:
    """The text of a cell in the column `name`: energies with six digits, measures of trust with four."""
    if value is None:
        return ""
    return f"{value:.{DIGITS.get(name, 4)}g}" if isinstance(value, float) else str(value)


def rounded(name: str, value: Any) -> Any:
    """The number in the column `name` with as many digits as `written` gives it; other cells stay as they are."""
    return float(written(name, value)) if isinstance(value, float) else value


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
        texts = [self.space.texts.format(each.object) for each in self.steps]
        return [each for i, each in enumerate(self.steps) if i == 0 or texts[i] != texts[i - 1]]

    def drawings(self) -> list[Drawing]:
        """Draw the objects of `changes`; the space marks what differs from the object before, if it can."""
        objects = [each.object for each in self.changes()]
        return [self.space.show.render(obj, before) for obj, before in zip(objects, [None, *objects], strict=False)]

    def __str__(self) -> str:
        lines = [
            f"{each.step:>6}  {each.energy:8.4f}  {self.space.texts.format(each.object)}" for each in self.changes()
        ]
        return "\n".join([f"{'step':>6}  {'energy':>8}  object", *lines])

    def _repr_html_(self) -> str:
        notes = [f"step {each.step}, energy {each.energy:.4g}" for each in self.changes()]
        return table((str(self.input),), [[beside(map(picture, self.drawings(), notes))]])
