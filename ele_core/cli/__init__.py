"""The `ele` command. Command modules import heavy packages only when they run."""

from __future__ import annotations

import gc
import os
import signal
import sys
import warnings
from contextlib import redirect_stdout, suppress
from typing import Any

import click

from ele_core import __version__
from ele_core.cli.calibrate import calibrate
from ele_core.cli.check import check
from ele_core.cli.configuration import debug, init
from ele_core.cli.evaluate import evaluate
from ele_core.cli.example import example
from ele_core.cli.export import export
from ele_core.cli.index import index
from ele_core.cli.launch import stop_with_parent
from ele_core.cli.neighbours import neighbours
from ele_core.cli.plugins import new_plugin, plugins
from ele_core.cli.predict import predict
from ele_core.cli.report import compare, report
from ele_core.cli.reproduce import reproduce
from ele_core.cli.serve import serve
from ele_core.cli.sign import sign
from ele_core.cli.sweep import sweep
from ele_core.cli.train import resume, train
from ele_core.cli.try_ import try_
from ele_core.cli.tune import tune
from ele_core.display.text import harmless
from ele_core.errors import EleError, described
from ele_core.plugins.contained import OwnOutput, blamed

RARELY = (200_000, 30, 30)
"""Thresholds of the garbage collector: at Python's own, each command searches the objects of torch for garbage."""
KEY = "ELE_KEY"
"""The environment variable with the path of the key that models are signed with, as `ele_core.files.signatures`."""
EPILOG = """
\b
A first run, in a few minutes:
  ele example dates.csv             a table of 2,000 dates as people write them
  ele train dates.csv -o run        learn to read them; ends with run/report.html
  echo "the 4th of May 2027" | ele predict run -
  ele try run                       type inputs on a page of your own
"""


@click.group(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="ele")
@click.option(
    "--key",
    metavar="FILE",
    help="Refuse models that were not signed with this key (see `ele sign`), or were changed since. Sign new models.",
)
def cli(key: str | None) -> None:
    """Structured prediction with a learned, differentiable loss, for any output space."""
    if key is not None:
        os.environ[KEY] = key  # for this process and those that it starts


COMMANDS = (
    example,
    init,
    train,
    resume,
    evaluate,
    report,
    compare,
    predict,
    calibrate,
    index,
    neighbours,
    try_,
    serve,
    export,
    sign,
    sweep,
    tune,
    reproduce,
    plugins,
    new_plugin,
    check,
    debug,
)
for command in COMMANDS:
    cli.add_command(command)


def main() -> None:
    """Run the command line; an `EleError` prints one paragraph and sets the exit code, without a traceback."""
    stop_with_parent()
    gc.set_threshold(*RARELY)
    with warnings.catch_warnings():
        warnings.showwarning = show_warning
        run()


def run() -> None:
    """Run the command line and exit with its code."""
    try:
        with blamed(), redirect_stdout(OwnOutput(sys.stdout)):
            code = cli(prog_name="ele", standalone_mode=False)
        sys.stdout.flush()
        sys.exit(code or 0)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.NoSuchOption as error:
        fail_with_usage(error)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except EleError as error:
        fail(str(error), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        fail("stopped.", 128 + signal.SIGINT)
    except BrokenPipeError:
        close_output()
        sys.exit(1)
    except OSError as error:  # a full disk, a folder that cannot be written
        close_output()
        fail(described(error), 1)


def close_output() -> None:
    """Discard what is still to be printed: Python would try again at exit, and fail with a traceback."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning as one line, without the place in the code."""
    click.echo(f"Warning: {harmless(str(message))}", err=True)


def fail_with_usage(error: click.NoSuchOption) -> None:
    """Print the usage and the unknown option; a command with `--set` also says how that is used."""
    parameters = error.ctx.command.params if error.ctx else []
    helps = [p.help for p in parameters if isinstance(p, click.Option) and p.name == "overrides"]
    advice = f" {str(helps[0]).removesuffix(' May be repeated.')}" if helps else ""
    click.UsageError(error.format_message() + advice, error.ctx).show()
    sys.exit(error.exit_code)


def fail(reason: str, code: int) -> None:
    """Print the reason and exit with `code`."""
    click.echo(f"Error: {harmless(reason)}", err=True)
    sys.exit(code)
