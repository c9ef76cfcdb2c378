"""Draw pictures of the task `coloring` beside their true and their predicted graphs, from a run's predictions.

    python benchmarks/coloring.py RUN/predictions/test-search.csv --output docs/images/coloring.svg

Each line has a picture, its graph, and the prediction with its distance.
"""

import argparse
import csv
import re
import sys
from pathlib import Path

from ele_graphs.coloring.space import CellGraphSpace

SIZE, GAP, TITLE = 200, 16, 24


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("predictions", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--count", type=int, default=4, help="the first so many examples")
    options = parser.parse_args()
    csv.field_size_limit(sys.maxsize)
    with options.predictions.open(encoding="utf-8", newline="") as stream:
        rows = [row for row, _ in zip(csv.DictReader(stream), range(options.count), strict=False)]
    options.output.write_text(drawn(rows), encoding="utf-8")


def drawn(rows: list[dict[str, str]]) -> str:
    """One line per example: the picture, the truth, the prediction with its distance."""
    width, height = 3 * (SIZE + GAP), TITLE + len(rows) * (SIZE + GAP)
    parts = [label(place, 16, text) for place, text in enumerate(("picture", "true graph", "predicted graph"))]
    for line, row in enumerate(rows):
        top = TITLE + line * (SIZE + GAP)
        image = f'width="{SIZE}" height="{SIZE}" style="image-rendering:pixelated" href="{row["input"]}"'
        parts.append(f'<image x="0" y="{top}" {image}/>')
        for place, name in enumerate(("truth", "prediction"), 1):
            parts.append(f'<g transform="translate({place * (SIZE + GAP)} {top})">{graph(row[name])}</g>')
        edits = float(row["ged_with_edges"])
        said = "exact" if not edits else f"{edits:g} edit{'s' if edits != 1 else ''}"
        parts.append(label(2, top + SIZE - 2, said))
    box = f'xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return f'<svg {box}><rect width="{width}" height="{height}" fill="#fff"/>{"".join(parts)}</svg>\n'


def graph(text: str) -> str:
    """The drawing of a graph, without its frame and without words on the nodes."""
    svg = CellGraphSpace().show.render(CellGraphSpace.parse(text)).svg or ""
    return re.sub(r"<text.*?</text>|</?svg[^>]*>", "", svg)


def label(place: int, y: float, text: str) -> str:
    return f'<text x="{place * (SIZE + GAP)}" y="{y}" font-family="sans-serif" font-size="13" fill="#444">{text}</text>'


if __name__ == "__main__":
    main()
