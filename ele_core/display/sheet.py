"""Drawings in rows under captions, as one SVG and as one PNG."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from ele_core.extras import installed, missing

if TYPE_CHECKING:
    from ele_core.interfaces import Drawing


CELL = (220, 180)
"""Width and height of a picture."""
LINE = 16
"""Height of a line of a caption."""
INCH = 100
"""Units of the SVG per inch of the PNG."""


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
    svg = cell.drawing.svg
    if svg is None or "<svg" not in svg:
        return "".join([*lines, _text(cell.drawing.text, x, y + top + CELL[1] // 2, 14)])
    body = svg[svg.index("<svg") + len("<svg") :]
    return "".join([*lines, f'<svg x="{x}" y="{y + top}"{body}'])


def _text(text: str, x: int, y: int, size: int) -> str:
    style = f'text-anchor="middle" font-family="sans-serif" font-size="{size}"'
    return f'<text x="{x + CELL[0] / 2:g}" y="{y}" {style}>{escape(text)}</text>'
