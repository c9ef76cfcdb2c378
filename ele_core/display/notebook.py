"""HTML tables that display results in a notebook. Every text is escaped, every picture is a separate image."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ele_core.types import Drawing

CELL = "text-align:left;vertical-align:top"
SHOWN = 20
"""The most rows of a table that are shown."""


class Html(str):
    """Text that is HTML already, and is not escaped."""

    __slots__ = ()


def table(header: Sequence[str], rows: Sequence[Iterable[str]], caption: str = "") -> str:
    """A table of texts and `Html`: at most the first `SHOWN` rows, and the number of rows left out."""
    head = "".join(f'<th style="{CELL}">{escape(name)}</th>' for name in header)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows[:SHOWN])
    above = f'<caption style="{CELL}">{escape(caption)}</caption>' if caption else ""
    below = f"<p>… and {len(rows) - SHOWN:,} more.</p>" if len(rows) > SHOWN else ""
    return f"<table>{above}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"


def picture(drawing: Drawing, note: str = "") -> Html:
    """A drawing with its text and a note below; the SVG is embedded as an image, so that no script in it runs."""
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


def _cell(text: str) -> str:
    return f'<td style="{CELL}">{text if isinstance(text, Html) else escape(text)}</td>'
