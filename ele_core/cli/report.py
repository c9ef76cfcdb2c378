"""`ele report` and `ele compare`: an HTML page about a run, several runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ele_core.cli import options
from ele_core.cli.evaluate import show_baselines, show_verdict
from ele_core.display.text import harmless

if TYPE_CHECKING:
    from ele_core.runs.run import Run
    from ele_core.runtime.distributed import Processes
    from ele_core.runtime.monitor import Monitor


@click.command()
@options.run
@options.output_file("The file to write [default: RUN/report.html].")
@click.option(
    "--split",
    type=options.SPLITS,
    help="Which pairs to show [default: test, or validation if no test pairs were held out].",
)
@options.limit
@click.option(
    "--examples",
    type=click.IntRange(min=0),
    default=150,
    show_default=True,
    metavar="N",
    help="Draw N predictions: a third each of the worst, typical and best. The page lists the others as text.",
)
@options.decoding
@options.output
def report(
    run: str,
    file: str | None,
    split: str | None,
    limit: int | None,
    examples: int,
    overrides: dict[str, Any],
    console: options.Console,
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

    opened = Run(run, options.registry())
    wanted = Wanted(split or split_for(opened), limit, overrides, examples)
    written = write_report(opened, wanted, console.monitor(), Path(file) if file else None)
    click.echo(f"Report: {written}")


@click.command()
@click.argument("runs", metavar="RUN RUN...", nargs=-1, required=True, type=options.RunFolder())
@options.output_file("Also write the comparison as an HTML page.")
@options.as_json
@options.output
def compare(runs: tuple[str, ...], file: str | None, console: options.Console) -> None:
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


def report_at_end(
    run: Run, processes: Processes, monitor: Monitor, console: options.Console
) -> tuple[dict[str, float] | None, str | None]:
    """Write the report of a training that has just finished; return its metrics and the path of the page.

    A failure is only a warning, as the run is trained. Several processes share the decoding, and the main one writes.
    """
    from ele_core.errors import Interrupted, command
    from ele_core.model.metrics import texts
    from ele_core.report import Wanted, evaluate_for_report, metrics_before, split_for, write_report
    from ele_core.runtime.monitor import Monitor

    shown = monitor if processes.main else Monitor()
    metrics: dict[str, float] | None = None
    again = f"Write it with: {command('report', run.folder)}"
    try:
        wanted = Wanted(split_for(run))
        evaluate_for_report(run, wanted, shown, processes)
        if processes.main:
            metrics = dict(metrics_before(run, wanted))
            for name, text in texts(metrics, "{:.4g}".format).items():
                console.show(f"  {name}  {text}")
            if stored := run.stored(wanted.split, wanted.limit, oracle=False):
                show_baselines(stored, run, console)
                show_verdict(stored, run, console)
            page = str(write_report(run, wanted, shown))
            console.show(f"Report: {page}")
            return metrics, page
    except Interrupted as stopped:
        what = "stopped while writing the report; the run is trained."
        raise Interrupted(what, where=str(run.folder), signal=stopped.exit_code - 128, fix=again) from None
    except Exception as error:
        if processes.main:
            reason = harmless(str(error) or type(error).__name__)
            click.echo(f"Warning: no report was written: {reason} {again}", err=True)
    return metrics, None
