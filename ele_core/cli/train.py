"""`ele train`: learn a loss, regress onto it, and keep the result as a run folder."""

from __future__ import annotations

from pathlib import Path

import click

from ele_core.cli import options


@click.command()
@click.argument("source", metavar="CONFIG|TASK")
@click.option("-o", "--output-folder", "folder", metavar="RUN", help="The run folder [default: runs/NAME-N].")
@options.data_options
@options.overrides
def train(
    source: str,
    folder: str | None,
    data: str | None,
    input: str | None,  # noqa: A002  # click names arguments after options
    output: str | None,
    on_error: str | None,
    overrides: tuple[str, ...],
) -> None:
    """Train from a TOML file, or from a task's name for its defaults.

    \b
    ele train number-words -o run
    ele train my.toml --set seed=1
    ele train smi2mol --data pairs.csv --input name --output smiles -o run
    """
    from ele_core import config as configuration
    from ele_core.monitor import ConsoleMonitor
    from ele_core.runs import Run, free_folder

    columns = {"input": input, "output": output, "on_error": on_error}
    config = configuration.load(source, [*options.data_overrides(data, columns), *overrides])
    target = Path(folder) if folder else free_folder(Path("runs"), Path(source).stem)
    run = Run.start(config, target, ConsoleMonitor())
    click.echo(f"Trained: {run.folder}")
    click.echo(f"Next: ele evaluate {run.folder}, or ele predict {run.folder} FILE")
