"""The top of a page: metrics, a table with other methods, where errors come from, what to try, and confidence."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ele_core.model.metrics import note, without_bounds
from ele_core.model.model import Model
from ele_core.model.trust.judged import without_confidence
from ele_core.report.learning_curves import Curve
from ele_core.report.measured import Measured
from ele_core.runs.measurements import StoredEvaluation
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
        rows += [row(name, "ours", means, "a rival, on the same pairs") for name, means in own.rivals.items()]
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


def trust_of(measured: Measured, model: Model) -> dict[str, Any]:
    """Return `trust`: how well confidence and sets hold, or None; and `no_trust`: how to add them if there is none."""
    reason = without_confidence(model, None)
    said = f"{reason[0].upper()}{reason[1:]}. To add one: ele calibrate, with the folder of this run." if reason else ""
    return {"trust": measured.outcome.trust or None, "no_trust": said}


SEPARATES, IN_PART = 0.85, 0.65
"""Areas under the curve from which on confidence separates right from wrong answers, or does so in part."""
SURE = 0.95
"""The confidence at which wrong answers among the accepted are counted."""
MANY = 10_000
"""Training pairs from which on more are no longer the first advice."""


def verdict(metrics: Mapping[str, float], trust: Mapping[str, Any], pairs: int) -> list[str]:
    """What an evaluation means, in plain words: how often the model is right, what its confidence is worth, what to do.

    `trust` is the assessment of confidence, empty if there is none; `pairs` is the number of training pairs.
    """
    exact, examples = metrics.get("exact"), metrics.get("examples", 0)
    if exact is None or not examples:
        return []
    said = [f"Right in about {100 * exact:.0f} of 100, by {examples:,.0f} pairs that were not trained on."]
    said += [confidence_in_words(trust)] if trust else []
    if exact < SURE and pairs < MANY:
        said.append(f"More pairs would help most: there were {pairs:,} to train on.")
    elif exact < SURE:
        said.append("What is lost where, and what to try: see the report.")
    return said


def confidence_in_words(trust: Mapping[str, Any]) -> str:
    """Whether confidence separates right from wrong answers, and how many sure answers are wrong."""
    if trust["auc"] is None:
        all_are = "right" if trust["exact"] else "wrong"
        return f"Whether confidence separates right from wrong answers cannot be said: all are {all_are}."
    sure = next((each for each in trust["accepted"] if each["least_confidence"] == SURE), None)
    counted_sure = "no answer"
    if sure is not None and sure["accepted"]:
        counted_sure = (
            f"{sure['accepted']:,} of {trust['examples']:,}, {sure['accepted'] - sure['exact']:,} of them wrong"
        )
    what = f"confidence of at least {SURE}: {counted_sure}"
    if trust["auc"] >= SEPARATES:
        return f"Confidence separates right from wrong answers ({what})."
    if trust["auc"] >= IN_PART:
        return f"Confidence separates right from wrong answers only in part ({what})."
    return f"Confidence does not separate right from wrong answers: do not choose answers by it ({what})."


FEW = 1000
"""Training pairs below which more pairs are the first advice."""
FAR = 2.0
"""How many times the training loss a validation error is if the regressor memorises its pairs."""
GOOD = 0.5
"""The exact share from the true embedding above which embedding and decoder are good enough."""


def advice(measured: Measured, pairs: int, regression: Curve | None, decoders: Sequence[str]) -> list[str]:
    """Sentences for a run without exact predictions, else none.

    `pairs` is the number of training pairs, `regression` the learning curve of the regressor, `decoders` the other
    decoders that work with the model.
    """
    if measured.outcome.metrics.get("exact", 1.0) > 0:
        return []
    none = "No prediction is exact."
    few = f"The run was trained on {pairs:,} pairs; some thousands are usual. More pairs help most."
    return [none, *([few] if pairs < FEW else []), *oracle(measured, decoders), *regressor(regression)]


def oracle(measured: Measured, decoders: Sequence[str]) -> list[str]:
    """Whether embedding and decoder could find the truth."""
    best, unseen = measured.oracle.metrics.get("exact", 0.0), measured.outcome.metrics.get("unseen", 0.0)
    if best >= GOOD:
        return [f"Decoded from the true embedding, {percent(best)} are exact: the regression is what fails."]
    sentences = [
        f"Even decoded from the true embedding, {percent(best)} are exact: the embedding or the decoder fails."
    ]
    if best == 0 and unseen > 0:
        what = f"{percent(unseen)} of the truths are not among the candidates"
        sentences.append(f"{what}: a decoder that only chooses among candidates cannot find these.")
    try_decoders = f"another decoder ({', '.join(decoders)}), " if decoders else ""
    return [*sentences, f"Try {try_decoders}more candidates, or an embedding that is larger or trained for longer."]


def regressor(curve: Curve | None) -> list[str]:
    """Whether the regressor memorises its pairs or has not learned them, by the weights that were kept."""
    if curve is None or curve.decides is None or curve.kept is None:
        return []
    at = curve.steps.index(curve.kept)
    loss, error = (curve.series.get(name, [None] * (at + 1))[at] for name in ("loss", curve.decides))
    if loss is None or error is None or loss <= 0:
        return []
    if error > FAR * loss:
        what = f"The error on validation pairs, {error:.3g}, is {error / loss:.1f} times the training loss, {loss:.3g}"
        fix = "Use more pairs, a smaller or more regularised network, or a simpler regressor."
        return [f"{what}: the regressor memorises its pairs.", fix]
    what = f"The training loss, {loss:.3g}, is not far below the error on validation pairs, {error:.3g}"
    fix = "Train for more epochs or use a larger network, and check that the inputs determine the outputs."
    return [f"{what}: the regressor has not learned its pairs.", fix]


def percent(share: float) -> str:
    """A share as text."""
    return f"{100 * share:.0f} %"
