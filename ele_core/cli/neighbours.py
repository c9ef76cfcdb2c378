"""`ele neighbours`: the nearest structures of a file, of any length, or of the training, by the learned distance."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ele_core.cli import options


@click.command()
@options.run
@click.argument("file", metavar="FILE|-")
@click.option("--among", metavar="FILE", help="The structures to search [default: the training outputs].")
@click.option(
    "-k", type=click.IntRange(min=1), default=10, show_default=True, metavar="N", help="Neighbours per structure."
)
@click.option(
    "--column", metavar="COLUMN", help="Column of FILE [default: that of the training outputs, or the first]."
)
@click.option("--among-column", metavar="COLUMN", help="Column of the file of --among [default: as --column].")
@click.option(
    "--cache",
    metavar="FOLDER",
    help="Keep the embeddings of --among in this folder, and read them from there the next time.",
)
@click.option("--half", is_flag=True, help="Keep them in half precision: half the size, distances within about 0.001.")
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
    cache: str | None,
    half: bool,
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
    time: share it with --processes, or keep them with --cache.

    \b
    echo "CC(=O)OC" | ele neighbours run -
    ele neighbours run hits.csv --among library.smi -k 5 -o nearest.csv
    ele neighbours run hits.csv --among library.csv.gz --cache library.embeddings
    """
    from ele_core.data.objects import readers
    from ele_core.errors import ConfigError
    from ele_core.files.atomic import write_bytes
    from ele_core.model.neighbours import Searched, read_queries
    from ele_core.model.tables import NeighbourTable, check_target
    from ele_core.runs.run import context_for, open_model
    from ele_core.runtime.distributed import process_group

    check_target(target)
    if among is None and (among_column or cache or half):
        raise click.UsageError("--among-column, --cache and --half describe the file of --among: give it too.")
    if half and not cache:
        raise click.UsageError("--half says how --cache keeps embeddings: give it too.")
    model = open_model(run, options.registry()).model({"device": device} if device else {})
    console.configuration(model.config)
    with process_group() as processes:
        if processes.count > 1 and (cache or file == "-"):
            where, fix = ("--cache", "Omit --processes.") if cache else ("-", "Give a file.")
            raise ConfigError("cannot be shared among processes.", where=where, fix=fix)
        known = readers(model.config.registry)
        context = context_for(model.config, console.monitor(), processes)
        cells, objects = read_queries(model, file, column, known)
        searched = Searched(model, among, among_column or column, known, context)
        found = searched.nearest(model.surrogate.embed(objects.batch), k, Path(cache) if cache else None, half=half)
        if processes.main:
            table = NeighbourTable(cells, objects, found.distances, found.rows, searched.texts(found.rows))
            content = table.written(target, as_json=console.as_json)
            if target:
                write_bytes(Path(target), content)
            else:
                sys.stdout.write(content.decode())
