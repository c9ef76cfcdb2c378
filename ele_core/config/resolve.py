"""The second pass over a configuration: every chosen component checks its own options.

Only a component's `Config` knows its options, which may choose further components in turn. So choices are resolved
from the outside in: each is replaced by the same choice with all its options filled in. Every problem is collected with
its path, and all of them are reported in one error.
"""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_jsonable_python

from ele_core.config.problems import explain, unknown_option
from ele_core.errors import ConfigError, PluginError
from ele_core.interfaces import Component
from ele_core.plugins.hookspecs import HOOKS
from ele_core.plugins.registry import Registry
from ele_core.types import Choice, Kind, Takes

Model = TypeVar("Model", bound=BaseModel)

NONE = "none"
"""How None is written in a configuration, where an option allows it: TOML has no null."""


@dataclasses.dataclass(frozen=True)
class Inferred:
    """Marks a choice whose options are inferred from data: options may be missing, and no defaults are filled in."""


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
    model: type[Model], given: Mapping[str, Any], path: str, registry: Registry, *, partial: bool = False
) -> Model:
    """Make a `model` of `given`, with all choices resolved; `ConfigError` with one line for each problem.

    With `partial`, missing options are not reported: for when they are missing only because of another problem.
    """
    check = _Check(registry)
    config = check.model(model, given, path, partial)
    if config is None or check.problems:
        raise ConfigError("\n".join(check.problems))
    return config


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge tables key by key; `over` takes precedence, and replaces `base` if it names another component."""
    if "name" in base and "name" in over and base["name"] != over["name"]:
        return dict(over)
    return {**base, **{key: _merge_values(base.get(key), value) for key, value in over.items()}}


def as_table(value: Any) -> Any:
    """Return a bare name, a choice or any model as a table; return anything else unchanged."""
    if isinstance(value, str):
        return {"name": value}
    return value.model_dump() if isinstance(value, BaseModel) else value


@dataclasses.dataclass(frozen=True)
class Shape:
    """What a field of a configuration holds: a choice of a `kind`, a nested table `model`, or else a plain value."""

    kind: Kind | None
    model: type[BaseModel] | None
    nullable: bool
    inferred: bool

    @classmethod
    def of(cls, field: FieldInfo) -> Shape:
        """Read the shape from the annotation, in which choices and tables may be optional."""
        parts = list(union_parts(field.annotation))
        marks = [*field.metadata, *(mark for _, marks in parts for mark in marks)]
        kinds = [mark.kind for mark in marks if isinstance(mark, Takes)]
        types = [part for part, _ in parts]
        models = [part for part in types if isinstance(part, type) and issubclass(part, BaseModel)]
        return cls(
            kind=kinds[0] if kinds else None,
            model=models[0] if len(models) == 1 and models[0] is not Choice else None,
            nullable=NoneType in types,
            inferred=any(isinstance(mark, Inferred) for mark in marks),
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
            self.problems += [f"{_join(path, key)}: {unknown_option(str(key), list(fields))}" for key in values]
            values = {}
        for name, field in fields.items():
            value = self._fill_field(field, given.get(name, PydanticUndefined), _join(path, name), partial)
            if value is not PydanticUndefined:
                values[name] = value
        return values

    def _fill_field(self, field: FieldInfo, given: Any, path: str, partial: bool) -> Any:
        shape = Shape.of(field)
        if isinstance(given, str) and given == NONE and shape.nullable:
            return None
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
    if isinstance(base, str) and isinstance(over, Mapping):
        base = {"name": base}
    return merge(base, over) if isinstance(base, Mapping) and isinstance(over, Mapping) else over


def over_default(default: Any, given: Any) -> Any:
    """Return `given` merged over the default of an option; the default itself if nothing is given."""
    default, given = (as_table(value) if isinstance(value, BaseModel) else value for value in (default, given))
    return default if given is PydanticUndefined else _merge_values(default, given)
