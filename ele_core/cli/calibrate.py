"""`ele calibrate`: learn the confidence of a run's predictions from held-out pairs."""

from __future__ import annotations

from typing import Any

import click

from ele_core.cli import options


@click.command()
@options.run
@click.option("--data", "file", metavar="FILE", help="Pairs that were not used in the training, as for ele train.")
@click.option("--input", "input_", metavar="COLUMNS", help="Columns of the inputs in FILE [default: as in training].")
@click.option("--output", metavar="COLUMN", help="Column of the outputs in FILE [default: as in training].")
@click.option(
    "--folds", type=click.IntRange(2, 20), metavar="N", help="Use the training pairs: train N more models, see above."
)
@options.decoding
@options.as_json
@options.output
def calibrate(
    run: str,
    file: str | None,
    input_: str | None,
    output: str | None,
    folds: int | None,
    overrides: dict[str, Any],
    console: options.Console,
) -> None:
    """Learn the confidence of predictions from held-out pairs.

    Afterwards `ele predict RUN` writes a column confidence, the probability that a prediction is exact, and can give
    sets of structures that hold the truth as often as asked (--coverage).

    Without FILE, the pairs are those that the training set aside (calibration.pairs), or else the validation pairs:
    these chose the weights, so confidence and coverage are then only approximate. Pairs of FILE must be like those that
    the model is going to be used on, and not in its training. `--decoder` and `--set` choose the decoder to calibrate;
    predictions with another have no confidence. A calibration replaces an earlier one.

    With few pairs, when none can be set aside, --folds 3 learns the confidence from the training pairs: three more
    models are trained, each on two thirds of them, and predict the rest. It takes about three times as long as the
    training, and errs on the careful side, because these models saw fewer pairs.

    \b
    ele calibrate run
    ele calibrate run --data new-pairs.csv
    ele calibrate run --folds 3
    ele calibrate run --decoder candidates
    """
    from ele_core.config import DataConfig
    from ele_core.model.trust.assess import cross_validated, described
    from ele_core.runs.calibrate import calibrate_run

    if file is None and (input_ or output):
        raise click.UsageError("--input and --output are columns of --data FILE.")
    if file is not None and folds is not None:
        raise click.UsageError("--data and --folds are two sources of pairs: give one of them.")
    data = None if file is None else DataConfig(file=file, input=input_, output=output)
    model = calibrate_run(run, data, overrides, console.monitor(), options.registry(), folds)
    found = model.calibration
    assert found is not None
    console.json({"pairs": len(found), "source": found.source, "date": found.date, **cross_validated(found)})
    console.show(described(found))
