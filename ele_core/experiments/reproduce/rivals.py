"""Measure a rival of a study: a method that is not made of ELE's components."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from ele_core.data.prepare import prepare
from ele_core.errors import PluginError, counted
from ele_core.experiments.reproduce.plan import Job
from ele_core.model.bounds import means
from ele_core.model.evaluate import measure
from ele_core.runs.folder import SPLITS
from ele_core.runs.records import DIGITS, circumstances
from ele_core.runs.run import context_for
from ele_core.runtime.distributed import Processes
from ele_core.runtime.monitor import Monitor


def measured_rival(job: Job, command: Sequence[str], monitor: Monitor) -> dict[str, Any]:
    """Let the rival of a job learn and predict, and measure its predictions as those of a model."""
    rival = job.row.rival
    assert rival is not None
    context = context_for(job.config, monitor, Processes())
    prepared = prepare(job.config, context)
    rows, truths = prepared.examples("test", job.limit)
    started = time.monotonic()
    predicted = rival.predict(prepared, rows, context)
    seconds = round(time.monotonic() - started, 1)
    if len(predicted) != len(rows):
        what = f"{counted(len(predicted), 'answer')} for {counted(len(rows), 'input')}."
        fix = "Return one packed output for each row."
        raise PluginError(f"the rival {type(rival).__name__} gave {what}", where=job.row.name, fix=fix)
    metrics = {**means(measure(prepared.space, predicted, truths, context)), "examples": float(len(truths))}
    data = {name: getattr(prepared.data, name) for name in ("source", "fingerprint", *SPLITS)}
    return {
        **circumstances(job.config, data, command=command, seconds=seconds),
        "split": "test",
        "oracle": False,
        "rival": rival.settings,
        "metrics": {name: round(value, DIGITS) for name, value in metrics.items()},
    }
