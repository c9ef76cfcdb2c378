"""Inputs of several columns of different kinds, such as a word and its tag, each with an input space of its own."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from pydantic import Field
from torch import Generator, Tensor

from ele_core.component import ComponentConfig
from ele_core.components.inputs.text import Texts
from ele_core.errors import InvalidInput, ModelError, damaged
from ele_core.files.archive import brief, read_json
from ele_core.files.columns import as_text, cell_text
from ele_core.interfaces import InputSpace
from ele_core.numerics.keys import mix
from ele_core.numerics.sparse import SparseRows
from ele_core.numerics.sparse_vectors import SparseVector
from ele_core.numerics.tensors import Tensors
from ele_core.plugins import create_part
from ele_core.types import Choice, Drawing, Reads, Takes

Row = Mapping[str, Any]
"""One input: the value of each column, by its name."""
MEASURED = 1000
"""Training inputs by which the distances in a column are measured."""
NO_NAME = "text"
"""The input space of a column for which none is given."""
Result = TypeVar("Result")


@dataclasses.dataclass(frozen=True, eq=False)
class Columns(Tensors):
    """The batches of several columns, their fields side by side; `columns_of` makes the class for given kinds."""

    kinds: ClassVar[tuple[type[Tensors], ...]] = ()

    @classmethod
    def joined(cls, parts: Sequence[Tensors]) -> Self:
        """One batch of the batches of all columns."""
        return cls(**{f"{name}_{place}": own for place, part in enumerate(parts) for name, own in part.named_tensors()})

    @property
    def parts(self) -> list[Any]:
        """The batch of each column."""
        return [
            kind(**{name: getattr(self, f"{name}_{place}") for name in names_of(kind)})
            for place, kind in enumerate(self.kinds)
        ]

    @classmethod
    def cat(cls, parts: Iterable[Self]) -> Self:
        """Concatenate batches, column by column."""
        every = zip(*(part.parts for part in parts), strict=True)
        return cls.joined([kind.cat(own) for kind, own in zip(cls.kinds, every, strict=True)])


@functools.cache
def columns_of(kinds: tuple[type[Tensors], ...]) -> type[Columns]:
    """The class for batches of these kinds, one for each column."""
    fields = [(f"{name}_{place}", Tensor) for place, kind in enumerate(kinds) for name in names_of(kind)]
    return dataclasses.make_dataclass(
        "Columns", fields, bases=(Columns,), frozen=True, eq=False, namespace={"kinds": kinds}
    )


def names_of(kind: type[Tensors]) -> list[str]:
    """The names of the fields of a batch."""
    return [field.name for field in dataclasses.fields(kind)]


class ColumnsInput(InputSpace[Row]):
    """Mappings from the names of columns to values; each column is read, packed and compared by its own input space.

    The features of columns are scaled so that inputs differ equally in all of them. A Gaussian kernel on them is then
    the product of the Gaussian kernels of the columns. As text an input is a JSON object of texts.
    """

    class Config(ComponentConfig):
        """The input space of each column."""

        columns: dict[str, Annotated[Choice, Takes("input")]] = Field(default_factory=dict)
        """The input space of each column, under its name. Those that are not given follow from the data: `text`,
        `vector` for numbers, `bits`, or `image`."""

    config: Config
    reads: ClassVar[Reads] = "columns"

    def __init__(self, config: ComponentConfig | None = None) -> None:
        super().__init__(config)
        self.columns: dict[str, InputSpace[Any]] = {}
        self._scales: list[float] = []
        self._name(self.config.columns)

    @property
    def Batch(self) -> type[Tensors]:  # type: ignore[override]  # noqa: N802  # it depends on the columns
        """The dataclass of batches of these columns."""
        return columns_of(tuple(part.Batch for part in self.columns.values()))

    @property
    def names(self) -> list[str] | None:
        """The text of each token: those of all columns of texts, one after the other; None: there are none."""
        found = [part.names for part in self.columns.values() if is_text(part)]  # type: ignore[attr-defined]
        return [name for names in found for name in names] if found else None

    def parse(self, text: str | Row) -> Row:
        """Read a JSON object, or the cells of a file by column; refuse one that lacks a column."""
        cells = as_cells(text) if isinstance(text, str) else text
        if not self.columns:
            return dict(cells)
        found = {}
        for name, part in self.columns.items():
            cell = value_of(cells, name, 0)
            array = isinstance(cell, np.ndarray | SparseVector)
            if part.reads == "texts" or not array:
                written = cell_text(cell) if array else as_text(cell)
                cell = self._of(name, functools.partial(part.parse, written))
            found[name] = cell
        return found

    def format(self, value: Row) -> str:
        """A JSON object with the text of each column."""
        parts = self.columns or dict.fromkeys(value)
        texts = {name: part.format(value[name]) if part else str(value[name]) for name, part in parts.items()}
        return json.dumps(texts, ensure_ascii=False)

    def fit(self, values: Sequence[Row]) -> None:
        """Fit the input space of each column, and measure how far apart inputs are in it."""
        if len(values) == 0:
            raise InvalidInput("there are no inputs to learn from.", fix="Give at least one training input.")
        if not self.config.columns:
            self._name(dict.fromkeys(values[0], Choice(name=NO_NAME)))
        self._scales = []
        for name, part in self.columns.items():
            own = self._column(name, values)
            self._of(name, functools.partial(part.fit, own))
            some = self._of(name, functools.partial(part.pack, own[:MEASURED]))
            self._scales.append(1 / (spread(compared(part, some)) or 1.0))

    def pack(self, values: Sequence[Row]) -> Tensors:
        """The batches of all columns."""
        if not self._scales:
            raise ModelError("this input does not know its columns yet.", fix="Call `fit` or `load` first.")
        packed = [
            self._of(name, functools.partial(part.pack, self._column(name, values)))
            for name, part in self.columns.items()
        ]
        return columns_of(tuple(map(type, packed))).joined(packed)

    def examples(self) -> list[Row]:
        """Rows of the examples of each column; without columns, of a word and its tag."""
        if not self.config.columns:
            return [{"word": word, "tag": tag} for word, tag in zip(["run", "ran", "sit", "sat"], "abab", strict=True)]
        listed = {name: part.examples() for name, part in self.columns.items()}
        count = max(map(len, listed.values()))
        return [{name: own[row % len(own)] for name, own in listed.items()} for row in range(count)]

    def features(self, batch: Tensors, *, grams: int = 4) -> SparseRows:
        """The features of all columns side by side, each divided by how far apart training inputs are in its column."""
        assert isinstance(batch, Columns)
        parts = zip(self.columns.values(), batch.parts, self._scales, strict=True)
        return side_by_side([scaled(compared(part, own, grams), scale) for part, own, scale in parts])

    def properties(self, value: Row) -> dict[str, Any]:
        """The text of each column under its name, and the properties of each as `COLUMN.PROPERTY`."""
        texts = {name: part.format(value[name]) for name, part in self.columns.items()}
        each = ((name, part.properties(value[name])) for name, part in self.columns.items())
        return texts | {f"{name}.{own}": found for name, known in each for own, found in known.items()}

    def defaults(self, pairs: int) -> dict[str, Any]:
        """The network of each column, joined; a Gaussian kernel, with the longest runs of tokens of any column."""
        own = {name: part.defaults(pairs) for name, part in self.columns.items()}
        grams = [found["kernel"]["grams"] for found in own.values() if "grams" in found.get("kernel", {})]
        networks = {name: found["backbone"] for name, found in own.items() if "backbone" in found}
        kernel = {"kernel": "gaussian", **({"grams": max(grams)} if grams else {})}
        return {"backbone": {"name": "columns", "width": 128, "columns": networks}, "kernel": kernel}

    def augment(self, batch: Tensors, generator: Generator) -> Tensors:
        """A view of each column."""
        assert isinstance(batch, Columns)
        parts = zip(self.columns.values(), batch.parts, strict=True)
        return type(batch).joined([part.augment(own, generator) for part, own in parts])

    def sizes(self, batch: Tensors) -> Tensor | None:
        """The sum of the lengths in all columns."""
        assert isinstance(batch, Columns)
        found = [part.sizes(own) for part, own in zip(self.columns.values(), batch.parts, strict=True)]
        known = [sizes for sizes in found if sizes is not None]
        return torch.stack([sizes.long() for sizes in known]).sum(dim=0) if known else None

    def unlike_training(self, values: Sequence[Row]) -> list[str]:
        """The first column that is unlike the training, with its reason."""
        found = [""] * len(values)
        for name, part in self.columns.items():
            reasons = part.unlike_training(self._column(name, values))
            found = [old or (f"column '{name}': {new}" if new else "") for old, new in zip(found, reasons, strict=True)]
        return found

    def read_beside(self, file: str) -> None:
        """Tell every column."""
        for part in self.columns.values():
            part.read_beside(file)

    def contents(self, values: Sequence[Row]) -> str:
        """A hash of what all columns read besides their texts."""
        found = [part.contents(self._column(name, values)) for name, part in self.columns.items()]
        return hashlib.sha256(" ".join(found).encode()).hexdigest() if any(found) else ""

    def render(self, value: Row) -> Drawing:
        """The drawings of all columns as text, and the first picture among them."""
        found = {name: part.render(value[name]) for name, part in self.columns.items()}
        pictures = [drawing for drawing in found.values() if drawing.svg]
        text = "; ".join(f"{name}: {drawing.text}" for name, drawing in found.items())
        return dataclasses.replace(pictures[0], text=text) if pictures else Drawing(text)

    def save(self, folder: Path) -> None:
        """Write `columns.json`, and the files of each column, whose names begin with its number."""
        state = {"columns": list(self.columns), "scales": self._scales}
        (folder / _FILE).write_text(json.dumps(state, ensure_ascii=False), encoding="utf-8")
        for place, part in enumerate(self.columns.values()):
            with tempfile.TemporaryDirectory() as own:
                part.save(Path(own))
                for written in Path(own).iterdir():
                    shutil.copyfile(written, folder / f"column-{place}-{written.name}")

    def load(self, folder: Path) -> None:
        """Read what `save` wrote."""
        state = read_json(file := folder / _FILE)
        try:
            names, scales = [str(name) for name in state["columns"]], [float(scale) for scale in state["scales"]]
        except (KeyError, TypeError, ValueError) as error:
            raise damaged(f"the columns cannot be read: {brief(error)}.", file) from error
        if not self.config.columns:
            self._name(dict.fromkeys(names, Choice(name=NO_NAME)))
        positive = all(math.isfinite(scale) and scale > 0 for scale in scales)
        if names != list(self.columns) or len(scales) != len(names) or not positive:
            raise damaged("these are not the columns of the configuration.", file)
        for place, part in enumerate(self.columns.values()):
            with tempfile.TemporaryDirectory() as own:
                for written in folder.glob(f"column-{place}-*"):
                    shutil.copyfile(written, Path(own) / written.name.removeprefix(f"column-{place}-"))
                part.load(Path(own))
        self._scales = scales

    def _name(self, choices: Mapping[str, Choice]) -> None:
        self.columns = {
            name: create_part(self, "input", choice, path=f"input.columns.{name}") for name, choice in choices.items()
        }

    def _column(self, name: str, values: Sequence[Row]) -> list[Any]:
        """The values of one column; a row without it raises with its position."""
        return [value_of(row, name, index) for index, row in enumerate(values)]

    def _of(self, name: str, function: Callable[[], Result]) -> Result:
        """What a function of one column returns; its errors name the column."""
        try:
            return function()
        except InvalidInput as error:
            error.what = f"column '{name}': {error.what}"
            raise


_FILE = "columns.json"


def as_cells(text: str) -> Row:
    """A JSON object of values."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not found:
        what = f"{brief(text, 60)!r} is not a JSON object with a value for each column."
        raise InvalidInput(what, fix='Write it as {"word": "run", "tag": "verb"}.')
    return found


def value_of(row: Any, name: str, index: int) -> Any:
    """The value of a column in a row."""
    if not isinstance(row, Mapping):
        fix = "Give mappings from the names of columns to values."
        raise InvalidInput(f"got {type(row).__name__}, not the values of columns.", index=index, fix=fix)
    if row.get(name) is None:
        what = f"column '{name}': {'the cell has no value' if name in row else 'it is missing'}."
        raise InvalidInput(what, index=index)
    return row[name]


def is_text(part: InputSpace[Any]) -> bool:
    """Whether a column has tokens with names."""
    return issubclass(part.Batch, Texts) and hasattr(part, "names")


def compared(part: InputSpace[Any], batch: Tensors, grams: int = 4) -> SparseRows:
    """The features of a column; of norm 1 if its own kernel compares directions, as that of texts does."""
    found = part.features(batch, grams=grams)
    return found.normalised() if part.defaults(MEASURED).get("kernel", {}).get("kernel") == "cosine" else found


def spread(rows: SparseRows) -> float:
    """The root of the mean squared distance between two of the rows; 0 if all are equal."""
    keys, place = rows.keys.unique(return_inverse=True)
    centre = torch.zeros(len(keys), dtype=torch.float64).index_add_(0, place, rows.values.double()) / len(rows)
    squared = 2 * (rows.double().squares.mean() - centre.square().sum()).item()
    return math.sqrt(squared) if squared > 1e-9 else 0.0


def scaled(rows: SparseRows, scale: float) -> SparseRows:
    """The rows times a number."""
    return SparseRows(rows.keys, rows.values * scale, rows.offsets)


def side_by_side(parts: Sequence[SparseRows]) -> SparseRows:
    """Row i of all parts as one row; equal keys of different parts differ."""
    rows = torch.cat([part.rows for part in parts])
    order = rows.argsort(stable=True)
    keys = torch.cat([mix(part.keys + (place << 48)) for place, part in enumerate(parts)])
    offsets = torch.stack([part.offsets for part in parts]).sum(dim=0)
    return SparseRows(keys[order], torch.cat([part.values for part in parts])[order], offsets)
