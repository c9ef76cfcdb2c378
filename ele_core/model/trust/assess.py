"""What a calibration is worth: measured on pairs with known truths, or by cross-validation on its own pairs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ele_core.data.truths import Truths
from ele_core.errors import DataError
from ele_core.interfaces import OutputSpace
from ele_core.model.metrics import by_properties
from ele_core.model.trust.calibration import NAMES, Calibration, rank_of_truth
from ele_core.model.trust.judged import Trust
from ele_core.model.trust.sets import Promise, prediction_sets
from ele_core.numerics.calibration_metrics import area_under_curve, calibration_error, reliability, risk_by_coverage
from ele_core.numerics.conformal import most_coverage
from ele_core.numerics.regression import fit_linear

COVERAGES = (0.8, 0.9, 0.95, 0.99)
"""The coverages at which prediction sets are measured."""
FOLDS = 5
ACCEPTED = (0.5, 0.8, 0.9, 0.95, 0.99)
"""The least confidences at which the share of accepted answers is measured."""

Assessment = dict[str, Any]
"""What was measured, as JSON can hold it."""


def assess(space: OutputSpace[Any, Any], trust: Trust, truths: Truths, metrics: Mapping[str, Tensor]) -> Assessment:
    """Measure confidence and prediction sets on examples whose truths are known; `metrics` are those of the answers."""
    confidence, rank = trust.confidence, rank_of_truth(space, trust.found, truths)
    right = rank == 0
    found: Assessment = {
        "examples": len(truths),
        "calibration_pairs": len(trust.calibration),
        "exact": share(right),
        "mean_confidence": float(confidence.mean()),
        **discrimination(confidence, right),
        "signals": {
            name: area_under_curve(-trust.signals[:, place], right)
            for place, name in enumerate(NAMES)
            if trust.signals[:, place].unique().numel() > 1
        },
        "reliability": reliability(confidence, right),
        "risk_by_coverage": risk_by_coverage(confidence, 1 - right.double()),
        "accepted": [accepted(confidence, right, least) for least in ACCEPTED],
        "found": share(rank >= 0),
    }
    for name, expected in trust.expected.items():
        known = metrics[name].double()
        found["expected"] = {"metric": name, "expected": float(expected.mean()), "measured": float(known.mean())}
    return {**found, "sets": [assess_sets(space, trust, rank, truths, Promise(level)) for level in COVERAGES]}


def discrimination(confidence: Tensor, right: Tensor) -> dict[str, float | None]:
    """Area under the curve, expected calibration error and mean squared error of probabilities."""
    return {
        "auc": area_under_curve(confidence, right),
        "calibration_error": calibration_error(confidence, right),
        "brier": float((confidence - right.double()).square().mean()),
    }


def accepted(confidence: Tensor, right: Tensor, least: float) -> dict[str, float]:
    """How many answers have at least this confidence, and how many of them are exact."""
    own = confidence >= least
    return {"least_confidence": least, "accepted": int(own.sum()), "exact": int(right[own].sum())}


def assess_sets(
    space: OutputSpace[Any, Any], trust: Trust, rank: Tensor, truths: Truths, promise: Promise
) -> Assessment:
    """How often sets hold the truth, which was found at `rank` (B,), and how large they are; or why there are none."""
    try:
        sets = prediction_sets(space, trust, promise)
    except DataError as error:
        return {"promise": str(promise), "coverage": promise.coverage, "refused": str(error)}
    held = sets.members.gather(1, rank.clamp(min=0)[:, None])[:, 0] & (rank >= 0)
    sizes = sets.sizes.double()
    covered = share(held)
    return {
        "promise": str(promise),
        "coverage": promise.coverage,
        "covered": covered,
        "standard_error": standard_error(promise.coverage or covered, len(held), len(trust.calibration)),
        "mean_size": float(sizes.mean()),
        "median_size": float(sizes.median()),
        "largest_size": int(sizes.max()),
        "empty": share(sizes == 0),
        "cut": share(sets.cut),
        "sizes": torch.bincount(sets.sizes, minlength=2).tolist(),
        "by_property": covered_by_property(space, truths, held),
    }


def standard_error(coverage: float, examples: int, calibration: int) -> float:
    """How far a measured coverage is from the promised one by chance: both samples are finite."""
    return math.sqrt(coverage * (1 - coverage) * (1 / examples + 1 / calibration))


def covered_by_property(
    space: OutputSpace[Any, Any], truths: Truths, held: Tensor
) -> dict[str, list[dict[str, float]]]:
    """For each property with few values the share of examples whose set holds the truth."""
    groups = by_properties(space, truths.first, {"covered": held})
    return {
        name: [{"value": g["value"], "examples": g["examples"], "covered": g["metrics"]["covered"]} for g in own]
        for name, own in groups.items()
    }


def cross_validated(calibration: Calibration) -> dict[str, float | None]:
    """What confidence is worth on pairs it was not fitted to: fitted on four fifths, measured on the last, in turn."""
    right = calibration.right
    confidence = torch.empty(len(right), dtype=torch.double)
    fold = torch.arange(len(right)) % FOLDS
    for number in range(FOLDS):
        own = fold == number
        confidence[own] = fit_linear(calibration.signals[~own], right[~own], "logistic")(calibration.signals[own])
    return discrimination(confidence, right)


def described(calibration: Calibration) -> str:
    """A line on a calibration."""
    worth = cross_validated(calibration)
    auc = "" if worth["auc"] is None else f", area under the curve {worth['auc']:.3f}"
    return (
        f"calibrated on {len(calibration):,} pairs ({calibration.source}): {share(calibration.right):.1%} exact; "
        f"cross-validated: calibration error {worth['calibration_error']:.3f}{auc}; "
        f"sets can promise a coverage up to {most_coverage(calibration.scores):.3f}"
    )


def lines(found: Mapping[str, Any]) -> list[str]:
    """An assessment as lines for the terminal."""
    auc = "–" if found["auc"] is None else f"{found['auc']:.3f}"
    head = f"Confidence: area under the curve {auc}, calibration error {found['calibration_error']:.3f}"
    return [f"{head} ({found['calibration_pairs']:,} calibration pairs)", *map(set_line, found["sets"])]


def set_line(found: Mapping[str, Any]) -> str:
    """A line on the sets of one promise."""
    if "refused" in found:
        return f"  sets, {found['promise']}: {found['refused']}"
    measured = f"{found['covered']:.3f} ± {found['standard_error']:.3f}"
    sizes = f"size {found['mean_size']:.2f} (median {found['median_size']:g}, largest {found['largest_size']})"
    parts = [f"{found[name]:.1%} {name}" for name in ("empty", "cut") if found[name]]
    return f"  sets, {found['promise']}: hold the truth {measured}, {', '.join([sizes, *parts])}"


def share(values: Sequence[bool] | Tensor) -> float:
    """The share of true values."""
    return float(torch.as_tensor(values).double().mean()) if len(values) else 0.0
