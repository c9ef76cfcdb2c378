"""`ele debug`: check a configuration or its data before training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ele_core.cli import options

if TYPE_CHECKING:
    from ele_core.cli.console import Console


@click.group()
def debug() -> None:
    """Check a configuration or its data without training."""


@debug.command()
@options.source
@options.training_overrides
@options.as_json
@options.output
def config(source: str, overrides: tuple[str, ...], console: Console) -> None:
    """Validate a configuration and print every option with its value."""
    from ele_core import config as configuration

    loaded = configuration.load(source, overrides, options.registry())
    console.show(configuration.dump(loaded).rstrip("\n"))
    console.json(loaded.model_dump(mode="json"))


@debug.command()
@options.optional_source
@options.data_options(on_error="skip")
@options.output_space
@options.training_overrides
@options.as_json
@options.output
def data(
    source: str | None,
    output_space: str | None,
    data: str | None,
    input: str | None,  # noqa: A002  # click names arguments after options
    output: str | None,
    on_error: str | None,
    overrides: tuple[str, ...],
    console: Console,
) -> None:
    """Read the data as training would and describe them.

    Prints the sizes, duplicates, a few pairs, and which rows are left out and why. Rows of --data that cannot be used
    are left out by default, so that all of them are listed; `ele train` refuses them by default.

    \b
    ele debug data --data pairs.csv --output-space molecule
    ele debug data number-words
    """
    from ele_core import config as configuration
    from ele_core.data.prepare import prepare
    from ele_core.data.summary import describe_data, facts
    from ele_core.runtime.context import Context

    columns = {"input": input, "output": output, "on_error": on_error or ("skip" if data else None)}
    chosen = options.chosen_source(source, output_space, data)
    config = configuration.load(chosen, [*options.data_overrides(data, columns), *overrides], options.registry())
    prepared = prepare(config, Context(config.seed, monitor=console.monitor()))
    console.show(describe_data(prepared))
    console.json(facts(prepared))
