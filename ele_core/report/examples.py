"""Which predictions are drawn: the worst, the typical and the best."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ele_core.report.drawings import Drawings
from ele_core.report.measured import Measured, worst_first
from ele_core.runtime.context import Context
from ele_core.types import Metric

GROUPS = ("worst", "typical", "best")


@dataclasses.dataclass(frozen=True)
class Examples:
    """Rows by group, and for each of them the drawings of its prediction and its truth."""

    groups: dict[str, list[int]]
    drawn: dict[int, tuple[int, int]]


def examples(
    measured: Measured, metrics: Mapping[str, Metric[Any]], count: int, drawings: Drawings, context: Context
) -> Examples:
    """Choose `count` rows, a third for each group, and draw them."""
    groups = choose(worst_first(measured, metrics), count)
    predictions, truths = measured.texts["prediction"], measured.texts["truth"]
    rows = [row for group in groups.values() for row in group]
    drawn = {
        row: drawings.pair(predictions[row], truths[row])
        for row in context.monitor.progress(rows, description="drawing")
    }
    return Examples(groups, drawn)


def choose(ordered: list[int], count: int) -> dict[str, list[int]]:
    """A third of `count` rows from each end of the order and from around its middle, no row twice.

    Each group starts with its most typical row: the very worst, the very best, the very middle.
    """
    count = min(count, len(ordered))
    ends = count // 3
    worst, best = ordered[:ends], ordered[len(ordered) - ends :][::-1]
    between = ordered[ends : len(ordered) - ends]
    first = (len(between) - (count - 2 * ends)) // 2
    middle = between[first : first + count - 2 * ends]
    centre = len(middle) / 2
    typical = [row for _, row in sorted(enumerate(middle), key=lambda place: abs(place[0] + 0.5 - centre))]
    return dict(zip(GROUPS, (worst, typical, best), strict=True))
