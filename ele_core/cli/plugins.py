"""`ele plugins` and `ele new-plugin`: list the installed plugins, and why some failed to load; write one to edit."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ele_core.cli import completion, options
from ele_core.scaffold import PARTS, part_forms, write_plugin

if TYPE_CHECKING:
    from ele_core.plugins import Registry
    from ele_core.types import Kind


@click.command()
@click.argument("name", required=False, shell_complete=completion.components())
@options.as_json
def plugins(name: str | None, as_json: bool) -> None:
    """List the installed plugins and their components.

    With NAME, print the options of that component instead.
    """
    registry = options.registry()
    if name is not None:
        show_component(registry, name, options.Console(as_json=as_json))
        return
    if as_json:
        options.Console(as_json=True).json(registry.export())
        return
    for plugin in registry.plugins():
        took = "" if plugin.seconds is None else f", imported in {plugin.seconds:.2f} s"
        click.echo(f"{plugin}: {plugin.status}{took}")
        if plugin.reason:
            click.echo(f"  {plugin.reason}")
        for line in plugin.details.splitlines():
            click.echo(f"    {line}")
        for kind, records in plugin.records.items():
            for record in records:
                click.echo(f"  {kind:<10}{record.name:<16}{record.summary}")
                if reason := plugin.unavailable(record):
                    click.echo(f"  {'':<26}Not available: it {reason}")
    for (kind, name), rivals in registry.clashes().items():
        click.echo(
            f"The {kind} '{name}' is brought by {' and by '.join(map(str, rivals))}; {choosing(registry, kind, name)}"
        )


def choosing(registry: Registry, kind: Kind, name: str) -> str:
    """Say which component a name means that several plugins provide, and how to choose another."""
    names = [each for each in registry.names(kind) if each == name or each.endswith(f":{name}")]
    if name not in names:
        return f"choose one: {' or '.join(names)}."
    names.remove(name)
    return f"'{name}' is that of {registry.provider(kind, name)}, the other is chosen by {' or '.join(names)}."


def show_component(registry: Registry, name: str, console: options.Console) -> None:
    """Print the options of every component called `name`."""
    from ele_core.config import describe_options
    from ele_core.types import KINDS

    named = [(kind, each) for kind in KINDS for each in registry.names(kind) if name in (each, each.partition(":")[2])]
    if not named:
        registry.unknown(name)
    found: list[dict[str, Any]] = []
    for kind, name in named:
        summary, described = registry.record(kind, name).summary, describe_options(registry.get(kind, name))
        console.show(f"{kind} {name}: {summary}")
        for option in described:
            console.show(f"  {option.path} ({option.type}, default {option.default})\n      {option.description}")
        options_of = [option._asdict() for option in described]
        found.append({"kind": kind, "name": name, "summary": summary, "options": options_of})
    console.json({"components": found})


@click.command("new-plugin")
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(PARTS),
    default="output",
    show_default=True,
    help="The component to begin with. An output space comes with a task to train it on.",
)
@click.option("-o", "--folder", metavar="FOLDER", help="Where to write the package [default: ele-NAME].")
def new_plugin(name: str, kind: Kind, folder: str | None) -> None:
    """Write a small plugin package to edit into your own.

    The package has a component called NAME, which can be installed, checked and used without changes, and its tests.
    By default it is an output space, whose structures are rows of labels, with a task. The comments say how to replace
    what is there by your own.

    \b
    ele new-plugin rankings
    pip install -e ele-rankings
    ele check rankings
    ele train rankings -o run
    ele new-plugin dates --kind input
    """
    target = Path(folder or f"ele-{name}")
    files = write_plugin(name, target, kind)
    click.echo(f"Wrote {len(files)} files into {target}:")
    for file in files:
        click.echo(f"  {file}")
    place = shlex.quote(str(target))
    commands = (f"pip install -e {place}", f"ele check {name}", part_forms(kind, name)["use"], f"pytest {place}")
    click.echo("Next:")
    for command in commands:
        click.echo(f"  {command}")
