"""A sweep as a figure: a panel for each metric, a line for each way to decode."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ele_core.experiments.sweep.lines import LINES, Record, percent
from ele_core.files.atomic import write_bytes, write_text
from ele_core.interfaces import Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE: dict[Any, Any] = {
    "font.size": 9,
    "lines.markersize": 5.5,
    "lines.linewidth": 1.4,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.hashsalt": "ele",  # equal results give equal files
}
DOTS = 200
"""Dots to an inch of the PNG."""


def draw(records: Sequence[Record], panels: Sequence[Metric[Any]], folder: Path) -> None:
    """Write the figure as `sweep.svg` and `sweep.png`."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        drawn = figure(records, panels)
        svg, png = io.StringIO(), io.BytesIO()
        drawn.savefig(svg, format="svg", metadata={"Date": None})
        drawn.savefig(png, format="png", dpi=DOTS)
    write_text(folder / "sweep.svg", svg.getvalue())
    write_bytes(folder / "sweep.png", png.getvalue())


def figure(records: Sequence[Record], panels: Sequence[Metric[Any]]) -> Figure:
    """A panel for each metric, a line for each decoder, over the share of the candidates."""
    from matplotlib.figure import Figure

    count = len(panels)
    drawn = Figure(figsize=(max(3.2 * count, 4.8), 3.2), layout="constrained")
    axes = [drawn.add_subplot(1, count, place) for place in range(1, count + 1)]
    for panel, metric in zip(axes, panels, strict=True):
        draw_panel(panel, metric, records)
    handles, labels = axes[0].get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=2)
    return drawn


def draw_panel(axes: Axes, metric: Metric[Any], records: Sequence[Record]) -> None:
    """One metric of all lines; a logarithmic axis, ticked at the shares that were measured."""
    for name, line in LINES.items():
        own = [record for record in records if record["line"] == name]
        if own:
            values = [record["metrics"][metric.name] for record in own]
            shares = [record["share"] for record in own]
            over = 2 if line.stroke == "-" else 3
            look = f"{line.stroke}{line.marker}"
            axes.plot(shares, values, look, color=line.colour, fillstyle="none", label=line.label, zorder=over)
    shares = sorted({record["share"] for record in records})
    axes.set_xscale("log")
    axes.set_xticks(shares, [percent(share).removesuffix(" %") for share in shares])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("share of the candidates (%)")
    axes.set_ylabel(f"{metric.name} ({'lower' if metric.direction == 'min' else 'higher'} is better)")
    axes.axhline(0, color="0.8", lw=0.8, zorder=0)
    axes.grid(axis="y", color="0.92", lw=0.8)
    axes.set_axisbelow(True)
