"""The second pass over a configuration: every chosen component checks its own options.

Only a component's `Config` knows its options, which may choose further components in turn. So choices are resolved
from the outside in: each is replaced by the same choice with all its options filled in. Every problem is collected with
its path, and all of them are reported in one error.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticUndefined, to_jsonable_python

from ele_core.component import Component
from ele_core.errors import ConfigError, PluginError
from ele_core.plugins.hookspecs import HOOKS
from ele_core.plugins.registry import Registry
from ele_core.types import Choice, Kind, Takes

Model = TypeVar("Model", bound=BaseModel)

NONE = "none"
"""How None is written in a configuration, where an option allows it: TOML has no null."""


@dataclasses.dataclass(frozen=True)
class Inferred:
    """Marks a choice whose options are inferred from data: options may be missing, and no defaults are filled in."""


@dataclasses.dataclass(frozen=True)
class ByRecipe:
    """Marks a choice that has no default of its own: the recipe of a run supplies it."""


def resolve(
    kind: Kind, choice: Choice | Mapping[str, Any] | str, path: str, registry: Registry
) -> tuple[type[Component], Any]:
    """Return the class that `choice` names and its complete, valid configuration; errors name `path`."""
    table, path = as_table(choice), path or kind
    if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
        raise ConfigError(f"should be a name or a table with a name, not {choice!r}", where=path)
    cls = registry.get(kind, table["name"])
    return cls, validate(cls.Config, _options(table), path, registry)


def validate(
    model: type[Model], given: Mapping[str, Any], path: str, registry: Registry, *, known: Sequence[str] = ()
) -> Model:
    """Make a `model` of `given`, with all choices resolved; `ConfigError` with one line for each problem.

    `known` are problems found already, which are reported with the others. Options that are missing may be missing
    because of these, and are then not reported.
    """
    check = _Check(registry)
    check.problems += known
    partial = bool(known)
    config = check.model(model, given, path, partial)
    if config is None or check.problems:
        raise ConfigError("\n".join(check.problems))
    return config


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge tables key by key; `over` takes precedence, and replaces `base` if it names another component."""
    if isinstance(base.get("name"), str) and isinstance(over.get("name"), str) and base["name"] != over["name"]:
        return dict(over)
    return {**base, **{key: _merge_values(base.get(key), value) for key, value in over.items()}}


def as_table(value: Any) -> Any:
    """Return a bare name, a choice or any model as a table; return anything else unchanged."""
    if isinstance(value, str):
        return {"name": value}
    return value.model_dump() if isinstance(value, BaseModel) else value


@dataclasses.dataclass(frozen=True)
class Shape:
    """What a field of a configuration holds: a choice of a `kind`, a nested table `model`, or else a plain value.

    `each`: a table of choices of this kind, under names of the user's.
    """

    kind: Kind | None
    model: type[BaseModel] | None
    nullable: bool
    inferred: bool
    each: Kind | None = None

    @classmethod
    def of(cls, field: FieldInfo) -> Shape:
        """Read the shape from the annotation, in which choices and tables may be optional."""
        parts = list(union_parts(field.annotation))
        marks = [*field.metadata, *(mark for _, marks in parts for mark in marks)]
        kinds = [mark.kind for mark in marks if isinstance(mark, Takes)]
        types = [part for part, _ in parts]
        models = [part for part in types if isinstance(part, type) and issubclass(part, BaseModel)]
        tables = [union_parts(get_args(part)[1]) for part in types if get_origin(part) is dict]
        inner = [mark.kind for table in tables for _, own in table for mark in own if isinstance(mark, Takes)]
        return cls(
            kind=kinds[0] if kinds else None,
            model=models[0] if len(models) == 1 and models[0] is not Choice else None,
            nullable=NoneType in types,
            inferred=any(isinstance(mark, Inferred) for mark in marks),
            each=inner[0] if inner else None,
        )


def union_parts(annotation: Any, marks: tuple[Any, ...] = ()) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yield the members of a union, or the single type, each with its `Annotated` metadata."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *more = get_args(annotation)
        yield from union_parts(inner, (*marks, *more))
    elif origin in (Union, UnionType):
        for part in get_args(annotation):
            yield from union_parts(part, marks)
    else:
        yield annotation, marks


class _Check:
    """One pass through a configuration that collects every problem."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.problems: list[str] = []

    def model(self, model: type[Model], given: Mapping[str, Any], path: str, partial: bool) -> Model | None:
        return self._parse(model, self._fill(model, given, path, partial), path, partial)

    def _parse(self, model: type[Model], values: Mapping[str, Any], path: str, partial: bool) -> Model | None:
        try:
            return model.model_validate(values)
        except ValidationError as error:
            details = [each for each in error.errors() if not (partial and each["type"] == "missing")]
            self.problems += explain(details, values, path)
            return None

    def _fill(self, model: type[BaseModel], given: Mapping[str, Any], path: str, partial: bool) -> dict[str, Any]:
        fields = model.model_fields
        values = {key: value for key, value in given.items() if key not in fields}
        if model.model_config.get("extra") != "allow":
            inside = {key: self._inside(model, given, key, path) for key in values}
            self.problems += [
                f"{_join(path, key)}: {unknown_option(str(key), list(fields), inside[key])}" for key in values
            ]
            values = {}
        for name, field in fields.items():
            value = self._fill_field(field, given.get(name, PydanticUndefined), _join(path, name), partial)
            if value is not PydanticUndefined:
                values[name] = value
        return values

    def _inside(self, model: type[BaseModel], given: Mapping[str, Any], key: str, path: str) -> str:
        """Return the path of the option `key` in a component or table inside `model`, down to the value; or empty."""
        for name, field in model.model_fields.items():
            shape = Shape.of(field)
            value = as_table(
                over_default(field.get_default(call_default_factory=True), given.get(name, PydanticUndefined))
            )
            inner = shape.model
            if shape.kind is not None and isinstance(value, Mapping) and isinstance(value.get("name"), str):
                with contextlib.suppress(PluginError):
                    inner = self.registry.get(shape.kind, value["name"]).Config
            if inner is not None and key in inner.model_fields:
                below, rest = [name, key], given[key]
                while isinstance(rest, Mapping) and len(rest) == 1:
                    ((deeper, rest),) = rest.items()
                    below.append(str(deeper))
                return ".".join([path, *below] if path else below)
        return ""

    def _fill_field(self, field: FieldInfo, given: Any, path: str, partial: bool) -> Any:
        shape = Shape.of(field)
        if isinstance(given, str) and given == NONE and shape.nullable:
            return None
        if shape.each is not None and isinstance(given, Mapping):
            return {str(key): self._choice(shape.each, own, _join(path, str(key)), False) for key, own in given.items()}
        if shape.kind is None and shape.model is None:
            return given
        default = PydanticUndefined if partial else field.get_default(call_default_factory=True, validated_data={})
        value = over_default(default, given)
        if shape.kind is not None and value is not None and not (partial and value is PydanticUndefined):
            return self._choice(shape.kind, value, path, shape.inferred)
        if shape.model is not None and isinstance(value, Mapping):
            return self._fill(shape.model, value, path, partial)
        return value

    def _choice(self, kind: Kind, given: Any, path: str, inferred: bool) -> Choice:
        """Return the choice with all its options; after a problem, return a placeholder."""
        table = {} if given is PydanticUndefined else as_table(given)
        name = table.get("name") if isinstance(table, Mapping) else given
        if not isinstance(name, str):
            installed = f"installed {HOOKS[kind].plural}: {', '.join(self.registry.names(kind)) or 'none'}"
            wrong = "is required" if name is None else f"should be a name (got {reprlib.repr(name)})"
            self.problems.append(f"{path}.name: {wrong}; {installed}")
            return Choice(name="")
        try:
            cls = self.registry.get(kind, name)
        except PluginError as error:
            self.problems.append(f"{path}.name: {error}")
            return Choice(name=name)
        values = self._fill(cls.Config, _options(table), path, partial=inferred)
        config = self._parse(cls.Config, values, path, partial=inferred)
        complete = values if config is None or inferred else config
        return Choice.model_validate({"name": name, **to_jsonable_python(complete, fallback=repr)})


def _options(table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key != "name"}


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _merge_values(base: Any, over: Any) -> Any:
    if isinstance(base, Mapping) and "name" in base and isinstance(over, str) and over != NONE:
        over = {"name": over}
    if isinstance(base, str) and base != NONE and isinstance(over, Mapping):
        base = {"name": base}
    return merge(base, over) if isinstance(base, Mapping) and isinstance(over, Mapping) else over


def over_default(default: Any, given: Any) -> Any:
    """Return `given` merged over the default of an option; the default itself if nothing is given."""
    default, given = (as_table(value) if isinstance(value, BaseModel) else value for value in (default, given))
    return default if given is PydanticUndefined else _merge_values(default, given)


# -- messages, one line per problem, with the path of the option ----------------------------------------------------


def unknown_option(key: str, valid: Sequence[str], inside: str = "") -> str:
    """Return the message for a key that is not among the `valid` ones; `inside` is the path of one called the same."""
    close = [inside] if inside else get_close_matches(key, valid, n=1)
    if close:
        return f"unknown option; did you mean '{close[0]}'?"
    return f"unknown option; {'the options are ' + ', '.join(valid) if valid else 'there are none here'}"


def explain(details: list[ErrorDetails], values: Mapping[str, Any], path: str) -> list[str]:
    """Return one line per path; the errors of the members of a union are joined by `or`."""
    complaints: dict[str, list[str]] = {}
    shown: dict[str, str] = {}
    for each in details:
        where = ".".join(part for part in [path, *_keys(each, values)] if part) or "configuration"
        complaints.setdefault(where, []).append(_complaint(each))
        shown[where] = "" if each["type"] == "missing" or not each["loc"] else f" (got {reprlib.repr(each['input'])})"
    return [f"{where}: {' or '.join(dict.fromkeys(texts))}{shown[where]}" for where, texts in complaints.items()]


def _keys(error: ErrorDetails, values: Any) -> Iterator[str]:
    """Yield the keys of pydantic's location that a user wrote; the others name members of unions and validators."""
    for part in error["loc"]:
        if _holds(values, part):
            values = values[part]
        elif error["type"] != "missing" or part != error["loc"][-1]:
            continue
        yield str(part)


def _complaint(error: ErrorDetails) -> str:
    if error["type"] == "missing":
        return "is required"
    if error["type"] in ("model_type", "model_attributes_type", "dict_type"):
        return "should be a table"
    if error["type"] in ("tuple_type", "list_type"):
        return 'should be a list, such as ["a", "b"]'
    if error["type"] == "extra_forbidden":
        return "unknown option"
    text = re.sub(r"^(Value error|Assertion failed), ", "", error["msg"])
    return re.sub(r"^\w+ should", "should", text).partition(", unable")[0]


def _holds(values: Any, part: str | int) -> bool:
    if isinstance(values, Mapping):
        return part in values
    return isinstance(values, list | tuple) and isinstance(part, int) and part < len(values)
