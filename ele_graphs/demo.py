"""`make demo`: SMILES → molecule on real QM9 molecules in a few minutes, with a table and pictures of the result."""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from ele_core import config as configuration
from ele_core.files import write_text
from ele_core.monitor import ConsoleMonitor
from ele_core.runs import Run
from ele_graphs.molecule_space import MoleculeSpace

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
"""A subset and sizes that two cores train in about five minutes; `ele train smi2mol` is the whole of it."""
SHOWN = 10
PAGE = """<!doctype html>
<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>SMILES → molecule</title>
<style>body {{font: 16px sans-serif; margin: 2em}} figure {{display: inline-block; margin: .5em}}
figcaption {{font-family: monospace; text-align: center}} img {{background: white}}</style>
<h1>SMILES → molecule</h1>
<p>Unseen QM9 molecules: left the prediction, what differs from the truth highlighted; right the truth.</p>
{cells}
"""


@click.command()
@click.option("--folder", default="demo", show_default=True, help="Where the run and the pictures go.")
@click.option("--set", "overrides", multiple=True, metavar="PATH=VALUE", help="Change an option of the training.")
def demo(folder: str, overrides: Sequence[str]) -> None:
    """Train on real QM9 molecules, predict unseen ones, and show them."""
    console = Console()
    target = next_folder(Path(folder))
    config = configuration.load("smi2mol", [*SETTINGS, *overrides])
    run = Run.start(config, target, ConsoleMonitor())
    for decoder in ("candidates", "pgd"):
        result = run.evaluate(overrides=[f"decoder={decoder}"], monitor=ConsoleMonitor())
        console.print(f"{decoder}: {result}")
    with (target / "predictions" / "test-pgd.csv").open(encoding="utf-8", newline="") as stream:
        rows = [row for row, _ in zip(csv.DictReader(stream), range(SHOWN), strict=False)]
    console.print(as_table(rows))
    draw(rows, target / "pictures")
    console.print(f"Pictures: {target / 'pictures' / 'index.html'}")
    console.print(f"Try: echo 'CC(=O)OC' | ele predict {target} -")


def next_folder(folder: Path) -> Path:
    """The folder itself, or the first of FOLDER-2, FOLDER-3, … that is free."""
    number, free = 1, folder
    while free.exists():
        number += 1
        free = folder.with_name(f"{folder.name}-{number}")
    return free


def as_table(rows: Sequence[dict[str, str]]) -> Table:
    """Input, prediction, truth and distance of a few test molecules."""
    table = Table("input", "prediction", "truth", "GED")
    for row in rows:
        table.add_row(row["input"], row["prediction"], row["truth"], row["ged_with_edges"])
    return table


def draw(rows: Sequence[dict[str, str]], folder: Path) -> None:
    """Each prediction beside its truth, what differs highlighted: SVG files, and a page that shows them all."""
    space = MoleculeSpace()
    cells = []
    for number, row in enumerate(rows, start=1):
        predicted, true = space.parse(row["prediction"]), space.parse(row["truth"])
        for name, drawing in (("prediction", space.render(predicted, true)), ("truth", space.render(true))):
            write_text(folder / f"{number:02}-{name}.svg", drawing.svg or "")
        caption = f"{escape(row['input'])}, distance {row['ged_with_edges']}"
        images = "".join(f'<img src="{number:02}-{name}.svg" alt="{name}">' for name in ("prediction", "truth"))
        cells.append(f"<figure>{images}<figcaption>{caption}</figcaption></figure>")
    write_text(folder / "index.html", PAGE.format(cells="\n".join(cells)))


if __name__ == "__main__":
    sys.exit(demo())
