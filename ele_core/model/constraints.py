"""Constraints as users give them: mappings or objects, texts with columns of a file, or parts of the truth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from ele_core.config.resolve import explain
from ele_core.errors import ConfigError, DataError, counted
from ele_core.files.columns import Table, cell_text
from ele_core.interfaces import OutputSpace
from ele_core.optional import Rules

Space = OutputSpace[Any, Any]
Given = Mapping[str, Any] | BaseModel
"""A constraint as a mapping of names to values, such as `{"formula": "C9H8O4"}`, or as `Rules.Constraint`."""

WHERE = "constraints"
MISSING = ("", "nan")
"""The texts of cells without a value."""


def read_constraints(space: Space, given: Given | Iterable[Given | None] | None, inputs: int) -> list[Any] | None:
    """Return one constraint or None for each input; `given` is one for all inputs, or one for each."""
    if given is None:
        return None
    if isinstance(given, Mapping | BaseModel):
        return [read_constraint(space, given)] * inputs
    listed = list(given)
    if len(listed) != inputs:
        what = f"{counted(len(listed), 'constraint')} for {counted(inputs, 'input')}."
        raise DataError(what, where=WHERE, fix="Give one for all inputs, or one for each; None: no constraint.")
    return [read_constraint(space, each, f"{WHERE}[{place}]") for place, each in enumerate(listed)]


def read_constraint(space: Space, given: Given | None, where: str = WHERE) -> Any | None:
    """Return a constraint of this space; None if nothing is given. Raise `ConfigError` if it is not one."""
    if given is None:
        return None
    kind = rules_of(space, where).Constraint
    if isinstance(given, kind):
        return given
    if not isinstance(given, Mapping):
        raise ConfigError(f"expected a mapping or a {kind.__name__}, not {type(given).__name__}.", where=where)
    values = {name: value for name, value in given.items() if value is not None}
    require_names(space, values, where)
    try:
        return kind.model_validate(values) if values else None
    except ValidationError as error:
        raise ConfigError("; ".join(explain(error.errors(), values, "")) + ".", where=where) from None


def from_options(space: Space, options: Sequence[str], table: Table) -> list[Any] | None:
    """Return the constraint of each row of a table, from options NAME=VALUE and NAME=@COLUMN; None without options.

    An empty cell of a column is no constraint.
    """
    if not options:
        return None
    values = dict(map(name_and_value, options))
    require_names(space, values, "--constraint")
    fixed = {name: value for name, value in values.items() if not value.startswith("@")}
    columns = {name: cells_of(table, value[1:]) for name, value in values.items() if value.startswith("@")}
    known: dict[tuple[tuple[str, str], ...], Any] = {}
    found = []
    for row in range(len(table)):
        own = {name: cells[row] for name, cells in columns.items() if cells[row].strip().lower() not in MISSING}
        same = tuple(own.items())
        if same not in known:
            line = row + 1 if table.lines is None else table.lines[row]
            known[same] = read_constraint(
                space, {**fixed, **own}, f"{table.file}, line {line}" if own else "--constraint"
            )
        found.append(known[same])
    return found


def from_truths(space: Space, truths: Any, names: Sequence[str]) -> list[Any] | None:
    """Return the constraint of these names that each truth satisfies; None without names."""
    if not names:
        return None
    require_given(space, names)
    return rules_of(space, "given").of(truths, names)


def require_given(space: Space, names: Sequence[str]) -> None:
    """Raise `ConfigError` if the space cannot compute the constraints of these names from a structure."""
    if not names:
        return
    require_names(space, names, "given")
    try:
        rules_of(space, "given").of(space.pack(space.examples()[:1]), names)
    except KeyError:
        what = f"{' and '.join(names)}: cannot be computed from a structure."
        raise ConfigError(what, where="given", fix="Give a constraint that a structure has only one of.") from None


def require_names(space: Space, names: Iterable[str], where: str = WHERE) -> None:
    """Raise `ConfigError` if the space has no constraint of one of these names."""
    known = rules_of(space, where).Constraint.model_fields
    for name in names:
        if name not in known:
            raise ConfigError(f"there is no constraint {name!r}: these outputs have {', '.join(known)}.", where=where)


def rules_of(space: Space, where: str) -> Rules[Any]:
    """Return the rules of a space. Raise `ConfigError` if it has none."""
    rules = space.rules
    if rules is None:
        raise ConfigError("these outputs have no constraints.", where=where, fix="Predict without constraints.")
    return rules


def name_and_value(option: str) -> tuple[str, str]:
    """Split NAME=VALUE."""
    name, equals, value = option.partition("=")
    if not (name and equals and value):
        fix = "Write NAME=VALUE, or NAME=@COLUMN for a column of the file."
        raise ConfigError(f"{option!r} is not a constraint.", where="--constraint", fix=fix)
    return name, value


def cells_of(table: Table, column: str) -> list[str]:
    """The cells of a column as texts."""
    if not table.names:
        fix = "Give the value itself, or use .csv or .jsonl."
        raise DataError("this file has no named columns.", where=table.file, fix=fix)
    return list(map(cell_text, table.cells(table.places([column])[0])))
