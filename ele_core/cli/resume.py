"""`ele resume`: go on with a training that was stopped."""

from __future__ import annotations

from pathlib import Path

import click

from ele_core.cli import options
from ele_core.cli.train import finished


@click.command()
@click.argument("run", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--accept-changes",
    is_flag=True,
    help="Go on although options of training, or versions of ELE, torch or a plugin, have changed.",
)
@options.checkpoint_every
@options.with_report
@options.log
@options.overrides
@options.processes
def resume(
    run: str, accept_changes: bool, every: float, with_report: bool, log: str | None, overrides: tuple[str, ...]
) -> None:
    """Go on with RUN from its last checkpoint: weights and metrics end as if it had never stopped.

    \b
    ele resume run
    ele resume run --set regressor.training.learning_rate=1e-4 --accept-changes
    """
    from ele_core.runs.run import Run
    from ele_core.runtime.distributed import joined
    from ele_core.runtime.monitor import ConsoleMonitor

    with joined() as processes:
        done = Run.resume(
            Path(run), ConsoleMonitor(), every=every, accept_changes=accept_changes, overrides=overrides, log=log
        )
        finished(done, processes, with_report)
