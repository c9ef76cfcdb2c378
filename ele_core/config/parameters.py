"""The options of chosen components as flat names such as `backbone__width`: list them with their values, change one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from ele_core.config.resolve import NONE, Shape, as_table, over_default
from ele_core.errors import PluginError
from ele_core.plugins import Registry
from ele_core.types import Kind

UNSET = PydanticUndefined
"""The value of an option that is not given and has no default."""
BETWEEN = "__"
"""What separates the parts of a name, as in scikit-learn."""


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
