"""Constraints: mappings or objects, columns of a file, parts of the truth, and those that follow from inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from ele_core.config.resolve import NONE, explain
from ele_core.errors import ConfigError, DataError, InvalidInput, PluginError, counted
from ele_core.files.columns import Table, cell_text
from ele_core.interfaces import InputSpace, OutputSpace
from ele_core.optional import Rules
from ele_core.plugins.contained import blamed

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
    fixed, columns = fixed_and_taken(values)
    cells = {name: cells_of(table, column) for name, column in columns.items()}

    def read(row: int, own: Mapping[str, str]) -> Any | None:
        line = row + 1 if table.lines is None else table.lines[row]
        return read_constraint(space, {**fixed, **own}, f"{table.file}, line {line}" if own else "--constraint")

    rows = [{name: column[row] for name, column in cells.items()} for row in range(len(table))]
    return each_once(rows, read)


def implied(
    options: Mapping[str, Any], space: Space, inputs: InputSpace[Any], values: Sequence[Any]
) -> list[Any] | None:
    """Return the constraint that follows from each input, by options NAME=VALUE and NAME=@PROPERTY; None without any.

    Nothing follows from a property that is None. Raise `InvalidInput` if it has a value that is no such constraint.
    """
    asked = {name: value for name, value in options.items() if value != NONE}
    if not asked:
        return None
    require_names(space, asked)
    fixed, properties = fixed_and_taken(asked)
    read_constraint(space, fixed)

    def read(row: int, own: Mapping[str, Any]) -> Any | None:
        try:
            return read_constraint(space, {**fixed, **own})
        except ConfigError as error:
            raise InvalidInput(f"no constraint follows from it: {error.what}", index=row) from None

    return each_once([taken(properties, inputs, value) for value in values], read)


def taken(properties: Mapping[str, str], inputs: InputSpace[Any], value: Any) -> dict[str, Any]:
    """Name of a constraint → the property of an input that it is taken from."""
    if not properties:
        return {}
    with blamed():
        known = inputs.properties(value)
        if not isinstance(known, Mapping):
            what = f"`properties` of {type(inputs).__name__} gives {type(known).__name__}, not a mapping."
            raise PluginError(what, where=WHERE, fix="This is a mistake in the plugin: tell its authors.")
    for name, own in properties.items():
        if own not in known:
            has = f"they have {', '.join(known)}" if known else "they have none"
            raise ConfigError(f"these inputs have no property {own!r}: {has}.", where=f"{WHERE}.{name}")
    return {name: known[own] for name, own in properties.items()}


def fixed_and_taken(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Divide options into values, and the names after an `@`: of a column, or of a property of the input."""
    named = {name: value[1:] for name, value in options.items() if isinstance(value, str) and value.startswith("@")}
    return {name: value for name, value in options.items() if name not in named}, named


def each_once(
    rows: Sequence[Mapping[str, Any]], read: Callable[[int, Mapping[str, Any]], Any | None]
) -> list[Any | None]:
    """Read the constraint of each row, of equal ones once; values that are missing are left out."""
    known: dict[tuple[tuple[str, str], ...], Any] = {}
    found = []
    for row, values in enumerate(rows):
        own = {name: value for name, value in values.items() if not is_missing(value)}
        same = tuple((name, repr(value)) for name, value in own.items())
        if same not in known:
            known[same] = read(row, own)
        found.append(known[same])
    return found


def is_missing(value: Any) -> bool:
    """Whether nothing follows from a cell or a property."""
    return value is None or str(value).strip().lower() in MISSING


def combined(first: Sequence[Any | None] | None, then: Sequence[Any | None] | None) -> list[Any | None] | None:
    """Return both constraints of each input as one; where both have a name, the value of `then` counts."""
    if first is None or then is None:
        both = first if then is None else then
        return None if both is None else list(both)
    return [both_of(*each) for each in zip(first, then, strict=True)]


def both_of(first: Any | None, then: Any | None) -> Any | None:
    """Return two constraints as one."""
    if first is None or then is None:
        return first if then is None else then
    values = {**first.model_dump(exclude_unset=True), **then.model_dump(exclude_unset=True)}
    return type(then).model_validate(values)


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
