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
    help="The held-out pairs to measure on; choose settings on `validation`, report on `test`.",
)
decoder = click.option("--decoder", metavar="NAME", help="Decode with this decoder instead of the configured one.")

checkpoint_every = click.option(
    "--checkpoint-every",
    "every",
    type=click.FloatRange(min=0),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="How often the state is kept, if that takes no more than 2 % of the time; 0 is after every step.",
)


def registry() -> Registry:
    """Where the command looks up names: the object it was invoked with, by default the installed plugins."""
    from ele_core.plugins import Registry
    from ele_core.plugins import registry as installed

    return click.get_current_context().find_object(Registry) or installed()


def log(command: Command) -> Command:
    """`--log tensorboard`: a list of callbacks; refused at once if the package is missing."""

    @click.option(
        "--log",
        type=click.Choice(["tensorboard"]),
        help="Write the evaluations to RUN/tensorboard too; look at them with: tensorboard --logdir RUN",
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
    """`--processes N`: the command starts itself N times and waits; each of these is a member of a group."""

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


def data_options(command: Command) -> Command:
    """`--data FILE --input COLUMN --output COLUMN --on-error RULE`: pairs of the user's own."""
    for option in (
        click.option(
            "--on-error",
            type=click.Choice(["raise", "skip"]),
            help="Rows that cannot be used: stop and list them all (raise, the default), or leave them out (skip).",
        ),
        click.option("--output", metavar="COLUMN", help="Column of the outputs [default: the last]."),
        click.option("--input", metavar="COLUMN", help="Column of the inputs [default: the first]."),
        click.option(
            "--data", metavar="FILE", help="Pairs of your own: .csv, .tsv, .jsonl, .smi or plain lines, also .gz."
        ),
    ):
        command = option(command)
    return command


def data_overrides(data: str | None, columns: dict[str, str | None]) -> list[str]:
    """The same as `--set data.…`, for the options given; the file by its full path, to be found from anywhere."""
    given = {"file": str(Path(data).resolve()) if data else None, **columns}
    if data is None and any(columns.values()):
        raise click.UsageError("--input, --output and --on-error describe the file of --data: give it too.")
    return [f"data.{name}={toml_string(value)}" for name, value in given.items() if value is not None]


def toml_string(text: str) -> str:
    """A text as a TOML value, so that `1` stays a text."""
    import json

    return json.dumps(text, ensure_ascii=False)
