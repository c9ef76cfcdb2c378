"""Reference tables made from the code: `{components}` for the registry, `{options}` for one configuration class."""

from __future__ import annotations

import pkgutil
import re
from collections.abc import Iterator
from typing import ClassVar, get_args

from docutils import nodes
from pydantic import BaseModel
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from ele_core.config.describe import Option, describe_options
from ele_core.plugins import HOOKS, PluginInfo, Record, registry
from ele_core.types import KINDS, Kind

OURS = "explicit-loss-embedding"
"""The distribution that is documented here; other installed plugins are left out."""


def shipped() -> list[tuple[Kind, PluginInfo, Record]]:
    """Every component of ELE's own plugins, kind by kind."""
    ours = [plugin for plugin in registry().plugins() if plugin.distribution == OURS]
    return [(kind, plugin, record) for kind in KINDS for plugin in ours for record in plugin.records.get(kind, ())]


class ComponentsDirective(SphinxDirective):
    """A section for each kind, and in it one for each component with its options."""

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()  # Sphinx does not see changes of the registry
        return self.parse_text_to_nodes("\n".join(components_page()), allow_section_headings=True)


class OptionsDirective(SphinxDirective):
    """The options of the configuration class named as `package.module:Class`."""

    required_arguments: ClassVar[int] = 1

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()
        options = describe_options(pkgutil.resolve_name(self.arguments[0]))
        return self.parse_text_to_nodes("\n".join(options_table(options)))


def components_page() -> Iterator[str]:
    """The page of all components, as Markdown."""
    for kind in KINDS:
        hook = HOOKS[kind]
        yield from (f"## {hook.plural.capitalize()}", "")
        yield f"A plugin brings them with the hook `{hook.name}`; each is a subclass of `ele_core.{hook.base}`."
        yield ""
        for of, plugin, record in shipped():
            if of == kind:
                yield from component_section(kind, plugin, record)


def component_section(kind: Kind, plugin: PluginInfo, record: Record) -> Iterator[str]:
    """One component: its name, summary, plugin, class and options."""
    cls = registry().get(kind, record.name)
    yield from (f"(component-{kind}-{record.name})=", f"### {record.name}", "")
    summary = record.summary.rstrip(".")
    yield from (f"{summary[:1].upper()}{summary[1:]}.", "")
    yield from (f"Plugin `{plugin.name}`, class `{record.location}`.", "")
    options = [*describe_options(cls), *options_of_items(cls.Config)]
    yield from options_table(options) if options else ["No options."]
    yield ""


def options_of_items(config: type[BaseModel]) -> Iterator[Option]:
    """The options of the tables in a list, as `augmentations[].rate`."""
    for name, field in config.model_fields.items():
        for item in get_args(field.annotation):
            if isinstance(item, type) and issubclass(item, BaseModel):
                yield from (option._replace(path=f"{name}[].{option.path}") for option in describe_options(item))


def options_table(options: list[Option]) -> Iterator[str]:
    """A table of options. Raises `ValueError` for an option without a description."""
    yield from ("```{list-table}", ":header-rows: 1", ":widths: 24 20 16 40", "")
    yield from ("* - option", "  - type", "  - default", "  - meaning")
    for option in options:
        if not option.description.strip():
            raise ValueError(f"option '{option.path}' has no description: write a string below the field")
        meaning = " ".join(option.description.split())
        yield from (f"* - {code(option.path)}", f"  - {code(short_type(option.type))}")
        yield from (f"  - {code(option.default)}", f"  - {meaning}")
    yield from ("```", "")


def short_type(text: str) -> str:
    """Shorten a type: names without modules, literals as alternatives."""
    literals = re.sub(r"Literal\[(.*?)\]", lambda match: match[1].replace("'", '"').replace(", ", " | "), text)
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])", "", literals)


def code(text: str) -> str:
    """Inline code that may contain backticks."""
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("components", ComponentsDirective)
    app.add_directive("options", OptionsDirective)
    return {"parallel_read_safe": True}
