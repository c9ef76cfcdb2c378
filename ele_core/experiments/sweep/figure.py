"""A sweep as a figure: one panel per metric, one line per variant of a decoder."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ele_core.extras import installed, missing
from ele_core.files.atomic import write_bytes, write_text
from ele_core.types import Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ele_core.experiments.sweep import Line
    from ele_core.runs.measurements import Measurement

STYLE: dict[Any, Any] = {
    "font.size": 9,
    "lines.markersize": 5.5,
    "lines.linewidth": 1.4,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.hashsalt": "ele",  # equal results give equal files
}
# The colours of Okabe and Ito can be told apart with any colour vision.
COLOURS = ("#000000", "#E69F00", "#0072B2", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442")
MARKERS = ("o", "^", "s", "D", "v", "P", "X")
STROKES = ("-", ":", "--", "-", "-.")
DOTS = 200
"""Dots per inch of the PNG."""


@dataclasses.dataclass(frozen=True)
class Look:
    """How a line is drawn."""

    colour: str
    marker: str
    stroke: str

    @classmethod
    def at(cls, place: int) -> Look:
        """The look of the line at index `place`; marker and stroke alone distinguish the first 35 lines."""
        return cls(COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)], STROKES[place % len(STROKES)])


def draw(records: Sequence[Measurement], panels: Sequence[Metric[Any]], lines: Sequence[Line], folder: Path) -> None:
    """Write the figure as `sweep.svg` and `sweep.png`."""
    if not installed("matplotlib"):
        raise missing("the figure", "matplotlib", "figures")
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        drawn = figure(records, panels, lines)
        svg, png = io.StringIO(), io.BytesIO()
        drawn.savefig(svg, format="svg", metadata={"Date": None})
        drawn.savefig(png, format="png", dpi=DOTS)
    write_text(folder / "sweep.svg", svg.getvalue())
    write_bytes(folder / "sweep.png", png.getvalue())


def figure(records: Sequence[Measurement], panels: Sequence[Metric[Any]], lines: Sequence[Line]) -> Figure:
    """One panel per metric, one line per decoder, over the share of the candidates."""
    from matplotlib.figure import Figure

    count = len(panels)
    drawn = Figure(figsize=(max(3.2 * count, 4.8), 3.2), layout="constrained")
    axes = [drawn.add_subplot(1, count, place) for place in range(1, count + 1)]
    for panel, metric in zip(axes, panels, strict=True):
        draw_panel(panel, metric, records, lines)
    handles, labels = axes[0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=2)
    return drawn


def draw_panel(axes: Axes, metric: Metric[Any], records: Sequence[Measurement], lines: Sequence[Line]) -> None:
    """Draw one metric of all lines, on a logarithmic axis with ticks at the measured shares."""
    for place, line in enumerate(lines):
        own = [record for record in records if record["line"] == line.name]
        if own:
            values = [record["metrics"][metric.name] for record in own]
            shares = [record["share"] for record in own]
            look = Look.at(place)
            over = 2 if look.stroke == "-" else 3  # dashed over solid: both are visible where they meet
            style = f"{look.stroke}{look.marker}"
            axes.plot(shares, values, style, color=look.colour, fillstyle="none", label=line.label, zorder=over)
    shares = sorted({record["share"] for record in records})
    axes.set_xscale("log")
    axes.set_xticks(shares, [f"{100 * share:.3g}" for share in shares])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("share of the candidates (%)")
    axes.set_ylabel(f"{metric.name} ({'lower' if metric.direction == 'min' else 'higher'} is better)")
    axes.axhline(0, color="0.8", lw=0.8, zorder=0)
    axes.grid(axis="y", color="0.92", lw=0.8)
    axes.set_axisbelow(True)
