"""`ele init`: write a task's configuration to a file that users edit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ele_core.cli import completion, options


@click.command()
@click.argument("task", shell_complete=completion.sources("task", "output"))
@options.output_file("The file to write; - is standard output [default: TASK.toml].")
@options.settings(*options.TRAINING)
def init(task: str, file: str | None, overrides: dict[str, Any]) -> None:
    """Write the configuration of a task to a TOML file.

    The file has every option with its value: edit it, then run `ele train FILE`. TASK may also be the name of an output
    space, for data of your own: the file then names the recipe, and what you do not add follows from the data.

    \b
    ele init smi2mol
    ele init molecule --set data.file=pairs.csv
    """
    from ele_core import config as configuration
    from ele_core.errors import ConfigError
    from ele_core.files.atomic import write_text

    text = configuration.template(configuration.load(task, overrides, options.registry()))
    if file == "-":
        click.echo(text, nl=False)
        return
    target = Path(file or f"{task}.toml")
    if target.exists():
        raise ConfigError("there is a file already.", where=str(target), fix="Choose another with -o.")
    write_text(target, text)
    click.echo(f"Wrote {target}. Next: ele train {target}")
