"""Measure predictions by each metric of the output space, overall and on structures absent from the candidates."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ele_core.data.truths import Truths
from ele_core.display.pictures import table
from ele_core.errors import DataError, counted
from ele_core.interfaces import OutputSpace
from ele_core.model.bounds import means, texts
from ele_core.model.constraints import from_truths
from ele_core.model.model import BLOCK, Model
from ele_core.model.predict import Request, decode
from ele_core.model.results import BETWEEN, CONFIDENCE, EXPECTED, Predictions
from ele_core.model.trust.assess import assess
from ele_core.model.trust.judged import Trust
from ele_core.numerics.keys import member
from ele_core.numerics.tensors import Tensors
from ele_core.runtime.blockwise import PLAIN, in_blocks
from ele_core.runtime.context import Context
from ele_core.types import Choice, Decoding, Metric

OTHERS = "other_truths"
"""The column of a table for the right outputs besides `truth`, if an input can have several."""
SIZE = "size of "
"""Before the name of a metric while its values are computed: the sizes that they are divided by."""


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
    """The output that each example is measured against: of several right ones the nearest."""
    decoder: Choice
    queries: Tensor
    """(B, q): the predictions of the regressor, or with `oracle` the embeddings of the truths."""
    baselines: Mapping[str, Mapping[str, float]] = dataclasses.field(default_factory=dict)
    """Means of the metrics of predictions without a model, if the training pairs are known: see `baselines`."""
    every: Truths | None = None
    """All right outputs of each example, if an input can have several."""
    given: Sequence[str] = ()
    """The names of the constraints that predictions had to satisfy as the truths do."""
    trust: Trust | None = dataclasses.field(default=None, repr=False)
    """How far the answers can be trusted, if the model is calibrated for them."""
    assessment: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """What confidence and prediction sets are worth on these examples: see `ele_core.model.trust.assess`."""

    def rows(self, model: Model, inputs: Sequence[Any]) -> list[dict[str, str]]:
        """Return texts for a table, one mapping per example: `input`, `prediction`, `truth`, `energy`, each metric.

        If an input can have several right outputs, `other_truths` follows `truth`, the nearest one.
        """
        predictions = Predictions(model.space, inputs, self.decoding).rows(model.inputs.format)
        truths = list(map(model.space.texts.format, model.space.unpack(self.truths)))
        right = {"truth": truths}
        if self.every is not None:
            right[OTHERS] = self._others(model.space, truths)
        known = {**self.values, **self._trusted()}
        values = {name: [f"{value:g}" for value in values.tolist()] for name, values in known.items()}
        return [
            {"input": row["input"], "prediction": row["prediction"]}
            | {name: own[number] for name, own in right.items()}
            | {"energy": row["energy"]}
            | {name: own[number] for name, own in values.items()}
            for number, row in enumerate(predictions)
        ]

    def _trusted(self) -> dict[str, Tensor]:
        """The columns of a table that say how far to trust each answer."""
        if self.trust is None:
            return {}
        expected = {EXPECTED + name: values for name, values in self.trust.expected.items()}
        return {CONFIDENCE: self.trust.confidence, **expected}

    def _others(self, space: OutputSpace[Any, Any], nearest: Sequence[str]) -> list[str]:
        """The texts of the right outputs of each example besides the nearest."""
        assert self.every is not None
        others: list[list[str]] = [[] for _ in nearest]
        for number, obj in zip(self.every.example.tolist(), space.unpack(self.every.outputs), strict=True):
            if (text := space.texts.format(obj)) != nearest[number]:
                others[number].append(text)
        return [BETWEEN.join(dict.fromkeys(each)) for each in others]

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
    given: Sequence[str] = (),
    context: Context,
) -> Evaluation:
    """Decode and measure. With `oracle` the query is ψ(y), the embedding of the truth, instead of a prediction.

    `given` names constraints, such as `formula`, that predictions must satisfy as the truth does; the metric `answered`
    is then the share of inputs for which the decoder found such a structure.

    `outputs` are packed, one for each input, or `Truths` with several: then the first of each input is embedded.
    """
    truths = outputs if isinstance(outputs, Truths) else Truths.single(outputs)
    if len(truths) == 0:
        raise DataError("there is nothing to evaluate.", where="evaluation", fix="Choose a split that is not empty.")
    if len(inputs) != len(truths):
        what = f"{counted(len(inputs), 'input')} but {counted(len(truths), 'output')}."
        raise DataError(what, where="evaluation", fix="Give one output for each input.")
    constraints = from_truths(model.space, truths.first, given)
    packed = inputs if isinstance(inputs, Tensors) else model.inputs.pack(inputs)
    queries = model.regressor.ideal_queries(truths.first) if oracle else model.regressor.predict(packed)
    error = (
        None if oracle else truths.best(model.surrogate.energy(truths.of_examples(queries)).of(truths.outputs), "min")
    )
    if oracle:  # energies from true embeddings say nothing about those from predictions
        decoding, trust = model.decode(queries, decoder, constraints=constraints, context=context), None
    else:
        decoding, trust = decode(model, [queries], Request(decoder=decoder, constraints=constraints), context)
    values = measure(model.space, decoding.best, truths, context)
    answered = decoding.energies[:, 0].isfinite().cpu()
    if constraints is not None:  # no answer is not exact, even if the best of all structures is another truth
        values["exact"] = values["exact"] * answered
    metrics = means(values)
    if model.candidates is not None:
        known = member(model.space.keys(truths.outputs), of=model.space.keys(model.candidates.batch))
        unseen = truths.best(known.long(), "max") == 0
        if unseen.any():
            metrics["exact_unseen"] = values["exact"][unseen].mean().item()
        metrics["unseen"] = unseen.float().mean().item()
    if error is not None:
        metrics["regression_error"] = error.mean().item()
    if constraints is not None:
        metrics["answered"] = answered.float().mean().item()
    metrics["examples"] = float(len(truths))
    nearest = truths.outputs if not truths.several else nearest_truths(model.space, decoding.best, truths)
    every = truths if truths.several else None
    choice = decoder or model.config.decoder
    assessment = {} if trust is None else assess(model.space, trust, truths, values)
    return Evaluation(
        metrics,
        values,
        decoding,
        nearest,
        choice,
        queries,
        every=every,
        given=tuple(given),
        trust=trust,
        assessment=assessment,
    )


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
