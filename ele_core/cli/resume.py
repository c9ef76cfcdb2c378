"""`ele resume`: continue a training that was stopped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ele_core.cli import options
from ele_core.cli.train import finished

if TYPE_CHECKING:
    from ele_core.runtime.monitor import Callback


@click.command()
@click.argument("run", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--accept-changes",
    is_flag=True,
    help="Continue although training options, or versions of ELE, torch or a plugin, have changed.",
)
@options.checkpoint_every
@options.with_report
@options.log
@options.overrides
@options.processes
def resume(
    run: str,
    accept_changes: bool,
    every: float,
    with_report: bool,
    callbacks: list[Callback],
    overrides: tuple[str, ...],
) -> None:
    """Continue a training from its last checkpoint.

    The weights and metrics of RUN will be the same as without the interruption.

    \b
    ele resume run
    ele resume run --set regressor.training.learning_rate=1e-4 --accept-changes
    """
    from ele_core.runs.run import Run
    from ele_core.runtime.distributed import process_group
    from ele_core.runtime.monitor import ConsoleMonitor

    with process_group() as processes:
        done = Run.resume(
            Path(run),
            ConsoleMonitor(),
            every=every,
            accept_changes=accept_changes,
            overrides=overrides,
            registry=options.registry(),
            callbacks=callbacks,
        )
        finished(done, processes, with_report)
