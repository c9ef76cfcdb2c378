"""How well probabilities tell right from wrong: area under the curve, calibration error, risk by coverage."""

from __future__ import annotations

import torch
from torch import Tensor

BINS = 10
"""Intervals of equal width in which probabilities are compared with frequencies."""


def area_under_curve(scores: Tensor, right: Tensor) -> float | None:
    """The probability that a right example has a higher score than a wrong one; equal scores count half.

    None if all are right or all are wrong.
    """
    right = right.bool()
    positives, negatives = int(right.sum()), int((~right).sum())
    if not positives or not negatives:
        return None
    _, place, counts = scores.double().unique(return_inverse=True, return_counts=True)
    ends = counts.cumsum(dim=0).double()
    ranks = (ends - (counts.double() - 1) / 2)[place]
    return float((ranks[right].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def reliability(confidence: Tensor, right: Tensor) -> list[dict[str, float]]:
    """For each interval of confidence that has examples: its ends, their number, mean confidence and share of right."""
    place = (confidence * BINS).long().clamp(0, BINS - 1)
    found = []
    for number in place.unique().tolist():
        own = place == number
        found.append(
            {
                "from": number / BINS,
                "to": (number + 1) / BINS,
                "examples": int(own.sum()),
                "confidence": float(confidence[own].double().mean()),
                "right": float(right[own].double().mean()),
            }
        )
    return found


def calibration_error(confidence: Tensor, right: Tensor) -> float:
    """The mean distance of confidence and share of right over the intervals, weighted by their examples."""
    intervals = reliability(confidence, right)
    total = sum(each["examples"] for each in intervals)
    return sum(each["examples"] * abs(each["confidence"] - each["right"]) for each in intervals) / max(1, total)


def risk_by_coverage(confidence: Tensor, loss: Tensor, points: int = 101) -> list[tuple[float, float]]:
    """The mean loss of the most confident share of the examples, for shares up to 1."""
    order = confidence.argsort(descending=True, stable=True)
    means = loss[order].double().cumsum(dim=0) / torch.arange(1, len(loss) + 1)
    ends = torch.linspace(0, len(loss), points).round().long().unique()
    return [(int(end) / len(loss), float(means[end - 1])) for end in ends if end > 0]
