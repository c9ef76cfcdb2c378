"""`ele debug`: check a configuration or its data before training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ele_core.cli import options

if TYPE_CHECKING:
    from ele_core.cli.console import Console


@click.group()
def debug() -> None:
    """Check a configuration or its data without training."""


@debug.command()
@options.source
@options.settings(*options.TRAINING)
@options.as_json
@options.output
def config(source: str, overrides: dict[str, Any], console: Console) -> None:
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
def data(source: str | dict[str, Any], overrides: dict[str, Any], console: Console) -> None:
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
