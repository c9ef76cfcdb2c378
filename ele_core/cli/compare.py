"""`ele compare`: several runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ele_core.cli import options

if TYPE_CHECKING:
    from ele_core.cli.console import Console


@click.command()
@click.argument("runs", metavar="RUN RUN...", nargs=-1, required=True, type=options.RunFolder())
@options.output_file("Also write the comparison as an HTML page.")
@options.as_json
@options.output
def compare(runs: tuple[str, ...], file: str | None, console: Console) -> None:
    """Print the metrics of several runs side by side.

    Training times and the options that differ are printed too. Nothing is measured: the metrics are those that
    `ele evaluate` and `ele report` stored, for each decoder. A star marks the best value of a row. Runs on different
    data are shown with a warning.

    \b
    ele compare run-1 run-2
    ele compare runs/* -o comparison.html
    """
    from ele_core.report import write_comparison
    from ele_core.report.comparison import compare as compared

    if len(runs) < 2:
        raise click.UsageError("Give at least two runs.")
    comparison = compared(runs, options.registry())
    page = str(write_comparison(comparison, Path(file))) if file else None
    console.show(str(comparison))
    if page:
        console.show(f"\nPage: {page}")
    console.json({**comparison.as_dict(), "page": page})
