"""`ele init`: write a task's configuration to a file that users edit."""

from __future__ import annotations

from pathlib import Path

import click

from ele_core.cli import completion, options


@click.command()
@click.argument("task", shell_complete=completion.sources("task", "output"))
@click.option(
    "-o", "--output-file", "file", metavar="FILE", help="The file to write; - is standard output [default: TASK.toml]."
)
@options.training_overrides
def init(task: str, file: str | None, overrides: tuple[str, ...]) -> None:
    """Write the configuration of a task to a TOML file.

    The file has every option with its value: edit it, then run `ele train FILE`. TASK may also be the name of an output
    space, for data of your own: its labels and sizes are inferred from the data.

    \b
    ele init smi2mol
    ele init molecule --set data.file=pairs.csv
    """
    from ele_core import config as configuration
    from ele_core.errors import ConfigError
    from ele_core.files.atomic import write_text

    text = configuration.dump(configuration.load(task, overrides, options.registry()))
    if file == "-":
        click.echo(text, nl=False)
        return
    target = Path(file or f"{task}.toml")
    if target.exists():
        raise ConfigError("there is a file already.", where=str(target), fix="Choose another with -o.")
    write_text(target, text)
    click.echo(f"Wrote {target}. Next: ele train {target}")
