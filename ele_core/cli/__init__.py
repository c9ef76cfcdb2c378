"""The `ele` command. Command modules import what is heavy only when they run."""

from __future__ import annotations

import sys

import click

from ele_core import __version__
from ele_core.cli.debug import debug
from ele_core.cli.evaluate import evaluate
from ele_core.cli.init import init
from ele_core.cli.plugins import plugins
from ele_core.cli.predict import predict
from ele_core.cli.train import train
from ele_core.errors import EleError

EPILOG = """
\b
A first run, in a few minutes:
  ele train number-words -o run     learn to read numbers
  ele evaluate run                  measure it on unseen numbers
  echo "forty-two" | ele predict run -
"""


@click.group(epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="ele")
def cli() -> None:
    """Structured prediction with a learned, differentiable loss, for any output space."""


for command in (init, train, evaluate, predict, plugins, debug):
    cli.add_command(command)


def main() -> None:
    """Run the command line: an error of ours is one paragraph and an exit code, never a traceback."""
    try:
        cli(prog_name="ele")
    except EleError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(1)
    except OSError as error:  # a full disk, a folder that cannot be written: the system's own words are enough
        click.echo(f"Error: {error}", err=True)
        sys.exit(1)
