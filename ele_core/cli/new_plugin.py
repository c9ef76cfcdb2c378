"""`ele new-plugin`: write a small package that users edit into their own plugin."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("new-plugin")
@click.argument("name")
@click.option("-o", "--folder", metavar="FOLDER", help="Where to write the package [default: ele-NAME].")
def new_plugin(name: str, folder: str | None) -> None:
    """Write a small plugin package to edit into your own.

    The package has an output space and a task, both called NAME. It can be installed, tested and trained without
    changes. Its structures are rows of labels, to be replaced by your own: the comments in src/ele_NAME/space.py say
    how.

    \b
    ele new-plugin rankings
    pip install -e ele-rankings
    ele check rankings
    ele train rankings -o run
    """
    from ele_core.scaffold import write_plugin

    target = Path(folder or f"ele-{name}")
    files = write_plugin(name, target)
    click.echo(f"Wrote {len(files)} files into {target}:")
    for file in files:
        click.echo(f"  {file}")
    commands = (f"pip install -e {target}", f"ele check {name}", f"ele train {name} -o {name}-run", f"pytest {target}")
    click.echo("Next:")
    for command in commands:
        click.echo(f"  {command}")
