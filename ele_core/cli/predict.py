"""`ele predict`: structures for new inputs, rows kept in their order."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ele_core.cli import options


@click.command()
@click.argument("run", type=click.Path(exists=True, file_okay=False))
@click.argument("file", metavar="FILE|-")
@click.option("--input", "column", metavar="COLUMN", help="Column of the inputs [default: the first].")
@click.option("--top-k", type=click.IntRange(min=1), default=1, show_default=True, help="Structures for each input.")
@click.option("--candidates", metavar="FILE", help="Choose or start from these outputs instead of the training ones.")
@click.option(
    "--on-error",
    type=click.Choice(["raise", "skip", "null"]),
    default="null",
    show_default=True,
    help="Inputs that cannot be used: stop and list them, leave them out, or keep the row without a prediction.",
)
@click.option("-o", "--output-file", "target", metavar="FILE", help="Write the CSV there instead of standard output.")
@options.decoder
@options.overrides
def predict(
    run: str,
    file: str,
    column: str | None,
    top_k: int,
    candidates: str | None,
    on_error: str,
    target: str | None,
    decoder: str | None,
    overrides: tuple[str, ...],
) -> None:
    """Predict for every row of FILE (.csv, .tsv, .jsonl, .smi, plain lines; - is standard input) and write CSV.

    \b
    echo "forty-two" | ele predict run -
    ele predict run inputs.csv --input name --decoder pgd --top-k 3 -o predictions.csv
    """
    from ele_core.context import Context
    from ele_core.devices import pick_device
    from ele_core.files import write_text
    from ele_core.monitor import ConsoleMonitor
    from ele_core.prediction import COLUMNS, predict_texts
    from ele_core.runs import Run, as_csv
    from ele_core.tables import FIRST, read_columns

    chosen = [f"decoder={decoder}"] if decoder else []
    model = Run(run).model([*chosen, *overrides])
    (texts,), _ = read_columns(file, [column or FIRST])
    choices = read_columns(candidates, [FIRST])[0][0] if candidates else None
    context = Context(model.config.seed, pick_device(model.config.device), ConsoleMonitor())
    rows = predict_texts(model, texts, top_k=top_k, candidates=choices, on_error=on_error, context=context)
    table = as_csv(rows, COLUMNS)
    if target:
        write_text(Path(target), table)
    else:
        sys.stdout.write(table)
