"""`ele new-plugin`: write a small package that users edit into their own plugin."""

from __future__ import annotations

from pathlib import Path

import click

KINDS = ("output", "input", "backbone", "encoder", "decoder", "regressor", "surrogate", "task")


@click.command("new-plugin")
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(KINDS),
    default="output",
    show_default=True,
    help="The component to begin with. An output space comes with a task, so that it can be trained.",
)
@click.option("-o", "--folder", metavar="FOLDER", help="Where to write the package [default: ele-NAME].")
def new_plugin(name: str, kind: str, folder: str | None) -> None:
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
    from ele_core.scaffold import PARTS, write_plugin

    target = Path(folder or f"ele-{name}")
    files = write_plugin(name, target, kind)
    click.echo(f"Wrote {len(files)} files into {target}:")
    for file in files:
        click.echo(f"  {file}")
    use = PARTS[kind].use.format(name=name) or f"ele train {name} -o {name}-run"
    commands = (f"pip install -e {target}", f"ele check {name}", use, f"pytest {target}")
    click.echo("Next:")
    for command in commands:
        click.echo(f"  {command}")
