"""Draw predictions of a run that are right, and some that are wrong above their truths.

    python benchmarks/right_and_wrong.py RUN/predictions/test-search.csv --output FILE.svg [--output-space NAME]

The table is the one that `ele evaluate RUN` writes.
"""

import argparse
import csv
from pathlib import Path

from ele_core.display.pictures import Cell, sheet_svg
from ele_core.files.atomic import write_text
from ele_core.plugins import registry

SHOWN = 5
"""Predictions in a row of the picture."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("predictions", type=Path, help="a table of predictions with their truths")
    parser.add_argument("--output", type=Path, required=True, help="the SVG file to write")
    parser.add_argument("--output-space", default="molecule", help="the output space that draws (default molecule)")
    options = parser.parse_args()
    with options.predictions.open(encoding="utf-8", newline="") as lines:
        write_text(options.output, drawn(list(csv.DictReader(lines)), options.output_space))


def drawn(rows: list[dict[str, str]], name: str) -> str:
    """A row of right predictions, a row of wrong ones, and a row of their truths."""
    space = registry().create("output", name)
    right = [row for row in rows if float(row["exact"])][:SHOWN]
    wrong = [row for row in rows if not float(row["exact"])][:SHOWN]
    pairs = [(space.parse(row["prediction"]), space.parse(row["truth"])) for row in wrong]
    return sheet_svg(
        [
            [Cell(space.show.render(space.parse(row["prediction"])), ["right"]) for row in right],
            [Cell(space.show.render(found, truth), ["wrong"]) for found, truth in pairs],
            [Cell(space.show.render(truth, found), ["its truth"]) for found, truth in pairs],
        ]
    )


if __name__ == "__main__":
    main()
