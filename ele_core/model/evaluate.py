"""Evaluate a model on pairs, overall and on structures absent from the candidates; and predictions without a model."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ele_core.data.objects import first_read
from ele_core.data.prepare import Prepared
from ele_core.data.truths import Truths
from ele_core.display.pictures import table
from ele_core.errors import DataError, counted
from ele_core.interfaces import OutputSpace
from ele_core.model.constraints import combined, from_truths
from ele_core.model.metrics import deciding, means, measure, nearest_truths, only_answers, texts
from ele_core.model.model import Model
from ele_core.model.predict import Request, decode
from ele_core.model.results import BETWEEN, CONFIDENCE, EXPECTED, Predictions
from ele_core.model.trust.assess import assess
from ele_core.model.trust.judged import Trust
from ele_core.numerics.keys import member
from ele_core.runtime.context import Context
from ele_core.runtime.work import Work
from ele_core.types import Choice, Decoding, Metric

ECHOING = "echoing the input"
COPYING = "copying the nearest input's output"
FREQUENT = "the most frequent output"

Baselines = Mapping[str, Mapping[str, float]]
"""The name of each baseline → its mean of each metric."""
OTHERS = "other_truths"
"""The column of a table for the right outputs besides `truth`, if an input can have several."""


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
    behind: str = ""
    """A sentence, if the model is behind one of the baselines: see `behind`."""
    every: Truths | None = None
    """All right outputs of each example, if an input can have several."""
    given: Sequence[str] = ()
    """The names of the constraints that predictions had to satisfy as the truths do."""
    constraints: Sequence[Any | None] | None = dataclasses.field(default=None, repr=False)
    """What each prediction had to satisfy: what is given, and what follows from its input; None: nothing."""
    trust: Trust | None = dataclasses.field(default=None, repr=False)
    """The confidence of the answers, if the model is calibrated for them."""
    assessment: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False)
    """What confidence and prediction sets are worth on these examples: see `ele_core.model.trust.assess`."""

    def __repr__(self) -> str:
        means = ", ".join(f"{name} {value:.4g}" for name, value in self.metrics.items())
        return f"Evaluation({means}; decoder {self.decoder.name})"

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
    inputs: Sequence[Any],
    outputs: Any,
    *,
    decoder: Choice | None = None,
    oracle: bool = False,
    given: Sequence[str] = (),
    context: Context,
) -> Evaluation:
    """Decode and measure. With `oracle` the query is ψ(y), the embedding of the truth, instead of a prediction.

    Predictions satisfy the constraints that follow from their inputs. `given` names further ones, such as `formula`,
    that they must satisfy as the truth does. With constraints, the metric `answered` is the share of inputs for which
    the decoder found such a structure.

    `outputs` are packed, one for each input, or `Truths` with several: then the first of each input is embedded.
    """
    truths = outputs if isinstance(outputs, Truths) else Truths.single(outputs)
    if len(truths) == 0:
        raise DataError("there is nothing to evaluate.", where="evaluation", fix="Choose a split that is not empty.")
    if len(inputs) != len(truths):
        what = f"{counted(len(inputs), 'input')} but {counted(len(truths), 'output')}."
        raise DataError(what, where="evaluation", fix="Give one output for each input.")
    bound, implied = from_truths(model.space, truths.first, given), model.implied(inputs)
    constraints = combined(implied, bound)
    queries = model.regressor.ideal_queries(truths.first) if oracle else model.queries(inputs)
    error = None
    if not oracle:
        plain = model.surrogate.energy(truths.of_examples(model.regressor.regressed(queries)))
        error = truths.best(plain.of(truths.outputs), "min")
    if oracle:  # energies from true embeddings say nothing about those from predictions
        decoding, trust = model.decode(queries, decoder, constraints=constraints, context=context), None
    else:
        decoding, trust = decode(model, [queries], implied, Request(decoder=decoder, constraints=bound), context)
    values = only_answers(measure(model.space, decoding.best, truths, context), decoding)
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
        metrics["answered"] = decoding.answered.float().mean().item()
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
        constraints=constraints,
        trust=trust,
        assessment=assessment,
    )


# -- predictions without a model, which a model should beat -------------------------------------------------------


def baselines(prepared: Prepared, rows: Tensor, truths: Truths, context: Context) -> dict[str, dict[str, float]]:
    """Measure the baselines on examples: their inputs are those of the pairs at `rows`.

    Copying predicts the output of the nearest training input, by the distance that is natural for the inputs
    (`InputSpace.nearest`): the edit distance of texts, the Tanimoto distance of fingerprints. Echoing reads the text of
    the input as an output, if most inputs can be read so.
    """
    data, space = prepared.data, prepared.space
    context = dataclasses.replace(context, work=Work())  # keep baseline blocks out of the model's checkpoints
    frequent = torch.full_like(rows, int(data.train[most_frequent(space.keys(data.outputs[data.train]))]))
    predicted = {COPYING: copied(prepared, rows), FREQUENT: data.outputs[frequent]}
    if (echoes := echoed(prepared, rows, predicted[COPYING])) is not None:
        predicted = {ECHOING: echoes, **predicted}
    return {name: means(measure(space, batch, truths, context)) for name, batch in predicted.items()}


def copied(prepared: Prepared, rows: Tensor) -> Any:
    """The output of the training input that is nearest to each input at `rows`."""
    data = prepared.data
    nearest, _ = prepared.inputs.nearest(prepared.packed[rows], prepared.packed[data.train])
    return data.outputs[data.train[nearest]]


def echoed(prepared: Prepared, rows: Tensor, otherwise: Any) -> Any | None:
    """The inputs at `rows` read as outputs, those that are none replaced by `otherwise`; None if most are none."""
    if prepared.inputs.reads != "texts":
        return None
    texts = [[prepared.inputs.format(value)] for value in prepared.data.inputs_at(rows)]
    found, read = first_read(prepared.space, texts, prepared.space.texts.echo, otherwise)
    return found if 2 * int(read.sum()) > len(rows) else None


def most_frequent(keys: Tensor) -> int:
    """The first row of the key (N, 2) that occurs most often."""
    _, group, counts = torch.unique(keys, dim=0, return_inverse=True, return_counts=True)
    return int((group == counts.argmax()).nonzero()[0])


def behind(space: OutputSpace[Any, Any], metrics: Mapping[str, float], found: Baselines) -> str:
    """Return a message if a model with these metrics is behind one of `found`, with what to try; else an empty text."""
    metric = deciding(space)
    name, sign = metric.name, 1 if metric.direction == "min" else -1
    others = {other: means[name] for other, means in found.items() if name in means}
    if name not in metrics or not others:
        return ""
    best = min(others, key=lambda other: sign * others[other])
    if not worse(metric, metrics[name], others[best]):
        return ""
    told = f"This model is behind {best} ({name} {metrics[name]:.4g} against {others[best]:.4g}). "
    if best == ECHOING and found[best].get("exact") == 1:
        return told + "Every input, read as an output, is right: these pairs need no model."
    return told + (
        "Try more pairs, check that inputs determine outputs, or leave `surrogate`, `regressor` and `decoder` to the "
        "defaults, which are chosen on validation pairs."
    )


def worse(metric: Metric[Any], value: float, other: float) -> bool:
    """Whether `value` is worse than `other`."""
    return value > other if metric.direction == "min" else value < other
