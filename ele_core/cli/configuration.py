"""`ele init` and `ele debug`: write a configuration to edit, check one, or look at its data, without training."""

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
    from ele_core.errors import ConfigError, command
    from ele_core.files.atomic import write_text

    text = configuration.template(configuration.load(task, overrides, options.registry()))
    if file == "-":
        click.echo(text, nl=False)
        return
    target = Path(file or f"{task}.toml")
    if target.exists():
        raise ConfigError("there is a file already.", where=str(target), fix="Choose another with -o.")
    write_text(target, text)
    click.echo(f"Wrote {target}. Next: {command('train', target)}")


@click.group()
def debug() -> None:
    """Check a configuration or its data without training."""


@debug.command()
@options.source
@options.settings(*options.TRAINING)
@options.as_json
@options.output
def config(source: str, overrides: dict[str, Any], console: options.Console) -> None:
    """Validate a configuration and print every option with its value."""
    from ele_core import config as configuration

    loaded = configuration.load(source, overrides, options.registry())
    console.show(configuration.dump(loaded).rstrip("\n"))
    console.json(loaded.model_dump(mode="json"))


@debug.command()
@options.settings(*options.TRAINING)
@options.source_or_data(on_error="skip")
@options.as_json
@options.output
def data(source: str | dict[str, Any], overrides: dict[str, Any], console: options.Console) -> None:
    """Read the data as training would and describe them.

    Prints the sizes, duplicates, a few pairs, and which rows are omitted and why. Rows of --data that cannot be used
    are omitted by default, and all of them are listed; `ele train` refuses them by default.

    \b
    ele debug data --data pairs.csv --output-space molecule
    ele debug data number-words
    """
    from ele_core import config as configuration
    from ele_core.data.prepare import prepare
    from ele_core.data.summary import describe_data, facts
    from ele_core.runtime.context import Context

    config = configuration.load(source, overrides, options.registry())
    prepared = prepare(config, Context(config.seed, monitor=console.monitor()))
    console.show(describe_data(prepared))
    console.json(facts(prepared))
