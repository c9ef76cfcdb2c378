"""What a run recorded during training: learning curves, the steps whose weights were kept, and times."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ele_core.config import RunConfig
from ele_core.errors import PluginError
from ele_core.interfaces import Learner
from ele_core.runs.folder import METRICS, TIMES, read_journal
from ele_core.types import Kind

OURS = ("stage", "step", "best")
"""Keys of a line of metrics.jsonl that are not metrics."""


@dataclasses.dataclass(frozen=True)
class Curve:
    """One stage: the steps of its evaluations, the values of each series, and the step whose weights were kept."""

    stage: str
    steps: list[int]
    series: dict[str, list[float | None]]
    decides: str | None
    """The series that selected the weights; None: not declared, or not recorded."""
    kept: int | None
    seconds: float | None
    """From the first evaluation of the run to the last of this stage."""


def curves(run: Path, decides: Mapping[str, str]) -> list[Curve]:
    """The learning curve of each stage, in order; `decides` maps stages to their deciding metrics."""
    lines = read_journal(run / METRICS)
    times = read_journal(run / TIMES)
    stages = dict.fromkeys(line["stage"] for line in lines)
    return [stage_curve(stage, decides.get(stage), lines, times) for stage in stages]


def deciding(config: RunConfig) -> dict[str, str]:
    """Stage → the deciding metric, as the learners of a run declare it; without learners that are not installed."""
    found: dict[str, str] = {}
    chosen: list[tuple[Kind, str]] = [("surrogate", config.surrogate.name), ("regressor", config.regressor.name)]
    for kind, name in chosen:
        with suppress(PluginError):
            learner: type[Learner] = config.registry.get(kind, name)
            found |= {stage.name: stage.decides for stage in learner.stages}
    return found


def stage_curve(stage: str, decides: str | None, lines: list[dict[str, Any]], times: list[dict[str, Any]]) -> Curve:
    """The curve of one stage."""
    own = [line for line in lines if line["stage"] == stage]
    names = [name for name in own[0] if name not in OURS]
    best = [line["step"] for line in own if line.get("best")]
    seconds = [line.get("seconds") for line in times if line["stage"] == stage]
    return Curve(
        stage,
        [line["step"] for line in own],
        {name: [finite(line.get(name)) for line in own] for name in names},
        decides if decides in names else None,
        best[-1] if best else None,
        seconds[-1] if seconds else None,
    )


def finite(value: Any) -> float | None:
    """A value as a number that a chart can show; None if it is not a finite number."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def duration(seconds: float | None) -> str:
    """A time as text: 75 → "1 min 15 s"."""
    if seconds is None:
        return "not recorded"
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole % 3600 // 60, whole % 60
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"
