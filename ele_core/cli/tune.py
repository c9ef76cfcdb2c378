"""`ele tune`: search for good options, measured on validation pairs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from ele_core.cli import options

WORKER = "ELE_TUNE_WORKER"
"""The environment variable that is set in processes started by `ele tune --processes`."""


@click.command()
@options.source
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="The total number of trials, earlier ones included.",
)
@click.option("--storage", metavar="FILE", help="The file that stores the trials [default: NAME-trials.journal].")
@click.option("--space", metavar="FILE.toml", help="The options and ranges to search [default: those of the task].")
@options.output_file("The file to write the best configuration to [default: best.toml].")
@options.limit
@click.option(
    "--prune",
    is_flag=True,
    help="End a trial early if the evaluations of its regressor are worse than the median so far.",
)
@click.option(
    "--keep", metavar="FOLDER", help="Keep the run of every trial in this folder [default: runs are removed]."
)
@options.count_option("Run N trials at a time.")
@options.settings(*options.TRAINING)
@options.as_json
@options.output
def tune(
    source: str,
    trials: int,
    storage: str | None,
    space: str | None,
    file: str | None,
    limit: int | None,
    prune: bool,
    keep: str | None,
    count: int,
    overrides: dict[str, Any],
    console: options.Console,
) -> None:
    """Search for good options and write the best configuration.

    A trial trains a run and measures the primary metric on its validation pairs; the test pairs are never used.
    The values are drawn by optuna's TPE sampler from the seed, within the ranges of the task or of FILE.toml:

    \b
    "surrogate.encoder.width" = {choices = [32, 64, 128]}
    "regressor.training.learning_rate" = {low = 1e-4, high = 1e-2, log = true}
    "regressor.backbone.layers" = {low = 1, high = 4}

    A trial that fails is stored with its reason, and the search continues. Stop it at any time: the same command
    continues until there are --trials in total. Several processes can share one --storage at the same time.

    \b
    ele tune smi2mol --set task.size=20000 --trials 30
    ele tune my.toml --space ranges.toml --processes 2 -o best.toml
    ele train best.toml -o run
    """
    from ele_core import config as configuration
    from ele_core.errors import ConfigError, command
    from ele_core.experiments.tune import TuningSearch, as_dict, table
    from ele_core.files.atomic import write_text
    from ele_core.runtime.monitor import Monitor

    target = file or "best.toml"
    if Path(target).resolve() == Path(source).resolve():
        raise ConfigError("would be overwritten.", where=target, fix="Choose another file with -o.")
    journal = Path(storage or f"{Path(source).stem}-trials.journal")
    ranges, runs = Path(space) if space else None, Path(keep) if keep else None
    search = TuningSearch.of(
        source, overrides, ranges, journal, limit=limit, prune=prune, keep=runs, registry=options.registry()
    )
    if count > 1 and WORKER not in os.environ:
        from ele_core.cli.launch import side_by_side

        code = side_by_side(sys.argv[1:], [{WORKER: str(number)} for number in range(count)])
        if code:
            sys.exit(code)
    else:
        search.run(trials, console.monitor())
    if WORKER in os.environ:
        return
    metric = search.metric(Monitor())
    study = search.open(metric)
    best, known = search.best(study, console.monitor()), study.get_trials(deepcopy=False)
    write_text(Path(target), configuration.dump(search.config(best.params)))
    console.show(table(known, metric.name, best.number))
    console.show(f"Best: trial {best.number}, {metric.name} {best.value:.4f} on validation pairs. Wrote {target}")
    console.hint(f"Next: {command('train', target, '-o', 'run')}")
    trials_made = [as_dict(trial) for trial in known]
    console.json({"metric": metric.name, "best": as_dict(best), "trials": trials_made, "file": target})
