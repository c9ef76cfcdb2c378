"""What a run wrote down while it was trained: learning curves with the weights that were kept, and the time it took."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ele_core.config import RunConfig
from ele_core.errors import ModelError, PluginError
from ele_core.files.archive import brief, read_text
from ele_core.interfaces import Kind, Learner

OURS = ("stage", "step", "best")
"""What is no metric on a line of metrics.jsonl."""


@dataclasses.dataclass(frozen=True)
class Curve:
    """One stage: the steps at which it was looked at, a value of each series there, and the step that was kept."""

    stage: str
    steps: list[int]
    series: dict[str, list[float | None]]
    decides: str | None
    """The series by which weights were kept; None: not declared, or not written down."""
    kept: int | None
    seconds: float | None
    """From the first evaluation of the run to the last of this stage."""


def curves(run: Path, decides: Mapping[str, str]) -> list[Curve]:
    """The learning curve of each stage, in their order; `decides` is the deciding metric of each stage that has one."""
    lines = read_lines(run / "metrics.jsonl")
    times = read_lines(run / "times.jsonl")
    stages = dict.fromkeys(line["stage"] for line in lines)
    return [stage_curve(stage, decides.get(stage), lines, times) for stage in stages]


def deciding(config: RunConfig) -> dict[str, str]:
    """Stage → the metric that decides, as the learners of a run declare it; one that is not installed declares none."""
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


def read_lines(file: Path) -> list[dict[str, Any]]:
    """The records of a JSONL file of evaluations; none where there is no file."""
    if not file.exists():
        return []
    try:
        records = [json.loads(line) for line in read_text(file).splitlines() if line.strip()]
        if not all(isinstance(r, dict) and isinstance(r["stage"], str) and isinstance(r["step"], int) for r in records):
            raise ValueError("a line is no evaluation")
    except (ValueError, KeyError) as error:
        raise ModelError(f"damaged: {brief(error)}.", where=str(file)) from None
    return records


def finite(value: Any) -> float | None:
    """A number that a chart can show."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def duration(seconds: float | None) -> str:
    """A time for people: 75 → "1 min 15 s"."""
    if seconds is None:
        return "not recorded"
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole % 3600 // 60, whole % 60
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{seconds:.1f} s"
