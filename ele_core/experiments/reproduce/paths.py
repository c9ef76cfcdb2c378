"""The trace of a decoder as a figure: the structures of a few inputs at some of its steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ele_core.config import Overrides
from ele_core.display.pictures import Cell, sheet_png, sheet_svg
from ele_core.errors import ConfigError
from ele_core.experiments.study import Paths
from ele_core.extras import installed, missing
from ele_core.files.atomic import write_bytes, write_text
from ele_core.model.model import Model
from ele_core.runs.run import Run, context_for
from ele_core.runtime.distributed import Processes
from ele_core.runtime.monitor import Monitor
from ele_core.types import Metric, Trace


def draw_paths(study: Paths, run: Run, overrides: Overrides, target: Path, monitor: Monitor) -> list[dict[str, Any]]:
    """Decode a few test inputs, write `target`.svg and .png, and return what is drawn: one entry per input."""
    model = run.model(overrides)
    context = context_for(model.config, monitor, Processes())
    data = run.data(context).data
    rows = data.test[: study.examples]
    inputs, truths = data.inputs_at(rows), data.outputs[rows]
    trace = model.decode(model.queries(inputs), trace=True, context=context).trace
    if trace is None:
        fix = "Choose a decoder that can record one (Decoder.traces)."
        raise ConfigError(f"decoder '{model.config.decoder.name}' recorded no trace to draw.", where="decoder", fix=fix)
    chosen = evenly(len(trace.steps), study.pictures)
    followed = [follow(model, trace, number, chosen, truths) for number in range(len(inputs))]
    cells = [cells for _, cells in followed]
    write_text(target.with_suffix(".svg"), sheet_svg(cells))
    if installed("matplotlib"):
        write_bytes(target.with_suffix(".png"), sheet_png(cells))
    else:
        monitor.message(f"only an SVG was drawn: {missing('a PNG', 'matplotlib', 'figures')}")
    return [{"input": model.inputs.format(x), **entry} for x, (entry, _) in zip(inputs, followed, strict=True)]


def follow(
    model: Model, trace: Trace, number: int, chosen: Sequence[int], truths: Any
) -> tuple[dict[str, Any], list[Cell]]:
    """The chosen steps of one input, as numbers (structure, energy, metric) and as pictures, followed by the truth."""
    space = model.space
    metric: Metric[Any] = space.metrics[0]
    own = slice(number, number + 1)
    truth = space.unpack(truths[own])[0]
    steps, cells = [], []
    for place in chosen:
        batch, step = trace.structures[place][own], int(trace.steps[place])
        structure = space.unpack(batch)[0]
        energy, value = float(trace.energies[place][number]), float(metric.values(batch, truths[own])[0])
        steps.append({"step": step, "structure": space.texts.format(structure), "energy": energy, metric.name: value})
        caption = [f"step {step}", f"energy {energy:.3f}, {metric.name} {value:g}"]
        cells.append(Cell(space.show.render(structure, truth), caption))
    cells.append(Cell(space.show.render(truth), ["truth", space.texts.format(truth)]))
    return {"truth": space.texts.format(truth), "steps": steps}, cells


def evenly(count: int, pictures: int) -> list[int]:
    """At most `pictures` of `count` indices, evenly spaced from the first to the last."""
    if pictures >= count:
        return list(range(count))
    return [round(place * (count - 1) / (pictures - 1)) for place in range(pictures)] if pictures > 1 else [count - 1]
