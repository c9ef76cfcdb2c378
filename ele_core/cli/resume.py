"""`ele resume`: continue a training that was stopped."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ele_core.cli import options
from ele_core.cli.train import finished

if TYPE_CHECKING:
    from ele_core.cli.console import Console
    from ele_core.runs.run import Run
    from ele_core.runtime.monitor import Callback


@click.command()
@options.run
@click.option(
    "--accept-changes",
    is_flag=True,
    help="Continue although training options, or versions of ELE, torch or a plugin, have changed.",
)
@options.checkpoint_every
@options.with_report
@options.log
@options.settings("device")
@options.as_json
@options.output
@options.processes
def resume(
    run: str,
    accept_changes: bool,
    every: float,
    with_report: bool,
    callbacks: list[Callback],
    overrides: dict[str, Any],
    console: Console,
) -> None:
    """Continue a training from its last checkpoint.

    The weights and metrics of RUN will be the same as without the interruption. A run that has finished stays as it is;
    only a missing report is written.

    \b
    ele resume run
    ele resume run --set regressor.training.learning_rate=1e-4 --accept-changes
    """
    from ele_core.runs.folder import unfinished
    from ele_core.runs.run import Run
    from ele_core.runtime.distributed import process_group

    monitor, started = console.monitor(afterwards=["decoding"] if with_report else ()), time.monotonic()
    before = not unfinished(Path(run))
    with process_group() as processes:
        done = Run.resume(
            Path(run),
            monitor,
            every=every,
            accept_changes=accept_changes,
            overrides=overrides,
            registry=options.registry(),
            callbacks=callbacks,
        )
        outcome = f"{'Finished already' if before else 'Trained'}: {run}"
        finished(done, processes, monitor, console, outcome, with_report and not has_report(done, before), started)


def has_report(run: Run, finished_before: bool) -> bool:
    """Whether the report of a run that had finished before is written already."""
    return finished_before and (run.folder / "report.html").is_file()
