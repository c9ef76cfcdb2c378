"""`ele index`: embed many structures once, so that predictions and searches among them are fast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ele_core.cli import completion, options


@click.command()
@options.run
@click.argument("files", metavar="FILE…", nargs=-1, required=True)
@click.option("-o", "--output", "folder", metavar="INDEX", required=True, help="The folder of the index.")
@click.option(
    "--column", metavar="COLUMN", help="Column of the structures [default: that of the training outputs, or the first]."
)
@click.option(
    "--index",
    "choice",
    metavar="NAME",
    shell_complete=completion.components("index"),
    help="How to search, as in faiss or '{name = \"faiss\", code = 64}' [default: exact, from a million on faiss].",
)
@click.option(
    "--on-error",
    type=click.Choice(["raise", "skip"]),
    default="skip",
    show_default=True,
    help="Rows that are no structures of the model: list them and stop, or list and skip them.",
)
@options.SETTINGS["device"]
@options.output
@options.processes
def index(
    run: str,
    files: tuple[str, ...],
    folder: str,
    column: str | None,
    choice: str | None,
    on_error: str,
    device: str | None,
    console: options.Console,
) -> None:
    """Embed many structures once, to search among them.

    They need not be of the training.

    RUN is a run folder, or a folder that StructuredPredictor.save wrote. Each FILE holds one structure per row, as
    .csv, .tsv, .jsonl, .parquet, .smi, plain lines or what a plugin reads.

    Files are read in blocks of 32,768 rows, so memory does not grow with their length, and finished blocks are kept:
    after Ctrl-C, a kill or a full disk, give the same command again to continue. --processes shares the blocks: give
    as many as there are cores.

    \b
    ele index run library.smi -o library.index
    ele predict run inputs.csv --candidates library.index
    ele neighbours run hits.csv --among library.index
    """
    from ele_core.config import as_changes, as_table
    from ele_core.data.objects import readers
    from ele_core.errors import command
    from ele_core.model.index import IndexBuilder
    from ele_core.runs.folder import brought
    from ele_core.runs.run import context_for, open_model
    from ele_core.runtime.distributed import process_group
    from ele_core.types import Choice

    table: dict[str, Any] | None = as_table(as_changes([f"index={choice}"])["index"]) if choice else None
    with process_group() as processes:
        model = open_model(brought(Path(run), processes), options.registry()).model(
            {"device": device} if device else {}
        )
        context = context_for(model.config, console.monitor(), processes)
        chosen = None if table is None else Choice.model_validate(table)
        known = readers(model.config.registry)
        builder = IndexBuilder(model, files, Path(folder), known, context, column, fatal=on_error == "raise")
        builder.build(chosen)
        if processes.main:
            console.hint(f"use it: {command('predict', run, 'FILE', '--candidates', folder)}")
