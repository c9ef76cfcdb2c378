"""`ele predict`: predict structures for new inputs, in the order of the rows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from ele_core.cli import options


@click.command()
@options.run
@click.argument("file", metavar="FILE|-")
@click.option(
    "--input", "column", metavar="COLUMNS", help="Columns of the inputs [default: as in training, or the first]."
)
@click.option(
    "--top-k", type=click.IntRange(min=1), default=1, show_default=True, help="Structures to return per input."
)
@click.option("--candidates", metavar="FILE", help="Candidates to decode with, instead of the training outputs.")
@click.option(
    "--constraint",
    "constraints",
    multiple=True,
    metavar="NAME=VALUE",
    help="What predictions must satisfy, as in formula=C9H8O4; formula=@COLUMN takes it from the file, where an empty "
    "cell means none. May be repeated.",
)
@click.option(
    "--coverage",
    type=float,
    metavar="P",
    help="Also write for each input the set of structures that holds the truth with at least this probability, as in "
    "--coverage 0.95. Without it, set_size refers to a coverage of 0.9.",
)
@click.option("--by", metavar="PROPERTY", help="With --coverage: keep it for each size of structure, as in --by atoms.")
@click.option(
    "--risk",
    type=float,
    metavar="R",
    help="Also write for each input a set of structures; its best member is on average within R of the truth.",
)
@click.option(
    "--min-confidence",
    type=click.FloatRange(0, 1),
    default=0.0,
    metavar="P",
    help="Omit an answer, but keep its row, if the probability that it is exact is below this.",
)
@click.option(
    "--on-error",
    type=click.Choice(["raise", "skip", "null"]),
    default="null",
    show_default=True,
    help="Inputs that cannot be used: list them and stop (raise), omit them (skip), or leave them empty (null).",
)
@click.option("--only-new", is_flag=True, help="Write only the new columns, without those of FILE.")
@options.output_table
@options.decoding
@options.as_json
@options.output
@options.processes
def predict(
    run: str,
    file: str,
    column: str | None,
    top_k: int,
    candidates: str | None,
    constraints: tuple[str, ...],
    coverage: float | None,
    by: str | None,
    risk: float | None,
    min_confidence: float,
    on_error: str,
    only_new: bool,
    target: str,
    overrides: dict[str, Any],
    console: options.Console,
) -> None:
    """Predict structures for new inputs and write a table of them.

    RUN is a run folder, or a folder that StructuredPredictor.save wrote. FILE is .csv, .tsv, .jsonl, .parquet, .npy,
    .npz, .smi, plain lines or what a plugin reads; - is standard input, as plain lines. All columns of FILE are kept,
    unless --only-new is given. If no input can be used, the exit code is 1.
    If an input is unlike those of the training, the column unlike_training says why. If the model is calibrated (see
    ele calibrate), the column confidence is the probability that the prediction is exact.
    After Ctrl-C or SIGTERM, give the same command again to continue.

    \b
    echo "forty-two" | ele predict run -
    ele predict run inputs.csv --constraint formula=@formula
    ele predict run inputs.csv --input name --decoder pgd --top-k 3 -o predictions.csv
    ele predict run inputs.csv --min-confidence 0.95 --coverage 0.99
    """
    from ele_core.data.objects import readers, reading
    from ele_core.display.text import harmless
    from ele_core.errors import ConfigError, DataError, counted
    from ele_core.files.atomic import write_bytes
    from ele_core.files.tables import FIRST, input_places, read_columns, read_table
    from ele_core.model.constraints import from_options
    from ele_core.model.predict import Request, candidates_from_texts, predict_texts
    from ele_core.model.tables import PredictionTable, check_target
    from ele_core.model.trust.judged import UNCALIBRATED, without_confidence
    from ele_core.model.trust.sets import promised
    from ele_core.runs.run import context_for, open_model
    from ele_core.runtime.distributed import process_group

    check_target(target)
    promise = promised(coverage, by, risk)
    opened = open_model(run, options.registry())
    model = opened.model(overrides)
    console.configuration(model.config)
    with process_group() as processes:
        if file == "-" and processes.count > 1:
            raise ConfigError("standard input cannot be shared among processes.", where="-", fix="Give a file.")
        known, monitor = readers(model.config.registry), console.monitor()
        reading(file, monitor)
        table = read_table(file, None, known)
        if file != "-":
            model.inputs.read_beside(file)
        trained = model.config.data.input if model.config.data else None
        answer = PredictionTable(table, input_places(table, column, trained), only_new)
        bound = from_options(model.space, constraints, table)
        choices, choices_data = read_columns(candidates, [FIRST], known) if candidates else (None, None)
        context = context_for(model.config, monitor, processes)
        settings: dict[str, object] = {
            "inputs": table.digest,
            "column": column,
            "candidates": choices_data,
            "top_k": top_k,
        }
        settings |= {"constraints": constraints} if constraints else {}
        chosen = candidates_from_texts(model, choices[0]) if choices else None
        with opened.resumable(model, settings, context) as resumable:
            predictions = predict_texts(
                model,
                table.cells(answer.places),
                Request(top_k, None, chosen, bound, promise, min_confidence),
                on_error=on_error,
                source=file,
                lines=table.lines,
                context=resumable,
            )
            if said := answer.renamed(predictions):
                context.monitor.message(said)
            if model.calibration is None:
                context.monitor.message(f"{UNCALIBRATED}. Add one: ele calibrate {run}")
            elif said := without_confidence(model, None, choices, bound):
                context.monitor.message(said)
            elif min_confidence:
                kept = sum(each.best is not None for each in predictions)
                told = f"{kept:,} of {counted(len(predictions), 'input')} have an answer"
                context.monitor.message(f"{told} of at least this confidence: {min_confidence:g}")
            if predictions.unlike_training:
                many = f"{len(predictions.unlike_training):,} of {counted(len(predictions), 'input')}"
                context.monitor.message(f"unlike the training inputs: {many}; see the column unlike_training")
            if processes.main:
                content = answer.written(predictions, target, skip=on_error == "skip", as_json=console.as_json)
                if target:
                    write_bytes(Path(target), content)
                else:
                    text = content.decode()
                    sys.stdout.write(harmless(text) if sys.stdout.isatty() else text)
                if len(predictions) and len(predictions.refused) == len(predictions):
                    what = f"no input can be used, the first because: {next(iter(predictions.refused.values()))}"
                    raise DataError(what, where=file, fix="Choose the column of the inputs with --input.")
