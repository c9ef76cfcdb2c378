"""`ele neighbours`: the nearest structures of a file, of any length, or of the training, by the learned distance."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ele_core.cli import options


@click.command()
@options.run
@click.argument("file", metavar="FILE|-")
@click.option(
    "--among", metavar="FILE|INDEX", help="The structures to search, or an index [default: the training outputs]."
)
@click.option(
    "-k", type=click.IntRange(min=1), default=10, show_default=True, metavar="N", help="Neighbours per structure."
)
@click.option(
    "--column", metavar="COLUMN", help="Column of FILE [default: that of the training outputs, or the first]."
)
@click.option("--among-column", metavar="COLUMN", help="Column of the file of --among [default: as --column].")
@options.output_table
@options.SETTINGS["device"]
@options.as_json
@options.output
@options.processes
def neighbours(
    run: str,
    file: str,
    among: str | None,
    k: int,
    column: str | None,
    among_column: str | None,
    target: str,
    device: str | None,
    console: options.Console,
) -> None:
    """Find the nearest structures by the learned loss, among millions.

    RUN is a run folder, or a folder that StructuredPredictor.save wrote; only its learned loss is used, not its
    regressor. FILE and the file of --among hold one structure per row, as .csv, .tsv, .jsonl, .parquet, .smi, plain
    lines or what a plugin reads; - is standard input, as plain lines.

    The table has a row per neighbour: object_row, object, rank, neighbour, neighbour_row, distance, status. Rows are
    counted from 1, without the header. The distance is ‖ψ(a) − ψ(b)‖². A structure that is itself among the searched
    ones is its own neighbour, at distance 0 but for rounding.

    The search is exact. The file of --among is read in chunks of 8,192 rows, so memory does not grow with its
    length; rows that are no structures of the model are counted and skipped. Computing embeddings takes most of the
    time: share it with --processes, or compute them once with `ele index`.

    With an index, rows are counted through all its files; above a million structures nearly all neighbours are found,
    and distances are within about 0.001.

    \b
    echo "CC(=O)OC" | ele neighbours run -
    ele neighbours run hits.csv --among library.smi -k 5 -o nearest.csv
    ele neighbours run hits.csv --among library.index
    """
    from ele_core.data.objects import readers
    from ele_core.errors import ConfigError
    from ele_core.files.atomic import write_bytes
    from ele_core.model.index import is_index
    from ele_core.model.neighbours import Searched, read_queries
    from ele_core.model.tables import NeighbourTable, check_target
    from ele_core.runs.run import context_for, open_model
    from ele_core.runtime.distributed import process_group

    check_target(target, file)
    if among_column and (among is None or is_index(among)):
        raise click.UsageError("--among-column describes the file of --among: give one.")
    model = open_model(run, options.registry()).model({"device": device} if device else {})
    console.configuration(model.config)
    with process_group() as processes:
        if processes.count > 1 and file == "-":
            raise ConfigError("cannot be shared among processes.", where="-", fix="Give a file.")
        known = readers(model.config.registry)
        context = context_for(model.config, console.monitor(), processes)
        cells, objects = read_queries(model, file, column, known)
        searched = Searched(model, among, among_column or column, known, context)
        found = searched.nearest(model.surrogate.embed(objects.batch), k)
        if processes.main:
            content = NeighbourTable(cells, objects, found).written(target, as_json=console.as_json)
            if target:
                write_bytes(Path(target), content)
            else:
                sys.stdout.write(content.decode())
