"""Sweep over shares of the candidates: measure decoders on each share, and write records and a figure."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tomli_w

from ele_core import config as configuration
from ele_core.config import RunConfig
from ele_core.config.diff import flatten
from ele_core.config.resolve import NONE
from ele_core.data.truths import Truths
from ele_core.display.pictures import table
from ele_core.display.text import columns
from ele_core.errors import ConfigError, closest, counted
from ele_core.extras import installed, missing
from ele_core.files.atomic import locked, write_bytes, write_text
from ele_core.interfaces import Decoder
from ele_core.model.evaluate import evaluate
from ele_core.model.model import Model
from ele_core.plugins import Registry
from ele_core.runs.measurements import Measurement, measurement, read_measurements, write_measurements
from ele_core.runs.run import Run
from ele_core.runtime.context import Context
from ele_core.runtime.device import pick_device
from ele_core.runtime.monitor import Monitor
from ele_core.types import Choice, Metric, Variant

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ele_core.runs.measurements import Measurement

SHARES = (0.01, 0.1, 0.5, 1.0)
"""The shares of the candidates that the paper's figure shows."""


def sweep(
    run: Run,
    folder: Path,
    *,
    lines: Sequence[str] = (),
    shares: Sequence[float] = SHARES,
    split: str = "test",
    limit: int | None = None,
    changes: Mapping[str, Sequence[str]] | None = None,
    command: Sequence[str] = (),
    monitor: Monitor,
) -> Sweep:
    """Measure each line on each share, and write `sweep.json`, `sweep.svg` and `sweep.png` into `folder`.

    By default `lines` are all variants of installed decoders that the run's surrogate allows. `changes` are further
    overrides, by line. Each measurement is added to `sweep.json`; one that is there with the same settings is not
    repeated. The figure and the returned sweep hold all measurements of this model on these pairs with the present
    options of each line, including earlier ones. The name of a decoder selects all its variants.
    """
    lines = named_lines(lines, run.config.registry)
    check_shares(shares)
    model = run.model()
    known = lines_for(model, lines)
    bench = Bench(run, model, split, limit, monitor, known, changes or {})
    points = [bench.point(line, share) for line in dict.fromkeys(lines or known) for share in dict.fromkeys(shares)]
    file = folder / "sweep.json"
    known_settings = list(map(settings_of, read_sweep(file)))
    missing = [point for point in points if point.settings not in known_settings]
    if len(missing) < len(points):
        monitor.message(f"{len(points) - len(missing)} of {counted(len(points), 'measurement')} already in {file}")
    with locked(folder / "lock", "sweeping"):
        for number, point in enumerate(missing, start=1):
            monitor.message(f"{number} of {len(missing)}: {point.line}, {percent(point.share)} of the candidates")
            record = bench.measure(point, command)
            others = [other for other in read_sweep(file) if not point.replaces(other)]
            write_measurements(file, [*others, record])
    result = Sweep.of(filter(bench.measured, read_sweep(file)), list(known.values()), model)
    try:
        draw(result.records, result.panels, result.lines, folder)
    except ConfigError as error:  # matplotlib is not installed: the measurements are there all the same
        monitor.message(f"no figure was drawn: {error}")
    return result


@dataclasses.dataclass(frozen=True)
class Sweep:
    """The measurements of one model on the same pairs, ordered by line and share."""

    records: list[Measurement]
    columns: list[str]
    """The metrics of the space."""
    panels: list[Metric[Any]]
    """The metrics that the figure shows."""
    lines: list[Line] = dataclasses.field(default_factory=list)
    """Every line of the model, measured or not: its index determines its colour, marker and stroke."""

    @classmethod
    def of(cls, records: Iterable[Measurement], lines: list[Line], model: Model) -> Sweep:
        """Sort the records by line and share; the figure shows the primary metric of the model's space, and `exact`."""
        order = [line.name for line in lines]
        metrics = {metric.name: metric for metric in (*model.space.metrics, model.space.exact_match)}
        panels = dict.fromkeys((next(iter(metrics)), model.space.exact_match.name))
        ordered = sorted(records, key=lambda record: (order.index(record["line"]), record["share"]))
        return cls(ordered, list(metrics), [metrics[name] for name in panels], lines)

    def __str__(self) -> str:
        """A table with a row for each measurement."""
        heading, rows = self._cells()
        return columns([heading, *rows], left=1)

    def _repr_html_(self) -> str:
        return table(*self._cells())

    def _cells(self) -> tuple[list[str], list[list[str]]]:
        """The heading, and a row for each measurement."""
        rows = [
            [record["line"], percent(record["share"])]
            + [f"{record['metrics'][name]:.4f}" for name in self.columns]
            + [f"{record['seconds']:.1f}"]
            for record in self.records
        ]
        return ["decoder", "candidates", *self.columns, "seconds"], rows


@dataclasses.dataclass(frozen=True)
class Point:
    """A point to measure: a line on a share of the candidates, with everything that the result depends on."""

    line: str
    share: float
    overrides: list[str]
    """Overrides of the run's configuration."""
    config: RunConfig
    place: dict[str, Any]
    """The split, the number of pairs and the hash of the model."""

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that the result depends on."""
        return {**self._position, "decoder": self.config.decoder.model_dump(mode="json")}

    def replaces(self, record: Measurement) -> bool:
        """Whether `record` is the same point of the figure, perhaps measured with other options."""
        return all(record.get(name) == value for name, value in self._position.items())

    @property
    def _position(self) -> dict[str, Any]:
        return {"line": self.line, "share": self.share, **self.place}


def read_sweep(file: Path) -> list[Measurement]:
    """Read the measurements written so far."""
    return read_measurements(file, "the results of a sweep", "line")


def settings_of(record: Measurement) -> dict[str, Any]:
    """The settings of a recorded measurement, comparable to `Point.settings`."""
    return {name: record.get(name) for name in ("line", "share", "split", "pairs", "model", "decoder")}


class Bench:
    """A run set up for measuring: model and data are loaded once, the data only when they are needed."""

    def __init__(
        self,
        run: Run,
        model: Model,
        split: str,
        limit: int | None,
        monitor: Monitor,
        lines: Mapping[str, Line],
        changes: Mapping[str, Sequence[str]],
    ) -> None:
        self.run = run
        self.lines = lines
        self.changes = changes
        self.model = model
        self.split = split
        self.context = Context(run.config.seed, pick_device(model.config.device), monitor)
        weights = (run.folder / "model" / "model.safetensors").read_bytes()
        self.count = min(len(run.provenance[split]), limit or sys.maxsize)
        self.place = {"split": split, "pairs": self.count, "model": hashlib.sha256(weights).hexdigest()}
        self.examples: tuple[list[Any], Truths] | None = None
        self.decoders = {line: self.point(line, 1.0).settings["decoder"] for line in lines}

    def point(self, line: str, share: float) -> Point:
        """The point of a line and a share, with the configuration to decode with."""
        differing = [*self.lines[line].overrides, f"candidates.share={share}", *self.changes.get(line, ())]
        config = configuration.load(self.run.folder / "config.toml", differing, self.run.registry)
        return Point(line, share, differing, config, self.place)

    def measure(self, point: Point, command: Sequence[str]) -> Measurement:
        """Decode and measure one point; the time is that of decoding and measuring, without loading."""
        if self.examples is None:
            prepared = self.run.data(self.context)
            rows, truths = prepared.examples(self.split, self.count)
            self.examples = prepared.data.inputs_at(rows), truths
        started = time.monotonic()
        model = dataclasses.replace(self.model, config=point.config)
        with self.run.resumable(model, point.settings, self.context) as context:
            result = evaluate(model, *self.examples, context=context)
        seconds = round(time.monotonic() - started, 1)
        about = measurement(self.run, result, command=command, split=self.split, oracle=False, seconds=seconds)
        return {"line": point.line, "share": point.share, "overrides": point.overrides, **about, **self.place}

    def measured(self, record: Measurement) -> bool:
        """Whether a record belongs to this model, to these pairs and to a known line with its present options."""
        line, same_place = record.get("line"), all(record.get(name) == value for name, value in self.place.items())
        return same_place and line in self.decoders and bool(record.get("decoder") == self.decoders[line])


def named_lines(names: Sequence[str], registry: Registry) -> list[str]:
    """The lines with these names, or of the decoders with these names; unknown names are refused."""
    lines = installed_lines(registry)
    found: list[str] = []
    for name in names:
        own = [name] if name in lines else [line.name for line in lines.values() if line.decoder == name]
        if not own:
            raise ConfigError(
                f"there is no line '{name}'{closest(name, lines)}", where="--decoder", fix=f"Lines: {', '.join(lines)}."
            )
        found += own
    return found


def check_shares(shares: Sequence[float]) -> None:
    """Refuse shares that are not above 0 and at most 1."""
    for share in shares:
        if not 0 < share <= 1:
            fix = "give a number above 0 and up to 1, such as 0.1 for 10 %."
            raise ConfigError(f"{share:g} is not a share of the candidates:", where="--share", fix=fix)


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of the figure: a variant of a decoder, measured on several shares."""

    decoder: str
    variant: Variant

    @property
    def name(self) -> str:
        """The name in `--decoder` and in measurements."""
        return self.variant.name

    @property
    def label(self) -> str:
        """The name in the figure."""
        return self.variant.label or self.variant.name

    @property
    def overrides(self) -> list[str]:
        """Overrides of a run's configuration that select this variant."""
        options = flatten({"decoder": self.variant.options}).items()
        return [f"decoder={self.decoder}", *(written(path, value) for path, value in options)]

    @property
    def choice(self) -> Choice:
        """The decoder with the options of the variant."""
        return Choice(name=self.decoder, **self.variant.options)


def installed_lines(registry: Registry) -> dict[str, Line]:
    """Every variant of every installed decoder, in the order of the registry's names."""
    found: dict[str, Line] = {}
    for line in _declared(registry):
        if line.name in found:
            first, second = (f"'{each.decoder}'" for each in (found[line.name], line))
            what = f"the decoders {first} and {second} both declare a variant '{line.name}'."
            raise ConfigError(what, where="sweep", fix="Uninstall one of them, or rename its variant.")
        found[line.name] = line
    return found


def lines_for(model: Model, asked: Sequence[str] = ()) -> dict[str, Line]:
    """The lines that this model's surrogate allows, and those that `asked` names."""
    known = installed_lines(model.config.registry).items()
    return {name: line for name, line in known if name in asked or model.can_use(line.choice)}


def written(path: str, value: Any) -> str:
    """An override as a user would type it: texts without quotes, unless they would be read as something else."""
    toml = NONE if value is None else " ".join(tomli_w.dumps({"value": value}).partition("=")[2].split())
    bare, quoted = f"{path}={value}", f"{path}={toml}"
    same = isinstance(value, str) and configuration.as_changes([bare]) == configuration.as_changes([quoted])
    return bare if same else quoted


def percent(share: float) -> str:
    """A share as text: 0.1 is 10 %."""
    return f"{100 * share:.3g} %"


def _declared(registry: Registry) -> Iterator[Line]:
    decoders: dict[str, type[Decoder]] = registry.usable("decoder")
    for name, decoder in decoders.items():
        prefix = f"{name.rpartition(':')[0]}:" if ":" in name else ""  # another plugin provides a decoder of this name
        for variant in decoder.variants:
            yield Line(name, dataclasses.replace(variant, name=prefix + variant.name))
        if not decoder.variants:
            yield Line(name, Variant(name))


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


def look(place: int) -> tuple[str, str, str]:
    """The colour, marker and stroke of the line at index `place`; the last two alone distinguish the first 35 lines."""
    return COLOURS[place % len(COLOURS)], MARKERS[place % len(MARKERS)], STROKES[place % len(STROKES)]


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
            colour, marker, stroke = look(place)
            over = 2 if stroke == "-" else 3  # dashed over solid: both are visible where they meet
            style = f"{stroke}{marker}"
            axes.plot(shares, values, style, color=colour, fillstyle="none", label=line.label, zorder=over)
    shares = sorted({record["share"] for record in records})
    axes.set_xscale("log")
    axes.set_xticks(shares, [f"{100 * share:.3g}" for share in shares])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("share of the candidates (%)")
    axes.set_ylabel(f"{metric.name} ({'lower' if metric.direction == 'min' else 'higher'} is better)")
    axes.axhline(0, color="0.8", lw=0.8, zorder=0)
    axes.grid(axis="y", color="0.92", lw=0.8)
    axes.set_axisbelow(True)
