"""`ele predict`: predict structures for new inputs, in the order of the rows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ele_core.cli import options

if TYPE_CHECKING:
    from ele_core.model.predict_file import FilePrediction, Predicted
    from ele_core.runtime.monitor import Monitor


@click.command()
@options.run
@click.argument("file", metavar="FILE|-")
@click.option(
    "--input", "column", metavar="COLUMNS", help="Columns of the inputs [default: as in training, or the first]."
)
@click.option(
    "--top-k", type=click.IntRange(min=1), default=1, show_default=True, help="Structures to return per input."
)
@click.option(
    "--candidates",
    metavar="FILE|INDEX",
    help="Candidates to decode with, instead of the training outputs: a file, or what `ele index` wrote.",
)
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
    type=options.Number(0, 1),
    default=0.0,
    metavar="P",
    help="Omit an answer, but keep its row, if the probability that it is exact is below this.",
)
@click.option(
    "--on-error",
    type=click.Choice(["raise", "skip", "null"]),
    default="null",
    show_default=True,
    help="Inputs that cannot be used: list them and stop (raise), omit them (skip), or leave them empty (null). "
    "Candidates that cannot be used are listed and omitted, or with `raise` refused.",
)
@click.option(
    "--shard",
    default="1/1",
    metavar="i/N",
    help="Predict only for the i-th of N equal shares of the blocks of 8,192 rows: start one command for each.",
)
@click.option(
    "-o",
    "--output-file",
    "target",
    metavar="FILE|FOLDER/",
    default="",
    help="The .csv, .tsv, .jsonl or .parquet file to write, or a folder for one .parquet file per block "
    "[default: standard output].",
)
@click.option("--only-new", is_flag=True, help="Write only the new columns, without those of FILE.")
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
    shard: str,
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

    FILE is read in blocks of 8,192 rows, so memory does not grow with its length (.npy, .npz and standard input are
    read as a whole). Finished blocks are kept: after Ctrl-C, SIGTERM or a kill, give the same command again to
    continue. With -o FOLDER/ each block is a file of its own there; several commands with --shard can share FOLDER.

    \b
    echo "forty-two" | ele predict run -
    ele predict run inputs.csv --constraint formula=@formula
    ele predict run inputs.csv --input name --decoder pgd --top-k 3 -o predictions.csv
    ele predict run inputs.csv --min-confidence 0.95 --coverage 0.99
    ele predict run millions.csv.gz --shard 2/8 -o predictions/
    """
    from ele_core.data.objects import readers, reading
    from ele_core.data.pairs import trained_column
    from ele_core.display.text import harmless
    from ele_core.errors import ConfigError, DataError
    from ele_core.files.tables import FIRST, read_table
    from ele_core.model.index import is_index, open_index
    from ele_core.model.predict import Request, candidates_from
    from ele_core.model.predict_file import FilePrediction, InputFile, Shard, predict_file
    from ele_core.model.tables import check_target, is_folder
    from ele_core.model.trust.sets import promised
    from ele_core.runs.folder import brought
    from ele_core.runs.resumable import parts_in
    from ele_core.runs.run import context_for, open_model
    from ele_core.runtime.distributed import process_group

    check_target(target, file)
    share = Shard.parse(shard)
    promise = promised(coverage, by, risk)
    with process_group() as processes:
        if file == "-" and processes.count > 1:
            raise ConfigError("standard input cannot be shared among processes.", where="-", fix="Give a file.")
        opened = open_model(brought(Path(run), processes), options.registry())
        model = opened.model(overrides)
        console.configuration(model.config)
        known = readers(model.config.registry)
        trained = trained_column(model.config)
        reading(file, console.monitor())
        source = InputFile.open(file, known, column, trained, only_new=only_new)
        if file != "-":
            model.inputs.read_beside(file)
        context = context_for(model.config, console.monitor(), processes)
        chosen, identity = None, None
        if candidates and is_index(candidates):
            indexed = open_index(Path(candidates), model)
            chosen, identity = indexed.candidates(), indexed.digest
        elif candidates:
            choices = read_table(candidates, [FIRST], known)
            chosen, identity = candidates_from(model, choices, context.monitor, on_error=on_error), choices.digest
        request = Request(top_k, None, chosen, None, promise, min_confidence)
        asked = FilePrediction(model, request, constraints, on_error)
        asked.check(source)
        settings: dict[str, object] = {
            "inputs": source.digest(),
            "column": column,
            "candidates": identity,
            "top_k": top_k,
        }
        settings |= {"constraints": constraints} if constraints else {}
        answers = {"coverage": coverage, "by": by, "risk": risk, "confidence": min_confidence, "on_error": on_error}
        answers |= {"only_new": True} if only_new else {}
        with (
            opened.resumable(model, {**settings, **answers, "shard": shard}, context) as resumable,
            parts_in(opened.folder, target, model.config, {**settings, **answers}, resumable) as parts,
        ):
            found = predict_file(asked, source, share, parts, resumable)
            if processes.main:
                tell(run, asked, found, context.monitor)
                if not target:
                    for content in found.texts(target, as_json=console.as_json):
                        sys.stdout.write(harmless(content.decode()) if sys.stdout.isatty() else content.decode())
                elif not is_folder(target):
                    found.write(target, as_json=console.as_json)
        if processes.main and found.tally.inputs and found.tally.refused == found.tally.inputs:
            what = f"no input can be used, the first because: {found.reason}"
            raise DataError(what, where=file, fix="Choose the column of the inputs with --input.")


def tell(run: str, asked: FilePrediction, found: Predicted, monitor: Monitor) -> None:
    """Say which columns have other names, and what was counted."""
    from ele_core.errors import command, counted
    from ele_core.model.trust.judged import UNCALIBRATED, without_confidence

    request, tally = asked.request, found.tally
    total = counted(tally.inputs, "input")
    if found.note:
        monitor.message(found.note)
    if asked.model.calibration is None:
        monitor.message(f"{UNCALIBRATED}. Add one: {command('calibrate', run)}")
    elif said := without_confidence(asked.model, None, request.candidates, asked.constraints or None):
        monitor.message(said)
    elif request.least_confidence:
        told = f"{tally.answered:,} of {total} have an answer"
        monitor.message(f"{told} of at least this confidence: {request.least_confidence:g}")
    if tally.unlike:
        monitor.message(f"unlike the training inputs: {tally.unlike:,} of {total}; see the column unlike_training")
