"""Options that several commands share."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from ele_core.plugins import Registry

Command = TypeVar("Command", bound=Callable[..., Any])

overrides = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="PATH=VALUE",
    help="Change one option, as in --set regressor.training.epochs=5. May be repeated.",
)
split = click.option(
    "--split",
    type=click.Choice(["test", "validation"]),
    default="test",
    show_default=True,
    help="The held-out pairs to measure on: choose options on `validation`, report results on `test`.",
)
decoder = click.option("--decoder", metavar="NAME", help="Decode with this decoder instead of the configured one.")

checkpoint_every = click.option(
    "--checkpoint-every",
    "every",
    type=click.FloatRange(min=0),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="Time between checkpoints; longer if writing them would take over 2 % of the time. 0: after every step.",
)


def registry() -> Registry:
    """Return the registry that the command was invoked with, by default that of the installed plugins."""
    from ele_core.plugins import Registry
    from ele_core.plugins import registry as installed

    return click.get_current_context().find_object(Registry) or installed()


def log(command: Command) -> Command:
    """Add `--log tensorboard`, given to the command as a list of callbacks; refuse it if the package is missing."""

    @click.option(
        "--log",
        type=click.Choice(["tensorboard"]),
        help="Also write the evaluations to RUN/tensorboard; show them with: tensorboard --logdir RUN",
    )
    @functools.wraps(command)
    def with_callbacks(*args: Any, log: str | None, **kwargs: Any) -> Any:
        callbacks = []
        if log:
            from ele_core.runtime.tensorboard import TensorBoard

            callbacks.append(TensorBoard())
        return command(*args, callbacks=callbacks, **kwargs)

    return with_callbacks  # type: ignore[return-value]


with_report = click.option(
    "--report/--no-report", "with_report", default=True, help="Write RUN/report.html at the end [default: yes]."
)


def processes(command: Command) -> Command:
    """Add `--processes N`: the command runs itself in N processes that form one group, and waits for them."""

    @click.option(
        "--processes",
        "count",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        metavar="N",
        help="Share the work among N processes on this machine (on several machines: torchrun -m ele_core …).",
    )
    @functools.wraps(command)
    def shared(*args: Any, count: int, **kwargs: Any) -> Any:
        if count == 1 or {"RANK", "WORLD_SIZE"} <= os.environ.keys():
            return command(*args, **kwargs)
        from ele_core.cli.launch import launch

        sys.exit(launch(count, sys.argv[1:]))

    return shared  # type: ignore[return-value]


def data_options(on_error: str) -> Callable[[Command], Command]:
    """Add `--data FILE --input COLUMNS --output COLUMN --on-error RULE`; `on_error` is the default that help names."""
    options = (
        click.option(
            "--on-error",
            type=click.Choice(["raise", "skip"]),
            help=f"Rows that cannot be used: list them and stop (raise), or omit them (skip) [default: {on_error}].",
        ),
        click.option("--output", metavar="COLUMN", help="Column of the outputs [default: the last]."),
        click.option(
            "--input", metavar="COLUMNS", help="Column of the inputs, or several: a,b or b0:b9 [default: the first]."
        ),
        click.option(
            "--data",
            metavar="FILE",
            help="Your own pairs: .csv, .tsv, .jsonl, .parquet, .npz, .smi, plain lines or what a plugin reads.",
        ),
    )
    return lambda command: functools.reduce(lambda decorated, option: option(decorated), options, command)


def data_overrides(data: str | None, columns: dict[str, str | None]) -> list[str]:
    """Return the given options as overrides `data.…`, with the full path of the file."""
    given = {"file": str(Path(data).resolve()) if data else None, **columns}
    if data is None and any(columns.values()):
        raise click.UsageError("--input, --output and --on-error describe the file of --data: give it too.")
    return [f"data.{name}={toml_string(value)}" for name, value in given.items() if value is not None]


def toml_string(text: str) -> str:
    """Quote a text as a TOML string, so that `1` stays a text."""
    import json

    return json.dumps(text, ensure_ascii=False)
