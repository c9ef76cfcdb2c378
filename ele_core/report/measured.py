"""The predictions that a report shows: from an earlier evaluation with the same settings, or from a new one."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ele_core.config import Overrides
from ele_core.data.objects import pack_all
from ele_core.errors import ModelError, counted
from ele_core.model.evaluate import OTHERS
from ele_core.model.model import BLOCK, Model
from ele_core.model.results import CONFIDENCE, EXPECTED
from ele_core.runs.measurements import StoredEvaluation
from ele_core.runs.run import Run
from ele_core.runtime.context import Context
from ele_core.runtime.distributed import Processes
from ele_core.runtime.monitor import Monitor
from ele_core.types import Metric, PlannedStage

TEXTS = ("input", "prediction", "truth")
LONGEST = 300
"""Characters of an input that the page shows."""


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What a report is asked to show."""

    split: str = "test"
    limit: int | None = None
    """Show only this number of pairs of the split; None: all."""
    overrides: Overrides = ()
    """Overrides of the configuration, to decode in another way."""
    examples: int = 150
    """How many predictions are drawn; the others are shown as text."""

    def settings(self, *, oracle: bool) -> dict[str, Any]:
        """The settings of the evaluation to show."""
        return {"split": self.split, "limit": self.limit, "oracle": oracle}


@dataclasses.dataclass(frozen=True)
class Measured:
    """N predictions: their texts, energies and metrics, and the metrics of the same inputs from the true embedding."""

    outcome: StoredEvaluation
    oracle: StoredEvaluation
    texts: dict[str, list[str]]
    energies: list[float]
    values: dict[str, list[float]]
    oracle_values: dict[str, list[float]]
    best: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    """The better bound of metrics that are known only within bounds."""
    other_truths: list[str] | None = None
    """Right outputs besides the nearest, which is the truth; None: every input has only one."""
    trusted: dict[str, list[float]] = dataclasses.field(default_factory=dict)
    """`confidence` and `expected_METRIC` of each prediction; empty: the model is not calibrated for them."""

    def __len__(self) -> int:
        return len(self.energies)

    def columns(self) -> dict[str, Any]:
        """The predictions by column: texts, energies, metrics, best cases that are not proven, confidence if known."""
        others = {} if self.other_truths is None else {OTHERS: self.other_truths}
        own = {"energy": self.energies, "metrics": self.values, "best": self.best, "trusted": self.trusted}
        return {**self.texts, "input": [shortened(text) for text in self.texts["input"]], **others, **own}

    def truths(self, model: Model, context: Context) -> Any:
        """The true structures, packed; parsed from the table unless they were measured in this process."""
        if self.outcome.result is not None:
            return self.outcome.result.truths
        return pack_all(model.space, [model.space.texts.parse(text) for text in self.texts["truth"]], context)

    def queries(self, model: Model) -> Tensor:
        """The queries of the inputs (N, q); predicted again unless they were measured in this process."""
        if self.outcome.result is not None:
            return self.outcome.result.queries
        return model.queries([model.inputs.parse(text) for text in self.texts["input"]])

    def constraints(self, model: Model) -> list[Any | None]:
        """The constraint that follows from each input, None for each from which nothing does."""
        return model.implied([model.inputs.parse(text) for text in self.texts["input"]]) or [None] * len(self)


def shortened(text: str) -> str:
    """An input as the page shows it: of a long one, such as a vector, the beginning and the length."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters)"


def measured_before(run: Run, model: Model, wanted: Wanted) -> Measured:
    """Read the predictions, and their metrics, from existing evaluations."""
    outcome, oracle = (outcome_of(run, model, wanted, oracle=oracle) for oracle in (False, True))
    rows, oracle_rows = outcome.rows, oracle.rows
    metrics = metrics_of(model)
    names = [name for name in metrics if rows and name in rows[0]]
    trusted = [name for name in (rows[0] if rows else ()) if name == CONFIDENCE or name.startswith(EXPECTED)]
    bounded = [name for name in names if metrics[name].best_case in rows[0]]
    try:
        return Measured(
            outcome,
            oracle,
            {name: [row[name] for row in rows] for name in TEXTS},
            [float(row["energy"] or "inf") for row in rows],
            {name: [float(row[name]) for row in rows] for name in names},
            {name: [float(row[name]) for row in oracle_rows] for name in names},
            {name: [float(row[metrics[name].best_case]) for row in rows] for name in bounded},
            [row[OTHERS] for row in rows] if rows and OTHERS in rows[0] else None,
            {name: [float(row[name]) for row in rows] for name in trusted},
        )
    except (KeyError, ValueError, TypeError):
        fix = "Remove it and run the command again."
        raise ModelError("not a table of predictions.", where=str(outcome.file), fix=fix) from None


def evaluate_missing(run: Run, model: Model, wanted: Wanted, monitor: Monitor, processes: Processes) -> None:
    """Decode from the queries and from the true embedding, unless these evaluations exist already.

    Several processes share the work: all of them call this, and the main one decides what is missing.
    """
    inputs = min(len(run.provenance[wanted.split]), wanted.limit or sys.maxsize)
    blocks = math.ceil(math.ceil(inputs / BLOCK) / processes.count)
    monitor.plan([PlannedStage(model.config.decoder.name, blocks)] * 2)
    for oracle in (False, True):
        settings = wanted.settings(oracle=oracle)
        if processes.largest(int(processes.main and run.evaluation(model, settings) is None)):
            way = " from the true embedding, to separate errors of regression and decoding" if oracle else ""
            monitor.message(f"decoding {counted(inputs, f'{wanted.split} input')} for the report{way}")
            run.evaluate(**settings, overrides=wanted.overrides, monitor=monitor)


def outcome_of(run: Run, model: Model, wanted: Wanted, *, oracle: bool) -> StoredEvaluation:
    """The existing evaluation; raise if there is none."""
    outcome = run.evaluation(model, wanted.settings(oracle=oracle))
    if outcome is None:
        raise ModelError("an evaluation is missing.", where=str(run.folder), fix="Run the command again.")
    return outcome


def metrics_of(model: Model) -> Mapping[str, Metric[Any]]:
    """The metrics of the space by name, the primary one first; `exact` is always among them."""
    metrics = {metric.name: metric for metric in model.space.metrics}
    metrics.setdefault("exact", model.space.exact_match)
    return metrics


def worst_first(measured: Measured, metrics: Mapping[str, Metric[Any]]) -> list[int]:
    """Rows from worst to best by the first metric; ties by the next metrics, then by energy."""
    signs = {name: -1 if metric.direction == "min" else 1 for name, metric in metrics.items()}

    def order(row: int) -> tuple[float, ...]:
        values = [sign * measured.values[name][row] for name, sign in signs.items() if name in measured.values]
        return (*(-math.inf if math.isnan(value) else value for value in values), -measured.energies[row])

    return sorted(range(len(measured)), key=order)
