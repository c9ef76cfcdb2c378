"""`ele train` and `ele resume`: train into a run folder, or continue a training that was stopped."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ele_core.cli import options
from ele_core.cli.report import report_at_end
from ele_core.errors import counted

if TYPE_CHECKING:
    from ele_core.runs.run import Run
    from ele_core.runtime.distributed import Processes
    from ele_core.runtime.monitor import Callback, Monitor


@click.command()
@click.option("-o", "--output-folder", "folder", metavar="RUN", help="The run folder [default: runs/NAME-N].")
@click.option(
    "--from",
    "start",
    type=options.RunFolder(),
    metavar="MODEL",
    help="Start from a trained model: a run, a folder or an installed model. Its output space and its learned loss are "
    "kept; if it reads the same kind of inputs, its regressor is trained further, otherwise a new one is trained.",
)
@click.option(
    "--surrogate-from",
    type=options.RunFolder(),
    metavar="RUN",
    help="Use the learned surrogate of a finished run with the same output and surrogate; train only the regressor.",
)
@click.option(
    "--resume",
    "again",
    is_flag=True,
    help="Continue the run in RUN if one was begun with the same data and options: for schedulers that start the same "
    "command again. Under `torchrun --max-restarts` and in a requeued job of Slurm this is the default.",
)
@options.checkpoint_every
@options.with_report
@options.log
@options.settings(*options.TRAINING, *options.LENGTH)
@options.source_or_data(on_error="raise")
@options.as_json
@options.output
@options.processes
def train(
    source: str | dict[str, Any],
    folder: str | None,
    start: str | None,
    surrogate_from: str | None,
    again: bool,
    every: float,
    with_report: bool,
    callbacks: list[Callback],
    overrides: dict[str, Any],
    console: options.Console,
) -> None:
    """Train a model on your own pairs, from a TOML file, or on a task.

    Components and sizes that you do not give come from a recipe, which is printed; --recipe chooses another. With
    your own pairs it is `learned`, which learns the loss from structures and pairs; `paper` learns it from structures
    alone. A task brings its own.

    Ctrl-C or SIGTERM writes a checkpoint and stops; `ele resume RUN` then continues to the same result. At the end the
    test inputs are decoded, and RUN/report.html shows the outcome.

    \b
    ele train pairs.csv -o run
    ele train pairs.csv --output-space molecule --recipe paper -o run
    ele train number-words -o run --minutes 10
    ele train my.toml --seed 1 --set regressor.training.learning_rate=1e-3
    ele train number-words -o run --processes 2
    ele train smi2mol --data pairs.csv --input name --output smiles -o run
    ele train pairs.csv --from smi2mol -o run
    """
    from ele_core import config as configuration
    from ele_core.errors import ConfigError, EleError
    from ele_core.files.atomic import free_folder
    from ele_core.runs.run import Run, open_model
    from ele_core.runtime.distributed import process_group
    from ele_core.runtime.launchers import starts_again

    again = again or starts_again()
    if again and folder is None:
        what = "a training that is started again must find its run."
        raise ConfigError(what, where="-o", fix="Name the run folder: -o RUN.")
    if start is not None:
        if surrogate_from is not None:
            raise click.UsageError("--from and --surrogate-from exclude each other.")
        overrides = configuration.merge(overrides, {"start": {"name": open_model(start, options.registry()).name}})
    config = configuration.load(source, overrides, options.registry())
    console.configuration(config)
    if said := competing():
        console.note(said)
    started = time.monotonic()
    monitor = console.monitor(afterwards=["decoding"] if with_report else ())
    with process_group() as processes:
        reserved = folder is None and processes.main
        name = Path(source).stem if isinstance(source, str) else str(source["output"]["name"])
        free = str(free_folder(Path("runs"), name)) if reserved else ""
        target = Path(processes.text_from_main(folder or free))
        earlier = Run(surrogate_from, options.registry()) if surrogate_from and processes.main else None
        try:
            run = Run.start(
                config, target, monitor, every=every, surrogate_from=earlier, callbacks=callbacks, again=again
            )
        except EleError:
            if reserved:
                with suppress(OSError):  # not empty: the training had begun
                    target.rmdir()
            raise
        finished(run, processes, monitor, console, f"Trained: {run.folder}", with_report, started)


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
    console: options.Console,
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
    with process_group() as processes:
        before = bool(processes.largest(int(processes.main and not unfinished(Path(run)))))
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
        written = processes.largest(int(processes.main and before and (done.folder / "report.html").is_file()))
        finished(done, processes, monitor, console, outcome, with_report and not written, started)


def competing() -> str:
    """A line on other programs that compete for the cores; empty if there are none, or one thread that waits little."""
    import torch

    threads, cores = torch.get_num_threads(), os.cpu_count() or 1
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if threads == 1 or load < cores:
        return ""
    busy = f"this machine is busy (load {load:.1f}, {counted(cores, 'core')})"
    return f"{busy}: the {threads} threads of the training compete with other programs. OMP_NUM_THREADS=1 may be faster"


def finished(
    run: Run,
    processes: Processes,
    monitor: Monitor,
    console: options.Console,
    outcome: str,
    with_report: bool,
    started: float,
) -> None:
    """Print the outcome, write the report of the run if `with_report`, and print what to do next."""
    if processes.main:
        console.show(outcome)
    metrics, report = report_at_end(run, processes, monitor, console) if with_report else (None, None)
    if processes.main:
        from ele_core.errors import command

        console.hint(f"Next: {command('evaluate', run.folder)}, or {command('predict', run.folder, 'FILE')}")
        seconds = round(time.monotonic() - started, 1)
        console.json({"run": str(run.folder), "metrics": metrics, "report": report, "seconds": seconds})
