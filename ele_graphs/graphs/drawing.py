"""A labelled graph as an SVG picture, with no dependency beyond networkx."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import networkx as nx

SIZE = 200
MARGIN = 24
PALETTE = ("#4c78a8", "#f58518", "#54a24b", "#e45756", "#72b7b2", "#b279a2", "#9d755d", "#eeca3b")


def draw_graph(
    labels: Sequence[str], edges: Sequence[tuple[int, int, str]], colours: Mapping[str, str] | None = None
) -> str:
    """Draw nodes as discs coloured by label, edges as lines with their label, if any, in the middle.

    `colours` gives the colours of labels; if a label has none, it is one of a palette.
    """
    places = _places(len(labels), [(i, j) for i, j, _ in edges])
    colours = {label: PALETTE[k % len(PALETTE)] for k, label in enumerate(sorted(set(labels)))} | dict(colours or {})
    parts = [_line(places[i], places[j], label) for i, j, label in edges]
    parts += [_disc(place, label, colours[label]) for place, label in zip(places, labels, strict=True)]
    box = f'xmlns="http://www.w3.org/2000/svg" width="{SIZE}" height="{SIZE}" viewBox="0 0 {SIZE} {SIZE}"'
    return f"<svg {box}>{''.join(parts)}</svg>"


def _places(count: int, edges: Sequence[tuple[int, int]]) -> list[tuple[float, float]]:
    """The position of each node: a spring layout from a fixed seed, scaled to the picture."""
    graph: nx.Graph[Any] = nx.Graph()
    graph.add_nodes_from(range(count))
    graph.add_edges_from(edges)
    spread = (SIZE - 2 * MARGIN) / 2
    layout = nx.spring_layout(graph, seed=0, scale=spread, center=(SIZE / 2, SIZE / 2))
    return [(float(layout[i][0]), float(layout[i][1])) for i in range(count)]


def _line(start: tuple[float, float], end: tuple[float, float], label: str) -> str:
    (x1, y1), (x2, y2) = start, end
    line = f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#888" stroke-width="2"/>'
    return line + (_text((x1 + x2) / 2, (y1 + y2) / 2, label, "#444") if label else "")


def _disc(place: tuple[float, float], label: str, colour: str) -> str:
    x, y = place
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="12" fill="{colour}"/>' + _text(x, y, label, "#fff")


def _text(x: float, y: float, text: str, colour: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="middle" dominant-baseline="central"'
    return f'<text {place} font-family="sans-serif" font-size="10" fill="{colour}">{escape(text)}</text>'
