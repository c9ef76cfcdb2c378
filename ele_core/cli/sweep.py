"""`ele sweep`: measure how each decoder depends on the candidates, as a table and a figure."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ele_core.cli import completion, options


@click.command()
@options.run
@click.option(
    "--share",
    "shares",
    type=float,
    multiple=True,
    metavar="SHARE",
    help="Keep this share of the candidates, as in --share 0.1. May be repeated [default: 0.01, 0.1, 0.5, 1].",
)
@click.option(
    "--decoder",
    "lines",
    multiple=True,
    metavar="LINE",
    shell_complete=completion.components("decoder"),
    help="Measure only this line of the figure. May be repeated [default: all that work with the run].",
)
@options.split
@options.limit
@click.option("-o", "--output-folder", "folder", metavar="FOLDER", help="The folder to write to [default: RUN/sweep].")
@options.as_json
@options.output
def sweep(
    run: str,
    shares: tuple[float, ...],
    lines: tuple[str, ...],
    split: str,
    limit: int | None,
    folder: str | None,
    console: options.Console,
) -> None:
    """Measure decoders on smaller and smaller shares of candidates.

    A decoder that chooses among the candidates cannot find the excluded structures; one that builds structures can. A
    smaller share is always contained in a larger one. A line of the figure is a decoder, or one of its variants, such
    as pgd-random and pgd-best of pgd. Every installed decoder that works with the surrogate of RUN is measured.

    Every measurement is written to FOLDER/sweep.json at once: after an interruption, run the same command again to
    measure only the missing ones. The figure is FOLDER/sweep.svg and FOLDER/sweep.png.

    \b
    ele sweep run
    ele sweep run --limit 100 -o quick
    ele sweep run --decoder candidates --decoder search --share 0.001 --share 1
    """
    from ele_core.experiments.sweep import SHARES
    from ele_core.experiments.sweep import sweep as measure
    from ele_core.runs.run import Run

    target = Path(folder) if folder else Path(run) / "sweep"
    result = measure(
        Run(run, options.registry()),
        target,
        lines=lines,
        shares=shares or SHARES,
        split=split,
        limit=limit,
        command=sys.argv[1:],
        monitor=console.monitor(),
    )
    console.show(str(result))
    figure = str(target / "sweep.svg") if (target / "sweep.svg").exists() else None
    if figure:
        console.show(f"Figure: {figure}")
    console.json({"folder": str(target), "figure": figure, "records": result.records})
