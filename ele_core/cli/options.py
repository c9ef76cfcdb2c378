"""What commands share: options, and what they print: results on standard output, messages on standard error."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.shell_completion import CompletionItem

from ele_core.cli import completion
from ele_core.display.text import CONTROLS, harmless

if TYPE_CHECKING:
    from ele_core.config import RunConfig
    from ele_core.plugins import Registry
    from ele_core.runtime.monitor import Monitor

Command = TypeVar("Command", bound=Callable[..., Any])
Decorator = Callable[[Any], Any]
SPLITS = click.Choice(["test", "validation"])
MOST_PROCESSES = 1024
"""On one machine: more is a slip, and would take all its memory."""


class Number(click.FloatRange):
    """A finite number in a range; click's own takes `nan` and `inf`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


SETTINGS: Mapping[str, Decorator] = {
    "device": click.option("--device", metavar="NAME", help="Compute on this device: auto, cpu, cuda, cuda:1, … ."),
    "seed": click.option("--seed", type=click.IntRange(min=0), metavar="N", help="The seed of all random numbers."),
    "recipe": click.option(
        "--recipe",
        metavar="NAME",
        shell_complete=completion.recipes,
        help="Take what is not given from this recipe: `learned` learns the loss from structures and pairs, `paper` "
        "from structures alone, a task's name means its configuration "
        "[default: learned for --data, else that of the task].",
    ),
    "epochs": click.option(
        "--epochs",
        type=Number(min=0, min_open=True),
        metavar="N",
        help="Train every network for N passes over the training pairs.",
    ),
    "minutes": click.option(
        "--minutes",
        type=Number(min=0, min_open=True),
        metavar="M",
        help="Train for at most about M minutes: networks share what closed-form parts leave, and make fewer steps, or "
        "are left out. Reading and decoding are not counted.",
    ),
    "decoder": click.option(
        "--decoder",
        metavar="NAME",
        shell_complete=completion.components("decoder"),
        help="Decode with this decoder, or variant of one such as pgd-random, instead of the configured one.",
    ),
}
"""Options of the configuration that have an option of their own, by section."""
TRAINING = ("seed", "device", "recipe")
LENGTH = ("epochs", "minutes")
as_json = click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON document.")
split = click.option(
    "--split",
    type=SPLITS,
    default="test",
    show_default=True,
    help="The held-out pairs to measure on: choose options on `validation`, report results on `test`.",
)
limit = click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="Use only the first N pairs of the split."
)
checkpoint_every = click.option(
    "--checkpoint-every",
    "every",
    type=Number(min=0),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="Time between checkpoints; longer if writing them would take over 2 % of the time. 0: after every step.",
)
output_table = click.option(
    "-o",
    "--output-file",
    "target",
    metavar="FILE",
    default="",
    help="The .csv, .tsv, .jsonl or .parquet file to write [default: standard output].",
)


def output_file(text: str) -> Decorator:
    """Add `-o FILE`, given to the command as `file`, None if it is not given."""
    return click.option("-o", "--output-file", "file", metavar="FILE", help=text)


def count_option(text: str) -> Decorator:
    """Add `--processes N`, given to the command as `count`."""
    kind = click.IntRange(min=1, max=MOST_PROCESSES)
    return click.option("--processes", "count", type=kind, default=1, show_default=True, metavar="N", help=text)


class RunFolder(click.ParamType[str]):
    """The path of a run folder, which exists, or the name of an installed model; a shell completes the path."""

    name = "run"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse a path that is not a folder; only the main process of several needs it on its disk."""
        from ele_core.errors import ConfigError
        from ele_core.model.pretrained import installed_models
        from ele_core.runtime.launchers import is_main

        if Path(value).is_dir() or not is_main():
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


@dataclasses.dataclass(frozen=True)
class Console:
    """How much a command prints, and in which form."""

    quiet: bool = False
    verbose: bool = False
    as_json: bool = False

    def monitor(self, afterwards: Sequence[str] = ()) -> Monitor:
        """A monitor that prints messages and progress, or nothing if `quiet`."""
        from ele_core.runtime.monitor import ConsoleMonitor, Monitor

        return Monitor() if self.quiet else ConsoleMonitor(afterwards=afterwards)

    def show(self, text: str) -> None:
        """Print a part of the result for people; nothing if the result is printed as JSON."""
        if not self.as_json:
            click.echo(harmless(text))

    def hint(self, text: str) -> None:
        """Print what to do next; nothing if `quiet` or if the result is printed as JSON."""
        if not self.quiet:
            self.show(text)

    def note(self, text: str) -> None:
        """Print a message to standard error; nothing if `quiet`."""
        if not self.quiet:
            click.echo(harmless(text), err=True)

    def json(self, content: Any) -> None:
        """Print the result as one JSON document if that was asked for."""
        if self.as_json:
            click.echo(escaped(json.dumps(content, indent=2, ensure_ascii=False)))

    def configuration(self, config: RunConfig) -> None:
        """If `verbose`, print the versions, the device and every option to standard error."""
        if not self.verbose:
            return
        from ele_core import config as configuration
        from ele_core.runs.training import versions
        from ele_core.runtime.device import pick_device

        click.echo(", ".join(f"{name} {version}" for name, version in versions(config).items()), err=True)
        shown = f"device: {pick_device(config.device)}\n{configuration.dump(config)}"
        click.echo(harmless(shown), err=True, nl=False)


def escaped(document: str) -> str:
    """A JSON document with the characters that a terminal would obey written as escapes."""
    return "".join(f"\\u{ord(each):04x}" if ord(each) in CONTROLS else each for each in document)


def output(command: Command) -> Command:
    """Add `--quiet` and `--verbose`, given to the command as a `Console`, together with `--json` if it has that."""

    @click.option("-v", "--verbose", is_flag=True, help="Also print versions and options; for an error, its traceback.")
    @click.option("-q", "--quiet", is_flag=True, help="Print only results and errors: no messages, no progress.")
    @functools.wraps(command)
    def with_console(*args: Any, quiet: bool, verbose: bool, as_json: bool = False, **kwargs: Any) -> Any:
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


def settings(*names: str, example: str = "surrogate.dim=64") -> Decorator:
    """Add these `SETTINGS` and `--set PATH=VALUE`, given to the command as `overrides`: one table of values.

    `--set` takes precedence. Its help shows the example.
    """
    text = f"Set an option of the configuration, as in --set {example}. May be repeated."

    def decorate(command: Any) -> Any:
        @functools.wraps(command)
        def merged(*args: Any, overrides: tuple[str, ...], **kwargs: Any) -> Any:
            from ele_core.config import as_changes, merge

            typed = as_changes(overrides)
            values = {name: value for name in names if (value := kwargs.pop(name)) is not None}
            refuse_two_lengths(values, typed)
            if "decoder" in values:
                values["decoder"] = decoder_section(values["decoder"])
            return command(*args, overrides=merge(values, typed), **kwargs)

        added = click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help=text)
        return functools.reduce(lambda decorated, name: SETTINGS[name](decorated), reversed(names), added(merged))

    return decorate


decoding = settings("device", "decoder", example="decoder.steps=200")
"""The options of commands that decode with a trained model."""


def refuse_two_lengths(values: Mapping[str, Any], typed: Mapping[str, Any]) -> None:
    """Refuse `--epochs` together with `--minutes`, or with the length of one network."""
    from ele_core.config.diff import flatten

    lengths = [name for name in LENGTH if name in values]
    if len(lengths) > 1:
        raise click.UsageError("--epochs and --minutes exclude each other.")
    single = [f"{path}={value}" for path, value in flatten(typed).items() if path.endswith((".epochs", ".minutes"))]
    if lengths and single:
        raise click.UsageError(f"--{lengths[0]} is for all networks: omit it or --set {single[0]}.")


def decoder_section(name: str) -> dict[str, Any]:
    """The section of a decoder, or of a variant that one declares."""
    if name in registry().names("decoder"):
        return {"name": name}
    from ele_core.errors import ConfigError
    from ele_core.experiments.sweep import installed_lines

    variants = installed_lines(registry())
    if name in variants:
        return variants[name].choice.model_dump()
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

    @count_option("Share the work among N processes on this machine (on several machines: torchrun -m ele_core …).")
    @functools.wraps(command)
    def shared(*args: Any, count: int, **kwargs: Any) -> Any:
        if count == 1 or {"RANK", "WORLD_SIZE"} <= os.environ.keys():
            return command(*args, **kwargs)
        from ele_core.cli.launch import launch

        sys.exit(launch(count, sys.argv[1:]))

    return shared  # type: ignore[no-any-return]


def source_or_data(on_error: str) -> Decorator:
    """Add `[FILE|CONFIG|TASK]`, or `--data FILE` with its columns and `--output-space NAME`.

    The command gets what to load as `source`, and the options of the file within `overrides`: place it below
    `settings`. `on_error` is the default that help names.
    """

    def decorate(command: Any) -> Any:
        @click.argument(
            "source", metavar="[FILE|CONFIG|TASK]", required=False, shell_complete=completion.sources("task")
        )
        @click.option(
            "--data",
            metavar="FILE",
            help="Your own pairs: .csv, .tsv, .jsonl, .parquet, .npz, .smi, plain lines or what a plugin reads.",
        )
        @click.option(
            "--input",
            metavar="COLUMNS",
            multiple=True,
            help="Column of the inputs, or several joined into a vector: a,b or b0:b9 [default: the first]. Repeat it "
            "for columns of different kinds, each read by itself.",
        )
        @click.option("--output", metavar="COLUMN", help="Column of the outputs [default: the last].")
        @click.option(
            "--on-error",
            type=click.Choice(["raise", "skip"]),
            help=f"Rows that cannot be used: list them and stop (raise), or omit them (skip) [default: {on_error}].",
        )
        @click.option(
            "--output-space",
            metavar="NAME",
            shell_complete=completion.components("output"),
            help="What the outputs of your file are, instead of CONFIG|TASK: `ele plugins` lists the names "
            "[default: one that takes any text].",
        )
        @functools.wraps(command)
        def merged(
            source: str | None,
            data: str | None,
            output_space: str | None,
            overrides: dict[str, Any],
            **kwargs: Any,
        ) -> Any:
            from ele_core.config import merge

            columns = {name: kwargs.pop(name) for name in ("input", "output", "on_error")}
            given = columns["input"]
            columns["input"] = given[0] if len(given) == 1 else given or None
            if data is None and source is not None and is_table(source):
                source, data = None, source
            if data is None and any(columns.values()):
                raise click.UsageError("--input, --output and --on-error describe the file of --data: give it too.")
            if source is None and data is not None and output_space is None:
                start = kwargs.get("start")
                output_space = (
                    output_of_any_text(data, quiet=kwargs.get("quiet", False)) if start is None else output_of(start)
                )
            chosen = chosen_source(source, output_space, data)
            if data is not None:
                if on_error != "raise":  # which is the default of the configuration
                    columns["on_error"] = columns["on_error"] or on_error
                named = {key: text for key, text in columns.items() if text is not None}
                overrides = merge({"data": {"file": str(Path(data).resolve()), **named}}, overrides)
            return command(source=chosen, overrides=overrides, **kwargs)

        return merged

    return decorate


def chosen_source(source: str | None, output_space: str | None, data: str | None) -> str | dict[str, Any]:
    """Return what the configuration is loaded from: the file or task, or else the output space alone."""
    if source is not None and output_space is not None:
        raise click.UsageError(f"Give either {source} or --output-space {output_space}: both say what is predicted.")
    if source is not None:
        return source
    if output_space is None:
        raise click.UsageError("Give your own pairs, FILE --output-space NAME, or CONFIG|TASK.")
    if data is None:
        raise click.UsageError("--output-space says what the outputs of --data are: give --data FILE too.")
    registry().provider("output", output_space)  # raises if there is none of this name
    return {"output": {"name": output_space}}


def is_table(source: str) -> bool:
    """Whether an argument names a file of pairs: any file with a suffix other than that of a configuration."""
    return Path(source).suffix not in ("", ".toml") and Path(source).is_file()


def output_of(model: str) -> str:
    """The output space of a trained model."""
    from ele_core.runs.run import open_model

    return open_model(model, registry()).config.output.name


def output_of_any_text(data: str, *, quiet: bool) -> str:
    """The output space of a file whose user names none: the first that takes any text; a line says so."""
    spaces = registry().usable("output")
    found = next((name for name, space in spaces.items() if space.Texts.any_text), None)
    if found is None:
        names = ", ".join(spaces)
        raise click.UsageError(f"Say what the outputs of {data} are: --output-space NAME, one of {names}.")
    if not quiet and "RANK" not in os.environ:  # of several processes, the one that starts the others says it
        others = ", ".join(name for name in spaces if name != found)
        click.echo(f"outputs are read as '{found}'; if they are something else: --output-space {others}", err=True)
    return found
