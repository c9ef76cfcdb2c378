"""Measure predictions by the metrics of an output space: values, means, bounds, and means by a property of the truths.

Some values of a metric are known only within bounds. Beside a metric `NAME` there is then `NAME_at_least`, or
`NAME_at_most` if a higher value is better: the mean of the bounds on the better side; and `NAME_not_proven`: the number
of pairs for which the bounds differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ele_core.data.truths import Truths
from ele_core.display.text import columns
from ele_core.errors import ConfigError
from ele_core.interfaces import OutputSpace
from ele_core.runtime.blockwise import PLAIN, in_blocks
from ele_core.runtime.context import Context
from ele_core.types import Decoding, Metric

BLOCK = 128
"""Examples measured at a time: limits the work that is repeated after a stop."""
SIZE = "size of "
"""Before the name of a metric while its values are computed: the sizes that they are divided by."""
AT_BEST = {"_at_least": "at least", "_at_most": "at most"}
"""The endings of the names of best cases, and the words for them."""
NOT_PROVEN = "_not_proven"
MOST = 100
"""Maximum number of different values of a property by which metrics are grouped."""

Groups = list[dict[str, Any]]
"""For each value of a property, in increasing order: the `value`, the number of `examples`, the mean `metrics`."""


def nearest_truths(space: OutputSpace[Any, Any], predicted: Any, truths: Truths) -> Any:
    """The truth of each example that is nearest to its prediction, by the metric that tells good from bad."""
    metric = deciding(space)
    values = metric.values(truths.of_examples(predicted), truths.outputs)
    return truths.outputs[truths.nearest(values, metric.direction)]


def deciding(space: OutputSpace[Any, Any]) -> Metric[Any]:
    """Return the metric that tells good from bad predictions: the first that measures a distance, else the primary one.

    Few pairs often give no exact prediction at all, and a distance still tells good from bad.
    """
    return next((metric for metric in space.metrics if metric.direction == "min"), space.metrics[0])


def only_answers(values: Mapping[str, Tensor], found: Decoding) -> dict[str, Tensor]:
    """The values of each metric, `exact` only for inputs with an answer: others have any structure in its place."""
    return {**values, "exact": values["exact"] * found.answered}


def measure(space: OutputSpace[Any, Any], predicted: Any, truths: Truths, context: Context) -> dict[str, Tensor]:
    """Compute each metric of the space, one value per example; `exact` is always among them.

    The value of an example with several truths is the best over them. If a metric has values that are known only
    between bounds, the best ones follow under `Metric.best_case`. Values of a metric with a `size` are divided by the
    mean size of the nearest truths.
    """
    metrics = {metric.name: metric for metric in space.metrics}
    metrics.setdefault("exact", space.exact_match)

    def block(first: int, end: int, _: Context) -> dict[str, Tensor]:
        own, found = truths.part(first, end), {}
        answers = own.of_examples(predicted[first:end])
        for name, metric in metrics.items():
            worst, best = metric.worst_and_best(answers, own.outputs)
            found[name] = own.best(worst, metric.direction)
            if metric.size is not None:
                found[SIZE + name] = metric.size(own.outputs)[own.nearest(worst, metric.direction)].float()
            if best is not worst:
                found[metric.best_case] = own.best(best, metric.direction)
        return found

    parts = in_blocks(block, len(truths), BLOCK, context, "metrics", PLAIN)
    names = [name for metric in metrics.values() for name in (metric.name, metric.best_case, SIZE + metric.name)]
    known = [name for name in names if name in parts[0]]  # tensors from a checkpoint or another process have no order
    values = relative({name: torch.cat([part[name] for part in parts]) for name in known}, metrics)
    proven = {metric.best_case for metric in metrics.values() if same(values, metric.name, metric.best_case)}
    return {name: value for name, value in values.items() if name not in proven}


def relative(values: Mapping[str, Tensor], metrics: Mapping[str, Metric[Any]]) -> dict[str, Tensor]:
    """Divide the values of each metric that has a size by the mean of its sizes; remove the sizes."""
    found = {name: value for name, value in values.items() if not name.startswith(SIZE)}
    for name, metric in metrics.items():
        if metric.size is not None:
            mean = values[SIZE + name].mean().clamp(min=1e-9)
            found |= {own: found[own] / mean for own in (name, metric.best_case) if own in found}
    return found


def same(values: Mapping[str, Tensor], name: str, other: str) -> bool:
    """Whether both are there, with equal values."""
    return other in values and torch.equal(values[name], values[other])


# -- means --------------------------------------------------------------------------------------------------------


def means(values: Mapping[str, Tensor]) -> dict[str, float]:
    """The mean of each metric; after the mean of a best case, the number of pairs that are not proven."""
    found: dict[str, float] = {}
    for name, value in values.items():
        found[name] = value.float().mean().item()
        if metric := metric_of(name, values):
            found[f"{metric}{NOT_PROVEN}"] = float((value != values[metric]).sum())
    return found


def texts(metrics: Mapping[str, float], written: Callable[[float], str]) -> dict[str, str]:
    """Each mean as text, with a note if some pairs are not proven: `1.52 (at least 1.31: 40 of 2,000 not proven)`."""
    return {name: f"{written(value)}{note(name, metrics, written)}" for name, value in without_bounds(metrics).items()}


def without_bounds(metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics without best cases and numbers of pairs that are not proven."""
    return {name: value for name, value in metrics.items() if not metric_of(name, metrics)}


def note(name: str, metrics: Mapping[str, float], written: Callable[[float], str]) -> str:
    """The note to the mean of a metric, with a space before it; empty if all pairs are proven."""
    for ending, words in AT_BEST.items():
        if (best := metrics.get(f"{name}{ending}")) is not None:
            count, total = metrics.get(f"{name}{NOT_PROVEN}", 0.0), metrics.get("examples")
            pairs = f"{count:,.0f}" if total is None else f"{count:,.0f} of {total:,.0f}"
            return f" ({words} {written(best).strip()}: {pairs} not proven)"
    return ""


def metric_of(name: str, among: Mapping[str, object]) -> str:
    """The metric among these that the best case, or the number of pairs not proven, `name` belongs to; else empty."""
    found = (name.removesuffix(ending) for ending in (*AT_BEST, NOT_PROVEN) if name.endswith(ending))
    return next((metric for metric in found if metric in among), "")


# -- by a property ------------------------------------------------------------------------------------------------


def by_properties(space: OutputSpace[Any, Any], truths: Any, values: Mapping[str, Tensor]) -> dict[str, Groups]:
    """Group each metric, one value per example, by every property of the space that has few different values."""
    columns = space.show.properties(truths)
    return {name: grouped(column, values) for name, column in columns.items() if len(column.unique()) <= MOST}


def property_of(space: OutputSpace[Any, Any], batch: Any, name: str) -> Tensor:
    """One number per structure: the property `name`. Raise `ConfigError` if the output space does not have it."""
    columns = space.show.properties(batch)
    if name not in columns:
        known = f"these outputs have {', '.join(columns)}" if columns else "these outputs have none"
        raise ConfigError(f"there is no property {name!r}: {known}.", where="--by")
    return columns[name]


def grouped(column: Tensor, values: Mapping[str, Tensor]) -> Groups:
    """Mean metrics of the examples with equal entries of `column`."""
    kinds, place = column.cpu().unique(return_inverse=True)
    counts = torch.bincount(place, minlength=len(kinds))
    means = {name: torch.bincount(place, own.cpu().double(), len(kinds)) / counts for name, own in values.items()}
    return [
        {"value": kind, "examples": int(count), "metrics": {name: float(mean[k]) for name, mean in means.items()}}
        for k, (kind, count) in enumerate(zip(kinds.tolist(), counts, strict=True))
    ]


def as_lines(name: str, groups: Groups) -> list[str]:
    """The groups as lines of a table: the property, the number of examples, and each metric."""
    metrics = list(groups[0]["metrics"]) if groups else []
    rows: list[Sequence[str]] = [(name, "examples", *metrics)]
    rows += [
        (f"{each['value']:g}", f"{each['examples']:,}", *(f"{value:.4f}" for value in each["metrics"].values()))
        for each in groups
    ]
    return columns(rows, left=0).splitlines()
