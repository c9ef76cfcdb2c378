"""Predictions without a model, which a model should beat: copying, and the most frequent output."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ele_core.data.prepare import Prepared
from ele_core.data.truths import Truths
from ele_core.interfaces import OutputSpace
from ele_core.model.bounds import means
from ele_core.model.evaluate import deciding, measure
from ele_core.runtime.context import Context
from ele_core.runtime.work import Work
from ele_core.types import Metric

COPYING = "copying the nearest input's output"
FREQUENT = "the most frequent output"

Baselines = Mapping[str, Mapping[str, float]]
"""The name of each baseline → its mean of each metric."""


def baselines(prepared: Prepared, rows: Tensor, truths: Truths, context: Context) -> dict[str, dict[str, float]]:
    """Measure the baselines on examples: their inputs are those of the pairs at `rows`.

    Copying predicts the output of the nearest training input, by the distance that is natural for the inputs
    (`InputSpace.nearest`): the edit distance of texts, the Tanimoto distance of fingerprints.
    """
    data, space = prepared.data, prepared.space
    context = dataclasses.replace(context, work=Work())  # its results are not those of the model's predictions
    nearest, _ = prepared.inputs.nearest(prepared.packed[rows], prepared.packed[data.train])
    frequent = torch.full_like(rows, int(data.train[most_frequent(space.keys(data.outputs[data.train]))]))
    predicted = {COPYING: data.train[nearest], FREQUENT: frequent}
    return {name: means(measure(space, data.outputs[row], truths, context)) for name, row in predicted.items()}


def most_frequent(keys: Tensor) -> int:
    """The first row of the key (N, 2) that occurs most often."""
    _, group, counts = torch.unique(keys, dim=0, return_inverse=True, return_counts=True)
    return int((group == counts.argmax()).nonzero()[0])


def behind(space: OutputSpace[Any, Any], metrics: Mapping[str, float], found: Baselines) -> str:
    """Return a sentence if a model with these metrics is behind copying, with what to try; else an empty text."""
    copied, metric = found.get(COPYING), deciding(space)
    if copied is None or metric.name not in metrics or not worse(metric, metrics[metric.name], copied[metric.name]):
        return ""
    return (
        f"This model is behind {COPYING} ({metric.name} {metrics[metric.name]:.4g} against {copied[metric.name]:.4g}). "
        "Try more pairs, check that inputs determine outputs, or leave `surrogate`, `regressor` and `decoder` to the "
        "defaults, which are chosen on validation pairs."
    )


def worse(metric: Metric[Any], value: float, other: float) -> bool:
    """Whether `value` is worse than `other`."""
    return value > other if metric.direction == "min" else value < other
