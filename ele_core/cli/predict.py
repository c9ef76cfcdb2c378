"""`ele predict`: predict structures for new inputs, in the order of the rows."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ele_core.cli import options

if TYPE_CHECKING:
    from ele_core.cli.console import Console


@click.command()
@options.run
@click.argument("file", metavar="FILE|-")
@click.option("--input", "column", metavar="COLUMN", help="Column of the inputs [default: the first].")
@click.option(
    "--top-k", type=click.IntRange(min=1), default=1, show_default=True, help="Structures to return per input."
)
@click.option("--candidates", metavar="FILE", help="Candidates to decode with, instead of the training outputs.")
@click.option(
    "--on-error",
    type=click.Choice(["raise", "skip", "null"]),
    default="null",
    show_default=True,
    help="Inputs that cannot be used: list them and stop (raise), omit them (skip), or leave them empty (null).",
)
@click.option("-o", "--output-file", "target", metavar="FILE", help="The CSV file to write [default: standard output].")
@options.decoding_overrides
@options.output
@options.processes
def predict(
    run: str,
    file: str,
    column: str | None,
    top_k: int,
    candidates: str | None,
    on_error: str,
    target: str | None,
    overrides: tuple[str, ...],
    console: Console,
) -> None:
    """Predict structures for new inputs and write them as CSV.

    FILE is .csv, .tsv, .jsonl, .smi or plain lines; - is standard input. After Ctrl-C or SIGTERM, give the same command
    again to continue.

    \b
    echo "forty-two" | ele predict run -
    ele predict run inputs.csv --input name --decoder pgd --top-k 3 -o predictions.csv
    """
    from ele_core.errors import ConfigError
    from ele_core.files.atomic import write_text
    from ele_core.files.tables import FIRST, as_csv, read_columns, read_inputs
    from ele_core.model.predict import predict_texts
    from ele_core.model.results import COLUMNS
    from ele_core.runs.run import Run, context_for
    from ele_core.runtime.distributed import process_group

    opened = Run(run, options.registry())
    model = opened.model(overrides)
    console.configuration(model.config)
    with process_group() as processes:
        if file == "-" and processes.count > 1:
            raise ConfigError("standard input cannot be shared among processes.", where="-", fix="Give a file.")
        (texts,), data = read_inputs(file, column, model.config.data.input if model.config.data else None)
        choices, choices_data = read_columns(candidates, [FIRST]) if candidates else (None, None)
        context = context_for(model.config, console.monitor(), processes)
        settings = {"inputs": data, "column": column, "candidates": choices_data, "top_k": top_k}
        with opened.resumable(model, settings, context) as resumable:
            predictions = predict_texts(
                model,
                texts,
                top_k=top_k,
                candidates=choices[0] if choices else None,
                on_error=on_error,
                context=resumable,
            )
            if processes.main:
                table = as_csv(predictions.rows(), COLUMNS)
                if target:
                    write_text(Path(target), table)
                else:
                    sys.stdout.write(table)
