"""`make demo`: SMILES → molecule on real QM9 molecules in a few minutes, with a table and pictures of the result."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from ele_core import Cell, ConsoleMonitor, Run, Wanted, load_config, sheet_svg, write_report
from ele_graphs.molecules.space import MoleculeSpace

SETTINGS = (
    "task.size=24000",
    "task.test=500",
    "task.validation=500",
    "surrogate.encoder.width=64",
    "surrogate.training.epochs=6",
    "surrogate.training.evaluations=6",
    "regressor.backbone.layers=1",
    "regressor.backbone.width=192",
    "regressor.training.epochs=12",
    "regressor.training.evaluations=12",
)
"""A subset and sizes that train in about five minutes on two cores; `ele train smi2mol` uses all of QM9."""
DECODERS = ("candidates", "pgd", "search")
"""From the weakest to the strongest; the predictions of the last are shown."""
SHOWN = 10
COLUMNS = 4


@click.command()
@click.option("--folder", default="demo", show_default=True, help="Folder for the run and the pictures.")
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Set an option of the configuration.")
def demo(folder: str, overrides: Sequence[str]) -> None:
    """Train on real QM9 molecules, predict unseen ones, and show them."""
    console = Console()
    target = next(path for number in count(1) if not (path := Path(folder) / f"run-{number}").exists())
    config = load_config("smi2mol", [*SETTINGS, *overrides])
    run = Run.start(config, target, ConsoleMonitor())
    for decoder in DECODERS:
        result = run.evaluate(overrides=[f"decoder={decoder}"], monitor=ConsoleMonitor())
        console.print(f"{decoder}: {result}")
    with (target / "predictions" / f"test-{DECODERS[-1]}.csv").open(encoding="utf-8", newline="") as stream:
        rows = [row for row, _ in zip(csv.DictReader(stream), range(SHOWN), strict=False)]
    console.print(as_table(rows))
    draw(rows, target / "pictures")
    console.print(f"Pictures: {target / 'pictures' / 'all.svg'}")
    console.print(f"Report: {write_report(run, Wanted(), ConsoleMonitor())}")
    console.print(f"Try: echo 'COC(C)=O' | ele predict {target} -")


def as_table(rows: Sequence[dict[str, str]]) -> Table:
    """Input, prediction, truth and distance of a few test molecules."""
    table = Table("input", "prediction", "truth", "GED")
    for row in rows:
        table.add_row(row["input"], row["prediction"], row["truth"], row["ged_with_edges"])
    return table


def draw(rows: Sequence[dict[str, str]], folder: Path) -> None:
    """Draw each prediction and its truth, with the differences highlighted: SVG files, and one sheet of all."""
    space = MoleculeSpace()
    folder.mkdir()
    cells = []
    for number, row in enumerate(rows, start=1):
        predicted, true = space.parse(row["prediction"]), space.parse(row["truth"])
        drawings = {"prediction": space.render(predicted, true), "truth": space.render(true)}
        for name, drawing in drawings.items():
            (folder / f"{number:02}-{name}.svg").write_text(drawing.svg or "", encoding="utf-8")
        captions = (row["input"], f"truth, at distance {row['ged_with_edges']}")
        cells += [Cell(drawing, [caption]) for drawing, caption in zip(drawings.values(), captions, strict=True)]
    rows_of_cells = [cells[start : start + COLUMNS] for start in range(0, len(cells), COLUMNS)]
    (folder / "all.svg").write_text(sheet_svg(rows_of_cells), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(demo())
