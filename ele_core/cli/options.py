"""Options that several commands share."""

from __future__ import annotations

import functools
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from ele_core.cli import completion

if TYPE_CHECKING:
    from ele_core.plugins import Registry

Command = TypeVar("Command", bound=Callable[..., Any])


def set_option(example: str) -> Callable[[Command], Command]:
    """Add `--set PATH=VALUE`; help shows the example."""
    text = f"Set an option of the configuration, as in --set {example}. May be repeated."
    return click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help=text)


overrides = set_option("regressor.training.epochs=5")
device = click.option("--device", metavar="NAME", help="Compute on this device: auto, cpu, cuda, cuda:1, … .")
seed = click.option("--seed", type=click.IntRange(min=0), metavar="N", help="The seed of all random numbers.")
output_file = click.option(
    "-o",
    "--output-file",
    "target",
    metavar="FILE",
    default="",
    help="The .csv, .tsv, .jsonl or .parquet file to write [default: standard output].",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON document.")
split = click.option(
    "--split",
    type=click.Choice(["test", "validation"]),
    default="test",
    show_default=True,
    help="The held-out pairs to measure on: choose options on `validation`, report results on `test`.",
)
checkpoint_every = click.option(
    "--checkpoint-every",
    "every",
    type=click.FloatRange(min=0),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="Time between checkpoints; longer if writing them would take over 2 % of the time. 0: after every step.",
)


class RunFolder(click.ParamType[str]):
    """The path of a run folder, which exists, or the name of an installed model; a shell completes the path."""

    name = "run"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse a path that is not a folder."""
        from ele_core.errors import ConfigError
        from ele_core.model.pretrained import installed_models

        if Path(value).is_dir():
            return value
        models = installed_models()
        if value in models and not Path(value).exists():
            return str(models[value])
        what = "this is a file, not a run folder." if Path(value).exists() else "there is no such run folder."
        close = get_close_matches(value, [*completion.runs(""), *models], n=1)
        fix = f"Did you mean {close[0]}?" if close else "Give a folder that `ele train -o FOLDER` wrote."
        raise ConfigError(what, where=value, fix=fix)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Propose run folders; without any, let the shell propose folders."""
        return [CompletionItem(path) for path in completion.runs(incomplete)] or [
            CompletionItem(incomplete, type="dir")
        ]


run = click.argument("run", type=RunFolder())
source = click.argument("source", metavar="CONFIG|TASK", shell_complete=completion.sources("task"))
optional_source = click.argument(
    "source", metavar="[CONFIG|TASK]", required=False, shell_complete=completion.sources("task")
)
output_space = click.option(
    "--output-space",
    metavar="NAME",
    shell_complete=completion.components("output"),
    help="What the outputs of --data are, instead of CONFIG|TASK: `ele plugins` lists the names.",
)


def output(command: Command) -> Command:
    """Add `--quiet` and `--verbose`, given to the command as a `Console`, together with `--json` if it has that."""

    @click.option("-v", "--verbose", is_flag=True, help="Also print versions and options; for an error, its traceback.")
    @click.option("-q", "--quiet", is_flag=True, help="Print only results and errors: no messages, no progress.")
    @functools.wraps(command)
    def with_console(*args: Any, quiet: bool, verbose: bool, as_json: bool = False, **kwargs: Any) -> Any:
        from ele_core.cli.console import Console
        from ele_core.errors import EleError
        from ele_core.plugins.contained import blamed

        if quiet and verbose:
            raise click.UsageError("--quiet and --verbose exclude each other.")
        try:
            with blamed():
                return command(*args, console=Console(quiet, verbose, as_json), **kwargs)
        except EleError:
            if verbose:
                traceback.print_exc()
            raise

    return with_console  # type: ignore[return-value]


def training_overrides(command: Command) -> Command:
    """Add `--seed`, `--device` and `--set`, given to the command together as `overrides`."""

    @seed
    @device
    @overrides
    @functools.wraps(command)
    def merged(*args: Any, seed: int | None, device: str | None, overrides: tuple[str, ...], **kwargs: Any) -> Any:
        return command(*args, overrides=(*given("seed", seed), *given("device", device), *overrides), **kwargs)

    return merged  # type: ignore[return-value]


def training_length(command: Command) -> Command:
    """Add `--epochs N` and `--minutes M`, given to the command as part of `overrides`."""

    @click.option(
        "--epochs",
        type=click.FloatRange(min=0, min_open=True),
        metavar="N",
        help="Train every network for N passes over the training pairs.",
    )
    @click.option(
        "--minutes",
        type=click.FloatRange(min=0, min_open=True),
        metavar="M",
        help="Train for about M minutes, shared equally by all networks; reading and decoding are not counted.",
    )
    @functools.wraps(command)
    def merged(
        *args: Any, epochs: float | None, minutes: float | None, overrides: tuple[str, ...], **kwargs: Any
    ) -> Any:
        if epochs is not None and minutes is not None:
            raise click.UsageError("--epochs and --minutes exclude each other.")
        length = (*given("epochs", epochs), *given("minutes", minutes))
        single = [each for each in overrides if each.partition("=")[0].strip().endswith((".epochs", ".minutes"))]
        if length and single:
            raise click.UsageError(
                f"--{length[0].partition('=')[0]} is for all networks: omit it or --set {single[0]}."
            )
        return command(*args, overrides=(*length, *overrides), **kwargs)

    return merged  # type: ignore[return-value]


def decoding_overrides(command: Command) -> Command:
    """Add `--decoder`, `--device` and `--set`, given to the command together as `overrides`."""

    @click.option(
        "--decoder",
        metavar="NAME",
        shell_complete=completion.components("decoder"),
        help="Decode with this decoder, or variant of one such as pgd-random, instead of the configured one.",
    )
    @device
    @set_option("decoder.steps=200")
    @functools.wraps(command)
    def merged(*args: Any, decoder: str | None, device: str | None, overrides: tuple[str, ...], **kwargs: Any) -> Any:
        chosen = decoder_overrides(decoder) if decoder else ()
        return command(*args, overrides=(*chosen, *given("device", device), *overrides), **kwargs)

    return merged  # type: ignore[return-value]


def given(name: str, value: Any) -> tuple[str, ...]:
    """The override `name=value`, or nothing if the value is None."""
    return () if value is None else (f"{name}={value}",)


def decoder_overrides(name: str) -> Sequence[str]:
    """The overrides that choose a decoder, or a variant that one declares."""
    if name in registry().names("decoder"):
        return (f"decoder={name}",)
    from ele_core.errors import ConfigError
    from ele_core.experiments.sweep import installed_lines

    variants = installed_lines(registry())
    if name in variants:
        return variants[name].overrides
    close = get_close_matches(name, [*registry().names("decoder"), *variants], n=1)
    if not close or close[0] not in variants:
        registry().provider("decoder", name)  # raises, with the reasons of plugins that failed to load
    what = f"no decoder is called '{name}'; did you mean '{close[0]}'?"
    raise ConfigError(what, where="--decoder", fix=f"Variants of decoders: {', '.join(variants)}.")


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


def chosen_source(source: str | None, output_space: str | None, data: str | None) -> str | dict[str, Any]:
    """Return what the configuration is loaded from: the file or task, or else the output space alone."""
    if source is not None and output_space is not None:
        raise click.UsageError(f"Give either {source} or --output-space {output_space}: both say what is predicted.")
    if source is not None:
        return source
    if output_space is None and data is None:
        raise click.UsageError("Give CONFIG|TASK, or your own pairs: --data FILE --output-space NAME.")
    if output_space is None:
        names = ", ".join(registry().names("output"))
        raise click.UsageError(f"Say what the outputs of {data} are: --output-space NAME, one of {names}.")
    if data is None:
        raise click.UsageError("--output-space says what the outputs of --data are: give --data FILE too.")
    registry().provider("output", output_space)  # raises if there is none of this name
    return {"output": {"name": output_space}}


def toml_string(text: str) -> str:
    """Quote a text as a TOML string, so that `1` stays a text."""
    import json

    return json.dumps(text, ensure_ascii=False)
