"""The columns of a table: which are asked for, and their cells as texts or as vectors."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeAlias

from ele_core.errors import DataError, closest
from ele_core.numerics.sparse_vectors import SparseVector

if TYPE_CHECKING:
    import numpy.typing as npt

FIRST, LAST = 0, -1
"""Columns by their position."""
Column: TypeAlias = "str | int | tuple[str, ...]"
"""What to read as one: a name, a range (`b0:b9`) or a list (`a,b`) of names, joined into a vector; a position (`FIRST`,
`LAST`); or a tuple of names, ranges and lists, each read by itself."""
Wanted = Sequence[Column]
"""What to read."""
Keep = Callable[[Sequence[str]], Collection[int]]
"""Says which columns of a header are read, by their positions."""


class Unreadable(str):
    """The text of a malformed row, with the `reason` why it cannot be used."""

    reason: str

    @classmethod
    def row(cls, text: str, reason: str) -> Self:
        """Mark the text of a row as unreadable, with the reason."""
        self = cls(text)
        self.reason = reason
        return self


Cell: TypeAlias = "str | npt.NDArray[Any] | Mapping[str, Any]"
"""What a space reads: a text, a vector of numbers (D,), or the cells of several columns by name."""


@dataclasses.dataclass(frozen=True)
class Table:
    """Columns of a file, by their position. Each has one value per row, such as a text, a number or a vector."""

    file: str
    names: Sequence[str]
    """The names of all columns; empty if the columns of this format have no names."""
    columns: dict[int, Sequence[Any]]
    """The columns that were read."""
    lines: Sequence[int] | None = None
    """The line of the file, counted from 1, at which each row begins; None: the format has no lines."""
    digest: str = ""
    """The SHA-256 of the file's contents."""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def places(self, wanted: Wanted) -> list[list[int]]:
        """The positions of each of the columns asked for."""
        return find_columns(wanted, self.names, self.file) if self.names else [[0] for _ in wanted]

    def cells(self, places: Sequence[int]) -> Sequence[Cell]:
        """One column as cells, or several joined: numbers into vectors, anything else into texts, with spaces."""
        chosen = [self.columns[place] for place in places]
        if len(chosen) == 1:
            return as_cells(chosen[0])
        if all(is_numeric(column) for column in chosen):
            import numpy as np

            vectors: Any = np.column_stack([np.asarray(column) for column in chosen])
            return vectors  # type: ignore[no-any-return]  # its rows are the cells
        names = [self.names[place] for place in places]
        return [joined(cells, names) for cells in zip(*map(as_cells, chosen), strict=True)]

    def read(self, wanted: Wanted) -> list[Sequence[Cell]]:
        """The cells of all that is asked for."""
        return [
            self.side_by_side(column) if isinstance(column, tuple) and self.names else self.cells(places)
            for column, places in zip(wanted, self.places(wanted), strict=True)
        ]

    def side_by_side(self, columns: Sequence[str]) -> Sequence[Cell]:
        """The cells of several columns by name, one mapping per row; a row with a cell that is missing is unreadable.

        A file whose columns have no names holds such mappings as JSON.
        """
        parts = [self.cells(find_places(name, self.names, self.file)) for name in columns]
        return [beside(cells, columns) for cells in zip(*parts, strict=True)]


def is_numeric(column: Sequence[Any]) -> bool:
    """Whether a column is an array of numbers, (N,) or (N, D)."""
    return getattr(getattr(column, "dtype", None), "kind", "") in "fiub" and getattr(column, "ndim", 0) in (1, 2)


def as_cells(column: Sequence[Any]) -> Sequence[Cell]:
    """A column as texts, or as it is if it holds vectors."""
    if getattr(column, "ndim", 1) > 1:
        return column
    values = column.tolist() if hasattr(column, "tolist") else column
    return values if all(isinstance(value, str) for value in values) else [as_text(value) for value in values]


def as_text(value: Any) -> str:
    """A value as the text of a cell: texts as they are, numbers, lists and mappings as JSON.

    No value is unreadable, and an exception is the reason why a cell is.
    """
    if isinstance(value, str):
        return value
    if value is None:
        return Unreadable.row("", "the cell has no value.")
    if isinstance(value, Exception):
        return Unreadable.row("", str(value))
    return json.dumps(value, default=str) if isinstance(value, bool | int | float | list | dict) else str(value)


def cell_text(cell: Cell) -> str:
    """A cell as text: the numbers of a vector with spaces between them, of a sparse one those that are not zero.

    Of a picture only the shape. Cells of several columns are a JSON object of texts.
    """
    if isinstance(cell, str | SparseVector):
        return str(cell)
    if isinstance(cell, Mapping):
        return json.dumps({name: cell_text(own) for name, own in cell.items()}, ensure_ascii=False)
    return " ".join(map(str, cell.tolist())) if cell.ndim == 1 else f"array of {' × '.join(map(str, cell.shape))}"


def joined(cells: Sequence[Any], names: Sequence[str]) -> str:
    """The cells of one row with spaces between them; unreadable if one is empty or unreadable."""
    for cell, name in zip(cells, names, strict=True):
        if isinstance(cell, Unreadable):
            return cell
        if isinstance(cell, str) and not cell.strip():
            return Unreadable.row(" ".join(map(str, cells)), f"the column '{name}' is empty.")
    return " ".join(map(cell_text, cells))


def beside(cells: Sequence[Cell], names: Sequence[str]) -> Cell:
    """The cells of one row by name; unreadable if one is empty or unreadable."""
    if all(isinstance(cell, Unreadable) for cell in cells):
        return cells[0]
    row = dict(zip(names, cells, strict=True))
    for name, cell in row.items():
        if isinstance(cell, Unreadable):
            return Unreadable.row(cell_text(row), f"column '{name}': {cell.reason}")
        if isinstance(cell, str) and not cell.strip():
            return Unreadable.row(cell_text(row), f"column '{name}': the cell is empty.")
    return row


# -- finding columns ----------------------------------------------------------------------------------------------


def find_columns(wanted: Wanted, header: Sequence[str], file: str) -> list[list[int]]:
    """The positions of columns; `FIRST` and `LAST` count only columns that are not asked for by name."""
    named = {name: find_all(name, header, file) for name in wanted if not isinstance(name, int)}
    taken = {place for places in named.values() for place in places}
    others = [place for place in range(len(header)) if place not in taken] or list(range(len(header)))
    return [[others[name]] if isinstance(name, int) else named[name] for name in wanted]


def named_or(column: str | tuple[str, ...] | None, place: int) -> Column:
    """The column, or the one at `place` if none is named; the empty name is that of an index that pandas wrote."""
    return place if column is None or column == () else column


def find_all(names: str | tuple[str, ...], header: Sequence[str], file: str) -> list[int]:
    """The positions of a name, or of several."""
    listed = (names,) if isinstance(names, str) else names
    if twice := next((name for place, name in enumerate(listed) if name in listed[:place]), None):
        raise DataError(f"the column '{twice}' is given twice.", where=file, fix="Name each column once.")
    return [place for name in listed for place in find_places(name, header, file)]


def find_places(name: str, header: Sequence[str], file: str) -> list[int]:
    """The position of a column, or the positions of a range (`b0:b9`, by position) or a list (`a,b`) of columns."""
    if name in header:
        if header.count(name) > 1:
            raise DataError(f"{header.count(name)} columns are called '{name}'.", where=file, fix="Rename all but one.")
        return [header.index(name)]
    if "," in name:
        return [place for part in name.split(",") for place in find_places(part.strip(), header, file)]
    first, colon, last = name.partition(":")
    if not colon:
        unknown_column(name, header, file)
    ends = [find_places(end.strip(), header, file)[0] for end in (first, last)]
    if ends[0] > ends[1]:
        raise DataError(f"'{name}': the column '{last.strip()}' comes before '{first.strip()}'.", where=file)
    return list(range(ends[0], ends[1] + 1))


def unknown_column(name: str, header: Sequence[str], file: str) -> NoReturn:
    """Raise the error for an unknown name, which suggests the nearest one and lists them."""
    listed = ", ".join(header[:SHOWN]) + (f", … ({len(header):,} in all)" if len(header) > SHOWN else "")
    raise DataError(f"no column is called '{name}'{closest(name, header)} Columns: {listed}.", where=file)


SHOWN = 30
"""Maximum number of columns that a message lists."""


def keep(wanted: Wanted | None, file: str) -> Keep:
    """Says which columns to read: those asked for, all if `wanted` is None."""
    if wanted is None:
        return all_columns
    return lambda header: {place for places in find_columns(wanted, header, file) for place in places}


def all_columns(header: Sequence[str]) -> Collection[int]:
    """Every column is read."""
    return range(len(header))


def describe_columns(table: Table, wanted: Wanted) -> str:
    """Say which columns are inputs and outputs, which of them were guessed, and how many others there are."""
    if not table.names:
        return ""
    places = table.places(wanted)
    said = [
        f"columns {', '.join(repr(name) for name in column)}"
        if isinstance(column, tuple)
        else named_columns(each, table.names)
        for column, each in zip(wanted, places, strict=True)
    ]
    guesses = [guessed(column, each[0], len(table.names)) for column, each in zip(wanted, places, strict=True)]
    unused = len(table.names) - len({place for each in places for place in each})
    others = f"; {unused:,} {'other is' if unused == 1 else 'others are'} not used" if unused else ""
    if unused and "" not in guesses:
        others += " (choose with --input and --output)"
    if said[0] == said[1]:
        return f"input and output: {said[0]}{others}"
    return f"input: {said[0]}{guesses[0]}; output: {said[1]}{guesses[1]}{others}"


IDENTIFIERS = re.compile(
    r"|unnamed: 0|#|(.*[\s_.-])?(ids?|index|idx|key|uuid|row|nr|no|cas|casrn|cas.?number|inchi.?key)"
)
"""Names of columns that name their rows, in lower case."""


def note_on_identifiers(table: Table, wanted: Wanted) -> str:
    """A warning if the column of inputs was guessed, names its rows, and there is another; else empty."""
    if not table.names or wanted[0] != FIRST:
        return ""
    places = table.places(wanted)
    used, name = {place for each in places for place in each}, table.names[places[0][0]]
    others = [other for place, other in enumerate(table.names) if place not in used]
    if not others or not IDENTIFIERS.fullmatch(name.strip().lower()):
        return ""
    what = f"warning: the column '{name}', which is taken as the input, seems to name its rows"
    return f"{what}. Choose another, as in --input '{others[0]}'"


def named_columns(places: Sequence[int], names: Sequence[str]) -> str:
    """The columns by name: `column 'a'`, or `3 columns, 'a' to 'c'`."""
    if len(places) == 1:
        return f"column '{names[places[0]]}'"
    return f"{len(places):,} columns, '{names[places[0]]}' to '{names[places[-1]]}'"


def guessed(wanted: Column, place: int, count: int) -> str:
    """Say by which rule a column was chosen that was not named."""
    if not isinstance(wanted, int):
        return ""
    if place not in (0, count - 1):
        return f" (the {'first' if wanted == FIRST else 'last'} of the others)"
    return " (the first)" if wanted == FIRST and place == 0 else " (the last)"
