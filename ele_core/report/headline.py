"""The top of a page: metrics, a table with other decoders and published results, and where errors come from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ele_core.model.bounds import note, without_bounds
from ele_core.report.measured import Measured
from ele_core.runs.evaluations import StoredEvaluation
from ele_core.types import Metric, Reference

SUMMARIES = {
    "exact_unseen": "share of exact predictions among truths absent from training",
    "unseen": "share of truths absent from training",
    "regression_error": "mean squared distance from the query to the embedding of the truth",
    "examples": "pairs measured",
}
"""The meaning of the metrics that every evaluation has."""
SHARES = frozenset({"exact", "exact_unseen", "unseen"})
"""Metrics that are always shown as percentages."""
BETTER = {"min": "lower", "max": "higher"}


@dataclasses.dataclass(frozen=True)
class Number:
    """One metric as the page shows it."""

    name: str
    label: str
    text: str
    summary: str
    better: str = ""
    """`lower`, `higher`, or empty for a metric that is not of the space."""
    proven: str = ""
    """What is known if some pairs are not proven: the mean of the best cases, and how many pairs; else empty."""


@dataclasses.dataclass(frozen=True)
class ResultsRow:
    """One row of the table: a method, its values as texts, and the primary value as a number for its bar."""

    name: str
    kind: str
    """`this`, `ours` or `published`."""
    texts: list[str]
    value: float | None
    note: str = ""


@dataclasses.dataclass(frozen=True)
class ResultsTable:
    """Results side by side, one column per metric."""

    columns: list[str]
    rows: list[ResultsRow]
    largest: float
    better: str
    sources: list[str]

    def of(self, kind: str) -> list[ResultsRow]:
        """The rows that were `published`, or those of the `run`."""
        return [row for row in self.rows if (row.kind == "published") == (kind == "published")]

    def width(self, row: ResultsRow) -> float:
        """The length of a row's bar, in per cent."""
        return 0.0 if row.value is None else max(1.0, min(100.0, 100 * row.value / self.largest))


@dataclasses.dataclass(frozen=True)
class Loss:
    """Where errors come from: shares of all examples, and each metric from queries and from true embeddings."""

    right: float
    regression: float
    """Wrong, but right if decoded from the true embedding: lost by the regression."""
    decoding: float
    """Wrong even if decoded from the true embedding: lost by the embedding or by the decoder."""
    metrics: list[tuple[str, str, str]]


class Headline:
    """Makes numbers, table and loss from measured predictions and the metrics of the space."""

    def __init__(self, measured: Measured, metrics: Mapping[str, Metric[Any]]) -> None:
        self.measured = measured
        self.metrics = metrics
        yes_or_no = {n for n, m in metrics.items() if m.direction == "max" and set(measured.values[n]) <= {0.0, 1.0}}
        self.shares = SHARES | yes_or_no

    def numbers(self) -> list[Number]:
        """Every metric of the evaluation except `examples`, those of the space first."""
        means = without_bounds(self.measured.outcome.metrics)
        return [self._number(name, value) for name, value in means.items() if name != "examples"]

    def _number(self, name: str, value: float) -> Number:
        metric = self.metrics.get(name)
        proven = note(name, self.measured.outcome.metrics, partial(self.text, name)).strip(" ()")
        summary = metric.summary if metric else SUMMARIES.get(name, "")
        better = "" if metric is None else BETTER[metric.direction]
        return Number(name, label(name), self.text(name, value), summary, better, proven)

    def table(self, others: Sequence[StoredEvaluation], references: Sequence[Reference]) -> ResultsTable:
        """Published results, other evaluations of the run on the same split, and the one that is shown."""
        primary, own = next(iter(self.metrics)), self.measured.outcome
        names = [*self.metrics, *(["exact_unseen"] if "exact_unseen" in own.metrics else [])]

        def row(name: str, kind: str, values: Mapping[str, float], note: str = "") -> ResultsRow:
            texts = [self.mean(metric, values) if metric in values else "–" for metric in names]
            return ResultsRow(name, kind, texts, values.get(primary), note)

        rows = [row(reference.name, "published", reference.values) for reference in references]
        rows += [row(name, "ours", means, "without a model") for name, means in own.baselines.items()]
        for outcome in (*others, own):
            note = "from the true embedding" if outcome.settings["oracle"] else ""
            kind = "this" if outcome is own else "ours"
            rows.append(row(outcome.name, kind, outcome.metrics, note))
        known = [r.value for r in rows if r.value is not None]
        sources = list(dict.fromkeys(reference.source for reference in references))
        columns = [label(name) for name in names]
        return ResultsTable(columns, rows, max([*known, 1e-9]), BETTER[self.metrics[primary].direction], sources)

    def loss(self) -> Loss:
        """Split the errors into those of the regression and those that remain from the true embedding."""
        own, oracle = self.measured.values["exact"], self.measured.oracle_values["exact"]
        count = max(1, len(own))
        right = sum(value > 0 for value in own) / count
        regression = sum(one <= 0 < other for one, other in zip(own, oracle, strict=True)) / count
        mean, best = self.measured.outcome.metrics, self.measured.oracle.metrics
        compared = [(label(n), self.mean(n, mean), self.mean(n, best)) for n in self.metrics if n in best]
        return Loss(right, regression, max(0.0, 1 - right - regression), compared)

    def mean(self, name: str, means: Mapping[str, float]) -> str:
        """A mean as text, with its best case if some pairs are not proven: `1.52 (≥ 1.31)`."""
        sign = {"min": "≥", "max": "≤"}
        case = self.metrics[name].best_case if name in self.metrics else ""
        best = f" ({sign[self.metrics[name].direction]} {self.text(name, means[case])})" if case in means else ""
        return f"{self.text(name, means[name])}{best}"

    def text(self, name: str, value: float) -> str:
        """A value as text: shares as percentages, counts as whole numbers, others with four digits."""
        if name in self.shares:
            return f"{100 * value:.1f} %"
        return f"{value:,.0f}" if name == "examples" else f"{value:.4g}"


def label(name: str) -> str:
    """A metric's name as the page shows it."""
    return name.replace("_", " ")
