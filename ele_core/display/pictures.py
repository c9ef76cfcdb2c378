"""Tables and drawings outside a terminal: HTML for notebooks, every text escaped; sheets of drawings as SVG and PNG."""

from __future__ import annotations

import base64
import dataclasses
import io
from collections.abc import Iterable, Sequence
from html import escape
from statistics import fmean
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from ele_core.errors import counted
from ele_core.extras import installed, missing

if TYPE_CHECKING:
    from ele_core.types import Drawing

STYLE = "text-align:left;vertical-align:top"
SHOWN = 20
"""Maximum number of rows shown."""


class Html(str):
    """Text that is HTML already, and is not escaped."""

    __slots__ = ()


def table(header: Sequence[str], rows: Sequence[Iterable[str]], caption: str = "") -> str:
    """A table of texts and `Html`: at most the first `SHOWN` rows, and the number of further rows."""
    head = "".join(f'<th style="{STYLE}">{escape(name)}</th>' for name in header)
    body = "".join(f"<tr>{''.join(map(_table_cell, row))}</tr>" for row in rows[:SHOWN])
    above = f'<caption style="{STYLE}">{escape(caption)}</caption>' if caption else ""
    below = f"<p>… and {len(rows) - SHOWN:,} more.</p>" if len(rows) > SHOWN else ""
    return f"<table>{above}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"


def picture(drawing: Drawing, note: str = "") -> Html:
    """A drawing with its text and a note below; the SVG is embedded as an image, so no script in it runs."""
    words = "<br>".join(escape(line) for line in (drawing.text, note) if line)
    if drawing.svg is None:
        return Html(words)
    source = base64.b64encode(drawing.svg.encode()).decode()
    image = f'<img alt="{escape(drawing.text)}" src="data:image/svg+xml;base64,{source}">'
    return Html(f"{image}<br>{words}")


def beside(pictures: Iterable[Html]) -> Html:
    """Pictures side by side."""
    style = "display:inline-block;vertical-align:top;margin:0 1em 0.5em 0"
    return Html("".join(f'<div style="{style}">{each}</div>' for each in pictures))


def curve(steps: Sequence[int], values: Sequence[float], name: str) -> str:
    """An SVG of `values` over ascending `steps`, with the first and the last of each as text."""
    width, height, margin = 360, 160, 28
    low, high, last = min(values), max(values), max(steps[-1] - steps[0], 1)
    points = [
        (
            margin + (step - steps[0]) / last * (width - 2 * margin),
            height - margin - (value - low) / ((high - low) or 1) * (height - 2 * margin),
        )
        for step, value in zip(steps, values, strict=True)
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    ends = "".join(
        f'<text x="{x:.1f}" y="{y - 8:.1f}" text-anchor="middle">{value:.4g}</text>'
        f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle">{step}</text>'
        for (x, y), value, step in ((points[0], values[0], steps[0]), (points[-1], values[-1], steps[-1]))[
            : len(points)
        ]
    )
    title = f'<text x="{width / 2}" y="14" text-anchor="middle">{escape(name)}</text>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" '
        f'font-size="11"><rect width="100%" height="100%" fill="white"/>{title}'
        f'<polyline points="{line}" fill="none" stroke="#0072b2" stroke-width="2"/>{ends}</svg>'
    )


def energy_table(energies: Sequence[Sequence[float]], ranks: int) -> str:
    """A table of the energies at so many ranks, with a row for each query."""
    rows = [(str(number), *(f"{energy:.4g}" for energy in own)) for number, own in enumerate(energies)]
    return table(("query", *(f"energy, rank {rank}" for rank in range(1, ranks + 1))), rows)


def energy_curve(steps: Sequence[int], energies: Sequence[Sequence[float]]) -> str | None:
    """An SVG of the mean energy of all inputs by step; None: nothing was recorded."""
    if not len(steps) or not len(energies[0]):
        return None
    name = f"mean energy of {counted(len(energies[0]), 'input')}, by step"
    return curve(steps, [fmean(own) for own in energies], name)


def _table_cell(text: str) -> str:
    return f'<td style="{STYLE}">{text if isinstance(text, Html) else escape(text)}</td>'


CELL = (220, 180)
"""Width and height of a picture."""
LINE = 16
"""Height of a line of a caption."""
INCH = 100
"""Units of the SVG per inch of the PNG."""

ElementTree.register_namespace("", "http://www.w3.org/2000/svg")  # write tags without a prefix


@dataclasses.dataclass(frozen=True)
class Cell:
    """A drawing and the lines of text above it."""

    drawing: Drawing
    caption: Sequence[str] = ()


def sheet_svg(rows: Sequence[Sequence[Cell]]) -> str:
    """One SVG of all drawings; a drawing without a picture is shown as its text."""
    width, top = CELL[0], caption_height(rows)
    height = CELL[1] + top
    parts = [
        _cell(cell, x * width, y * height, top) for y, row in enumerate(rows) for x, cell in enumerate(row)
    ]  # rows may differ in length
    box = f'width="{max(map(len, rows), default=0) * width}" height="{len(rows) * height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box}><rect {box} fill="white"/>{"".join(parts)}</svg>'


def sheet_png(rows: Sequence[Sequence[Cell]]) -> bytes:
    """One PNG of all drawings, made with matplotlib; a drawing without a PNG is shown as its text."""
    if not installed("matplotlib"):
        raise missing("a PNG", "matplotlib", "figures")
    from matplotlib.figure import Figure
    from matplotlib.image import imread

    columns, height = max(map(len, rows), default=1), CELL[1] + caption_height(rows)
    figure = Figure(figsize=(columns * CELL[0] / INCH, len(rows) * height / INCH), layout="constrained")
    for y, row in enumerate(rows):
        for x, cell in enumerate(row):
            axes = figure.add_subplot(len(rows), columns, y * columns + x + 1)
            axes.set_axis_off()
            axes.set_title("\n".join(cell.caption), fontsize=7, parse_math=False)
            if cell.drawing.png is not None:
                axes.imshow(imread(io.BytesIO(cell.drawing.png())))
            else:
                axes.text(0.5, 0.5, cell.drawing.text, ha="center", va="center", fontsize=8, parse_math=False)
    png = io.BytesIO()
    figure.savefig(png, format="png", dpi=2 * INCH)
    return png.getvalue()


def caption_height(rows: Sequence[Sequence[Cell]]) -> int:
    """The height of the longest caption, with a margin."""
    return LINE * (1 + max((len(cell.caption) for row in rows for cell in row), default=0))


def _cell(cell: Cell, x: int, y: int, top: int) -> str:
    lines = [_text(line, x, y + LINE * number, 12) for number, line in enumerate(cell.caption, start=1)]
    picture = None if cell.drawing.svg is None else _placed(cell.drawing.svg, x, y + top)
    return "".join([*lines, picture or _text(cell.drawing.text, x, y + top + CELL[1] // 2, 14)])


def _placed(svg: str, x: int, y: int) -> str | None:
    """A picture at its place, scaled to its cell if it says how; None if it is not an SVG."""
    try:
        root = ElementTree.fromstring(svg)
    except ElementTree.ParseError:
        return None
    for name, value in {"x": x, "y": y}.items():
        root.set(name, str(value))
    if root.get("viewBox"):
        root.set("width", str(CELL[0]))
        root.set("height", str(CELL[1]))
    return ElementTree.tostring(root, encoding="unicode")


def _text(text: str, x: int, y: int, size: int) -> str:
    style = f'text-anchor="middle" font-family="sans-serif" font-size="{size}"'
    return f'<text x="{x + CELL[0] / 2:g}" y="{y}" {style}>{escape(text)}</text>'
