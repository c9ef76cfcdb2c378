"""Measure predictions by each metric of the output space, overall and on structures absent from the candidates."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ele_core.display.notebook import table
from ele_core.errors import DataError, counted
from ele_core.interfaces import Choice, Decoding, Metric, OutputSpace
from ele_core.model.bounds import means, texts
from ele_core.model.model import BLOCK, Model
from ele_core.model.results import Predictions
from ele_core.numerics.keys import member
from ele_core.numerics.tensors import Tensors
from ele_core.runtime.blockwise import PLAIN, in_blocks
from ele_core.runtime.context import Context


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Mean metrics, their values for each example, and the decoding they were measured on.

    If some values are known only between bounds, `metrics` and `values` hold the worse bound under the name of the
    metric, and the better one beside it: see `bounds`.
    """

    metrics: dict[str, float]
    values: dict[str, Tensor]
    decoding: Decoding
    truths: Any
    decoder: Choice
    queries: Tensor
    """(B, q): the predictions of the regressor, or with `oracle` the embeddings of the truths."""
    baselines: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)
    """Means of the metrics of predictions without a model, if the training pairs are known: see `baselines`."""

    def rows(self, model: Model, inputs: Sequence[Any]) -> list[dict[str, str]]:
        """Return texts for a table, one mapping per example: `input`, `prediction`, `truth`, `energy`, each metric."""
        predictions = Predictions(model.space, inputs, self.decoding).rows(model.inputs.format)
        truths = map(model.space.format, model.space.unpack(self.truths))
        values = {name: [f"{value:g}" for value in values.tolist()] for name, values in self.values.items()}
        return [
            {"input": row["input"], "prediction": row["prediction"], "truth": truth, "energy": row["energy"]}
            | {name: own[number] for name, own in values.items()}
            for number, (row, truth) in enumerate(zip(predictions, truths, strict=True))
        ]

    def __str__(self) -> str:
        return "  ".join(f"{name} {text}" for name, text in texts(self.metrics, "{:.4g}".format).items())

    def _repr_html_(self) -> str:
        rows = list(texts(self.metrics, "{:.4g}".format).items())
        return table(("metric", "value"), rows, f"decoder {self.decoder.name}")


def evaluate(
    model: Model,
    inputs: Sequence[Any] | Tensors,
    outputs: Any,
    *,
    decoder: Choice | None = None,
    oracle: bool = False,
    context: Context,
) -> Evaluation:
    """Decode and measure. With `oracle` the query is ψ(y), the embedding of the truth, instead of a prediction."""
    if len(outputs) == 0:
        raise DataError("there is nothing to evaluate.", where="evaluation", fix="Choose a split that is not empty.")
    if len(inputs) != len(outputs):
        what = f"{counted(len(inputs), 'input')} but {counted(len(outputs), 'output')}."
        raise DataError(what, where="evaluation", fix="Give one output for each input.")
    packed = inputs if isinstance(inputs, Tensors) else model.inputs.pack(inputs)
    queries = model.surrogate.embed(outputs) if oracle else model.regressor.predict(packed)
    error = None if oracle else model.surrogate.energy(queries, outputs)
    decoding = model.decode(queries, decoder, context=context)
    values = measure(model.space, decoding.best, outputs, context)
    metrics = means(values)
    if model.candidates is not None:
        unseen = ~member(model.space.keys(outputs), of=model.space.keys(model.candidates.batch))
        if unseen.any():
            metrics["exact_unseen"] = values["exact"][unseen].mean().item()
        metrics["unseen"] = unseen.float().mean().item()
    if error is not None:
        metrics["regression_error"] = error.mean().item()
    metrics["examples"] = float(len(outputs))
    return Evaluation(metrics, values, decoding, outputs, decoder or model.config.decoder, queries)


def deciding(space: OutputSpace[Any, Any]) -> Metric[Any]:
    """Return the metric that tells good from bad predictions: the first that measures a distance, else the primary one.

    Few pairs often give no exact prediction at all, and a distance still tells good from bad.
    """
    return next((metric for metric in space.metrics if metric.direction == "min"), space.metrics[0])


def measure(space: OutputSpace[Any, Any], predicted: Any, true: Any, context: Context) -> dict[str, Tensor]:
    """Compute each metric of the space, one value per example; `exact` is always among them.

    If a metric has values that are known only between bounds, the best ones follow under `Metric.best_case`.
    """
    metrics = {metric.name: metric for metric in space.metrics}
    metrics.setdefault("exact", space.exact_match)

    def block(first: int, end: int, _: Context) -> dict[str, Tensor]:
        own, truths, found = predicted[first:end], true[first:end], {}
        for name, metric in metrics.items():
            found[name], best = metric.worst_and_best(own, truths)
            if best is not found[name]:
                found[metric.best_case] = best
        return found

    parts = in_blocks(block, len(true), BLOCK, context, "metrics", PLAIN)
    values = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    proven = {metric.best_case for metric in metrics.values() if same(values, metric.name, metric.best_case)}
    return {name: value for name, value in values.items() if name not in proven}


def same(values: Mapping[str, Tensor], name: str, other: str) -> bool:
    """Whether both are there, with equal values."""
    return other in values and torch.equal(values[name], values[other])
