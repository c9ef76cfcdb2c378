"""The options of components: as a table for the reference page, and as flat names such as `backbone__width`."""

from __future__ import annotations

import ast
import functools
import inspect
import json
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from types import NoneType
from typing import Any, Literal, NamedTuple, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_jsonable_python

from ele_core.component import Component
from ele_core.config.resolve import NONE, ByRecipe, Shape, as_table, over_default, union_parts
from ele_core.errors import PluginError
from ele_core.plugins.hookspecs import HOOKS
from ele_core.plugins.registry import Registry
from ele_core.types import Choice, Kind

UNSET = PydanticUndefined
"""The value of an option that is not given and has no default."""
BETWEEN = "__"
"""What separates the parts of a name, as in scikit-learn."""


class Option(NamedTuple):
    """One option of a component, as the reference page and `ele plugins NAME` show it."""

    path: str
    type: str
    default: str
    description: str


def describe_options(cls: type[Component] | type[BaseModel]) -> list[Option]:
    """Return every option of a component or a configuration, including those in nested tables."""
    model = cls.Config if issubclass(cls, Component) else cls
    return list(_describe(model, "", PydanticUndefined))


def _describe(model: type[BaseModel], path: str, instance: Any) -> Iterator[Option]:
    for name, field in model.model_fields.items():
        default = field.get_default(call_default_factory=True, validated_data={})
        if isinstance(instance, BaseModel):
            default = getattr(instance, name)
        shape = Shape.of(field)
        here = f"{path}.{name}" if path else name
        if shape.model is None or default is None:
            yield Option(
                here,
                _show_type(field, shape),
                _show_default(default, field),
                field.description or described(model, name),
            )
        if shape.model is not None:
            yield from _describe(shape.model, here, default)


def described(model: type[BaseModel], name: str) -> str:
    """Return the string below a field, from the most derived class that declares it; empty if there is none."""
    return next((texts[name] for cls in model.__mro__ if name in (texts := _strings_below(cls))), "")


@functools.cache
def _strings_below(cls: type) -> dict[str, str]:
    """Return annotated name → the string below it, from the source of a class.

    pydantic could do this too, but for every class when it is imported, which makes each command start later.
    """
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    except (OSError, TypeError, SyntaxError):  # built in, or written without a file
        return {}
    return {
        field.target.id: inspect.cleandoc(below.value.value)
        for field, below in pairwise(getattr(body, "body", ()))
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str)
    }


def _show_type(field: FieldInfo, shape: Shape) -> str:
    if shape.kind is not None:
        return HOOKS[shape.kind].singular + (" | none" if shape.nullable else "")
    if shape.each is not None:
        return f"table of {HOOKS[shape.each].plural}"
    return " | ".join(_show_one_type(part) for part, _ in union_parts(field.annotation))


def _show_one_type(part: Any) -> str:
    if get_origin(part) is Literal:
        return " | ".join(json.dumps(value) for value in get_args(part))
    if isinstance(part, type):
        return {NoneType: "none"}.get(part, "table" if issubclass(part, BaseModel) else part.__name__)
    return str(part).replace("typing.", "")


def _show_default(default: Any, field: FieldInfo) -> str:
    if default is PydanticUndefined:
        return "by the recipe" if any(isinstance(mark, ByRecipe) for mark in field.metadata) else "required"
    if default is None:
        return NONE
    if isinstance(default, Choice):
        default = default.name if not default.options else as_table(default)
    return json.dumps(to_jsonable_python(default), ensure_ascii=False)


# -- options by flat names ---------------------------------------------------------------------------------------------


def nested_options(
    kind: Kind, section: Any, registry: Registry, *, inferred: bool = False
) -> Iterator[tuple[str, Any]]:
    """Yield the name and value of every option of a chosen component, those of components inside it too.

    Options of a component that is not installed are only those given. An invalid value is yielded like any other. If
    options are `inferred` from data, those that are not given have no value yet.
    """
    table = as_table(section)
    if not isinstance(table, Mapping):
        return
    yield "name", table.get("name", UNSET)
    try:
        fields = registry.get(kind, table["name"]).Config.model_fields
    except (KeyError, TypeError, PluginError):
        yield from ((name, value) for name, value in table.items() if name != "name")
        return
    for name, field in fields.items():
        shape = Shape.of(field)
        default = UNSET if inferred else field.get_default(call_default_factory=True, validated_data={})
        value = over_default(default, table.get(name, UNSET))
        yield name, value
        if shape.kind is not None:
            inner = nested_options(shape.kind, value, registry)
        elif shape.model is not None:
            inner = _table_options(shape.model, value)
        else:
            continue
        yield from ((f"{name}{BETWEEN}{path}", own) for path, own in inner)


def _table_options(model: type[BaseModel], value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the options of a nested table; without values if the table is not used."""
    table = as_table(value) if isinstance(value, BaseModel) else value
    for name, field in model.model_fields.items():
        default = field.get_default(call_default_factory=True, validated_data={})
        yield name, table.get(name, default) if isinstance(table, Mapping) else UNSET


def changed(section: Any, path: Sequence[str], value: Any) -> Any:
    """Return a section with the option at `path` changed; the given mappings are left as they are.

    To change the `name` to another component drops the options of the present one.
    """
    table = as_table(section)
    table = {} if not isinstance(table, Mapping) or section == NONE else dict(table)
    first, *rest = path
    if not rest and first == "name" and table.get("name") != value:
        return {"name": value}
    return {**table, first: changed(table.get(first), rest, value) if rest else value}
