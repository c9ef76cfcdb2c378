"""`ele report`: write an HTML page about a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ele_core.cli import options

if TYPE_CHECKING:
    from ele_core.runs.run import Run
    from ele_core.runtime.distributed import Processes


@click.command()
@click.argument("run", type=click.Path(exists=True, file_okay=False))
@click.option("-o", "--output-file", "file", metavar="FILE", help="The file to write [default: RUN/report.html].")
@click.option(
    "--split",
    type=click.Choice(["test", "validation"]),
    help="Which pairs to show [default: test, or validation if no test pairs were held out].",
)
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Use only the first N pairs of the split.")
@click.option(
    "--examples",
    type=click.IntRange(min=0),
    default=150,
    show_default=True,
    metavar="N",
    help="Draw N predictions: a third each of the worst, typical and best. The page lists the others as text.",
)
@options.decoder
@options.overrides
def report(
    run: str,
    file: str | None,
    split: str | None,
    limit: int | None,
    examples: int,
    decoder: str | None,
    overrides: tuple[str, ...],
) -> None:
    """Write one HTML page about a run.

    The page shows metrics, predictions as pictures, how decoding went, the embedding and the training. It is a single
    file that loads nothing else: send it by e-mail, open it anywhere. Evaluations stored with the same options are
    used, missing ones are made, also with --oracle, which separates errors of the regression from errors of decoding.
    Run the same command again after an interruption.

    \b
    ele report run
    ele report run --decoder pgd -o pgd.html
    ele report run --split validation --limit 200 --set decoder.width=8
    """
    from ele_core.report import Wanted, split_for, write_report
    from ele_core.runs.run import Run
    from ele_core.runtime.monitor import ConsoleMonitor

    opened = Run(run, options.registry())
    chosen = [f"decoder={decoder}"] if decoder else []
    wanted = Wanted(split or split_for(opened), limit, (*chosen, *overrides), examples)
    written = write_report(opened, wanted, ConsoleMonitor(), Path(file) if file else None)
    click.echo(f"Report: {written}")


def report_at_end(run: Run, processes: Processes) -> None:
    """Write the report of a training that has just finished; a failure is only a warning, as the run is trained.

    Several processes share the decoding, and the main one writes the page.
    """
    from ele_core.errors import Interrupted
    from ele_core.report import Wanted, evaluate_for_report, metrics_before, split_for, write_report
    from ele_core.runtime.monitor import ConsoleMonitor, Monitor

    monitor = ConsoleMonitor() if processes.main else Monitor()
    again = f"Write it with: ele report {run.folder}"
    try:
        wanted = Wanted(split_for(run))
        evaluate_for_report(run, wanted, monitor, processes)
        if processes.main:
            for name, value in metrics_before(run, wanted).items():
                click.echo(f"  {name}  {value:.4g}")
            click.echo(f"Report: {write_report(run, wanted, monitor)}")
    except Interrupted as stopped:
        what = "stopped while writing the report; the run is trained."
        raise Interrupted(what, where=str(run.folder), signal=stopped.exit_code - 128, fix=again) from None
    except Exception as error:
        if processes.main:
            click.echo(f"Warning: no report was written: {error or type(error).__name__} {again}", err=True)
