"""`ele plugins`: list the installed plugins, and why some failed to load."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from ele_core.cli import options

if TYPE_CHECKING:
    from ele_core.plugins import Registry


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the list as one JSON object.")
def plugins(name: str | None, as_json: bool) -> None:
    """List the installed plugins and their components.

    With NAME, print the options of that component instead.
    """
    registry = options.registry()
    if name is not None:
        show_component(registry, name)
        return
    if as_json:
        click.echo(json.dumps(registry.export(), indent=2))
        return
    for plugin in registry.plugins():
        click.echo(f"{plugin.name} ({plugin.distribution} {plugin.version}): {plugin.status}")
        if plugin.reason:
            click.echo(f"  {plugin.reason}")
        for kind, records in plugin.records.items():
            for record in records:
                click.echo(f"  {kind:<10}{record.name:<16}{record.summary}")
    for (kind, name), rivals in registry.clashes().items():
        click.echo(f"The {kind} '{name}' is brought by {' and by '.join(map(str, rivals))}: neither can be used.")


def show_component(registry: Registry, name: str) -> None:
    """Print the options of every component called `name`."""
    from ele_core.config import describe_options
    from ele_core.interfaces import KINDS

    kinds = [kind for kind in KINDS if name in {record.name for record in registry.records(kind)}]
    if not kinds:
        registry.unknown(name)
    for kind in kinds:
        click.echo(f"{kind} {name}: {registry.record(kind, name).summary}")
        for option in describe_options(registry.get(kind, name)):
            click.echo(f"  {option.path} ({option.type}, default {option.default})\n      {option.description}")
