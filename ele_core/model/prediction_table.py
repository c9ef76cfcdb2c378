"""Predictions beside the rows that they are for, as a table to write."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ele_core.errors import DataError
from ele_core.files.binary_tables import as_parquet, pyarrow
from ele_core.files.columns import Table, Unreadable, as_text, cell_text
from ele_core.files.tables import JSONL, as_csv, suffix_of
from ele_core.model.results import COLUMNS, Predictions, rounded, written

PARQUET = (".parquet", ".pq")
UNWRITTEN = (".npy", ".npz", ".arrow", ".feather", ".xlsx", ".xls", ".ods", ".pkl", ".pickle", ".mat", ".h5", ".hdf5")


@dataclasses.dataclass(frozen=True)
class PredictionTable:
    """The columns of the input file, then those of the predictions."""

    table: Table
    places: Sequence[int]
    """The columns of the inputs."""

    @property
    def kept(self) -> list[str]:
        """The columns before those of the predictions: all of the file; the number of the row if it is an array."""
        if self.table.names:
            return list(self.table.names)
        return ["row"] if getattr(self.table.columns[0], "ndim", 1) > 1 else []

    def names(self, columns: Sequence[str] = COLUMNS) -> dict[str, str]:
        """The columns of the predictions → their names in the file that is written, different from the names kept.

        There is no column `input` if there is one already, or if the inputs are vectors or several columns.
        """
        chosen = [self.table.names[place] for place in self.places if self.table.names]
        vectors = getattr(self.table.columns[self.places[0]], "ndim", 1) > 1
        without = chosen == ["input"] or len(chosen) > 1 or vectors
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
        if not self.table.names:
            return dict.fromkeys(self.kept, row + 1)
        values = [self.table.columns[place][row] for place in range(len(self.kept))]
        plain = [value.tolist() if hasattr(value, "tolist") else value for value in values]
        if all(isinstance(value, Unreadable) for value in plain):
            plain = [str(plain[0]), *[""] * (len(plain) - 1)]
        return dict(zip(self.kept, plain, strict=True))

    def columns(self, predictions: Predictions) -> list[str]:
        """All columns that are written."""
        return [*self.kept, *self.names(predictions.columns).values()]

    def written(self, predictions: Predictions, target: str, *, skip: bool, as_json: bool = False) -> bytes:
        """The contents of the file `target`: JSON lines, Parquet, TSV or CSV, by its suffix."""
        suffix = suffix_of(target)
        if suffix in PARQUET:
            return as_parquet(self.rows(predictions, rounded, skip=skip), self.columns(predictions), target)
        if suffix in JSONL or as_json:
            rows = self.rows(predictions, rounded, skip=skip)
            return "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows).encode()
        texts = [
            {name: "" if value is None else as_text(value) for name, value in row.items()}
            for row in self.rows(predictions, written, skip=skip)
        ]
        return as_csv(texts, self.columns(predictions), "\t" if suffix == ".tsv" else ",").encode()


def check_target(target: str) -> None:
    """Refuse a file that cannot be written, before anything is computed."""
    suffix = suffix_of(target)
    if suffix in UNWRITTEN or Path(target).suffix == ".gz":
        raise DataError(f"predictions are not written as {Path(target).suffix}.", where=target, fix=WRITTEN)
    if suffix in PARQUET:
        pyarrow(target)


WRITTEN = "Choose .csv, .tsv, .jsonl or .parquet."
