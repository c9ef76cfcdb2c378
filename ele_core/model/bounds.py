"""Means of metrics whose values are known only between bounds for some pairs: how they are named, counted and written.

Beside a metric `NAME` there is then `NAME_at_least`, or `NAME_at_most` if a higher value is better: the mean of the
bounds on the better side; and `NAME_not_proven`: the number of pairs for which the bounds differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

AT_BEST = {"_at_least": "at least", "_at_most": "at most"}
"""The endings of the names of best cases, and the words for them."""
NOT_PROVEN = "_not_proven"


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
