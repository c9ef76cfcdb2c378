"""`ele evaluate`: measure a trained run on its held-out pairs."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import click

from ele_core.cli import options


@click.command()
@click.argument("run", type=click.Path(exists=True, file_okay=False))
@options.decoder
@click.option(
    "--oracle",
    is_flag=True,
    help="Decode from the embeddings of the truths, as if the regression were perfect: its errors are excluded.",
)
@options.split
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Use only the first N pairs of the split.")
@click.option(
    "--record", "target", metavar="FILE", help="Write the metrics as JSON, with what is needed to reproduce them."
)
@click.option("--json", "as_json", is_flag=True, help="Print the metrics as one JSON object.")
@options.overrides
@options.processes
def evaluate(
    run: str,
    decoder: str | None,
    oracle: bool,
    split: str,
    limit: int | None,
    target: str | None,
    as_json: bool,
    overrides: tuple[str, ...],
) -> None:
    """Measure a trained run on its held-out pairs.

    Decodes the held-out inputs of RUN, prints every metric, and writes RUN/predictions/SPLIT-DECODER.csv. After Ctrl-C
    or SIGTERM, give the same command again to continue.

    \b
    ele evaluate run --decoder pgd
    ele evaluate run --decoder pgd --oracle
    ele evaluate run --processes 2
    ele evaluate run --set decoder.steps=200 --set candidates.share=0.1
    """
    from ele_core.runs.run import Run
    from ele_core.runtime.distributed import process_group
    from ele_core.runtime.monitor import ConsoleMonitor

    with process_group() as processes:
        chosen = [f"decoder={decoder}"] if decoder else []
        opened = Run(run, options.registry())
        changes = [*chosen, *overrides]
        started = time.monotonic()
        result = opened.evaluate(oracle=oracle, split=split, limit=limit, overrides=changes, monitor=ConsoleMonitor())
        seconds = round(time.monotonic() - started, 1)
        if not processes.main:
            return
    if target:
        from ele_core.runs.records import record

        record(Path(target), opened, result, command=sys.argv[1:], split=split, oracle=oracle, seconds=seconds)
    if as_json:
        click.echo(json.dumps(result.metrics))
        return
    for name, value in result.metrics.items():
        click.echo(f"{name:<20}{value:10.4f}")
    references = opened.references()
    for source in dict.fromkeys(reference.source for reference in references):
        click.echo(f"Published ({source}):")
        for reference in references:
            if reference.source == source:
                values = ", ".join(f"{name} {value:g}" for name, value in reference.values.items())
                click.echo(f"  {reference.name}: {values}")
