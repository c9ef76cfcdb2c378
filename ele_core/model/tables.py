"""The tables that `ele predict` and `ele neighbours` write."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ele_core.data.objects import Objects
from ele_core.errors import DataError
from ele_core.files.binary_tables import as_parquet, pyarrow
from ele_core.files.columns import Cell, Table, Unreadable, as_text, cell_text
from ele_core.files.tables import JSONL, as_csv, suffix_of
from ele_core.model.neighbours import Found
from ele_core.model.results import COLUMNS, CONFIDENCE, EXPECTED, SET_SIZE, Predictions

PARQUET = (".parquet", ".pq")
UNWRITTEN = (".npy", ".npz", ".arrow", ".feather", ".xlsx", ".xls", ".ods", ".pkl", ".pickle", ".mat", ".h5", ".hdf5")
WRITTEN = "Choose .csv, .tsv, .jsonl or .parquet."
NEIGHBOURS = ("object_row", "object", "rank", "neighbour", "neighbour_row", "distance", "status")
"""The columns of a table of neighbours."""


def is_folder(target: str) -> bool:
    """Whether a table is to be written in parts, into a folder."""
    return target.endswith("/") or (bool(target) and Path(target).is_dir())


def check_target(target: str, source: str) -> None:
    """Refuse a file that cannot be written, or that would replace the inputs, before anything is computed."""
    suffix = suffix_of(target)
    if Path(target).is_file() and Path(source).is_file() and Path(target).samefile(source):
        raise DataError("what is written would replace the inputs.", where=target, fix="Choose another file with -o.")
    if suffix in UNWRITTEN or Path(target).suffix == ".gz":
        raise DataError(f"predictions are not written as {Path(target).suffix}.", where=target, fix=WRITTEN)
    if suffix in PARQUET:
        pyarrow(target)


def as_numbers(target: str, *, as_json: bool) -> bool:
    """Whether the file `target` holds numbers as numbers, not as texts."""
    return as_json or suffix_of(target) in (*PARQUET, *JSONL)


def contents(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], target: str, *, as_json: bool, header: bool = True
) -> bytes:
    """The contents of the file `target`: Parquet, JSON lines, TSV or CSV, by its suffix, or a part of them."""
    suffix = suffix_of(target)
    if suffix in PARQUET:
        return as_parquet(rows, columns, target)
    if as_json or suffix in JSONL:
        return "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows).encode()
    texts = [{name: "" if value is None else as_text(value) for name, value in row.items()} for row in rows]
    return as_csv(texts, columns, "\t" if suffix == ".tsv" else ",", header=header).encode()


def type_of(column: str) -> str:
    """The type of a column of predictions in a Parquet file."""
    if column in ("energy", CONFIDENCE) or column.startswith(EXPECTED):
        return "double"
    return "int64" if column == SET_SIZE else "string"


@dataclasses.dataclass(frozen=True)
class PredictionTable:
    """The columns of the input file, then those of the predictions."""

    table: Table
    places: Sequence[int]
    """The columns of the inputs."""
    first: int = 0
    """The number of rows of the file before those of the table."""
    only_new: bool = False
    """Whether the columns of the file are left out."""
    several: tuple[str, ...] = ()
    """The columns of the inputs by name, if each is read by itself."""

    @property
    def cells(self) -> Sequence[Cell]:
        """The inputs."""
        return self.table.read([self.several])[0] if self.several else self.table.cells(self.places)

    @property
    def kept(self) -> list[str]:
        """The columns before those of the predictions: all of the file; the number of the row if it is an array."""
        if self.only_new:
            return []
        if self.table.names:
            return list(self.table.names)
        return ["row"] if getattr(self.table.columns[0], "ndim", 1) > 1 else []

    def names(self, columns: Sequence[str] = COLUMNS) -> dict[str, str]:
        """The columns of the predictions → their names in the file that is written, different from the names kept.

        There is no column `input` if there is one already, or if the inputs are vectors or several columns.
        """
        chosen = [self.table.names[place] for place in self.places if self.table.names]
        vectors = getattr(self.table.columns[self.places[0]], "ndim", 1) > 1
        without = (chosen == ["input"] and not self.only_new) or len(chosen) > 1 or vectors
        taken, found = set(self.kept), {}
        for name in columns[1:] if without else columns:
            number = 2
            found[name] = name
            while found[name] in taken:
                found[name], number = f"{name}_{number}", number + 1
            taken.add(found[name])
        return found

    def renamed(self, predictions: Predictions) -> str:
        """A line on the columns of the predictions that got another name; empty if there are none."""
        names = self.names(predictions.columns)
        changed = [f"'{name}' is written as '{new}'" for name, new in names.items() if name != new]
        return f"the file has columns of the same name: {', '.join(changed)}" if changed else ""

    def rows(self, predictions: Predictions, form: Callable[[str, Any], Any], *, skip: bool) -> list[dict[str, Any]]:
        """One mapping per structure, its cells in a `form`; with `skip` without the inputs that could not be used."""
        names = self.names(predictions.columns)
        return [
            {**self.own(place), **{names[name]: form(name, value) for name, value in row.items() if name in names}}
            for place, row in predictions.numbered_rows(cell_text)
            if not (skip and place in predictions.refused)
        ]

    def own(self, row: int) -> dict[str, Any]:
        """A row of the file as it was read; a malformed one as its text, in the first column."""
        if not self.table.names or self.only_new:
            return dict.fromkeys(self.kept, self.first + row + 1)
        values = [self.table.columns[place][row] for place in range(len(self.kept))]
        plain = [value.tolist() if hasattr(value, "tolist") else value for value in values]
        if all(isinstance(value, Unreadable) for value in plain):
            plain = [str(plain[0]), *[""] * (len(plain) - 1)]
        return dict(zip(self.kept, plain, strict=True))


@dataclasses.dataclass(frozen=True)
class NeighbourTable:
    """The neighbours of the objects in `cells`."""

    cells: Sequence[Cell]
    objects: Objects
    found: Found

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield a mapping per neighbour, and one for each object that could not be used."""
        place = {row: at for at, row in enumerate(self.objects.rows)}
        refused = {each.row: each.reason for each in self.objects.rejected}
        texts = iter(self.found.texts)
        distances, rows = self.found.distances.tolist(), self.found.rows.tolist()
        for row, cell in enumerate(self.cells):
            own = {"object_row": row + 1, "object": cell_text(cell)}
            if row in refused:
                yield {**own, **dict.fromkeys(NEIGHBOURS[2:-1]), "status": refused[row]}
                continue
            at = place[row]
            for rank, (distance, other) in enumerate(zip(distances[at], rows[at], strict=True), start=1):
                found = {"rank": rank, "neighbour": next(texts), "neighbour_row": other + 1}
                yield {**own, **found, "distance": float(f"{distance:.6g}"), "status": "ok"}

    def written(self, target: str, *, as_json: bool = False) -> bytes:
        """Return the contents of the file `target`: JSON lines, Parquet, TSV or CSV, by its suffix."""
        return contents(list(self.lines()), NEIGHBOURS, target, as_json=as_json)
