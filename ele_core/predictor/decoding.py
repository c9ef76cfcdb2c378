"""What the estimator does with a fitted model: decode, evaluate and calibrate, with objects in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ele_core.data.truths import packed_truths
from ele_core.model.evaluate import Evaluation, evaluate
from ele_core.model.model import Model
from ele_core.model.results import Predictions
from ele_core.model.trust import judged
from ele_core.model.trust.sets import promised, require_promise, sets_for
from ele_core.predictor.values import as_list, as_pairs
from ele_core.runtime.context import Context
from ele_core.types import Choice


def decode(
    model: Model,
    X: Any,
    decoder: Choice | None,
    context: Context,
    *,
    top_k: int,
    candidates: Any | None,
    constraints: Any | None,
    trace: bool,
    promise: tuple[float | None, str | None, float | None],
    min_confidence: float,
) -> Predictions:
    """Return the predictions for inputs; `promise` is the coverage, the property and the risk of prediction sets."""
    inputs, asked = as_list(X, "input", "predict"), promised(*promise)
    bound = model.constraints_from(constraints, len(inputs))
    given = None if candidates is None else as_list(candidates, "output", "candidates")
    chosen = None if given is None else model.candidates_from(given, context)
    require_promise(model, asked, min_confidence, decoder, chosen, bound)
    decoding, trust = judged.decode(
        model,
        model.queries(inputs),
        decoder,
        top_k=top_k,
        candidates=chosen,
        constraints=bound,
        trace=trace,
        context=context,
    )
    unlike = {place: reason for place, reason in enumerate(model.inputs.unlike_training(inputs)) if reason}
    return Predictions(
        model.space,
        inputs,
        decoding,
        unlike_training=unlike,
        trust=trust,
        sets=sets_for(model.space, trust, asked),
        list_sets=asked is not None,
        least_confidence=min_confidence,
        input_space=model.inputs,
    )


def evaluate_pairs(
    model: Model, X: Any, y: Any, decoder: Choice | None, context: Context, *, oracle: bool, given: Sequence[str]
) -> Evaluation:
    """Measure every metric on pairs; an `AnyOf` holds several right objects."""
    inputs, objects = as_pairs(X, y, "evaluate")
    truths = packed_truths(model.space, objects, context)
    return evaluate(model, inputs, truths, decoder=decoder, oracle=oracle, given=given, context=context)


def calibrate(model: Model, X: Any, y: Any, context: Context) -> Model:
    """Return the model with a calibration learned from pairs; an `AnyOf` holds several right objects."""
    inputs, objects = as_pairs(X, y, "calibrate")
    truths = packed_truths(model.space, objects, context)
    return judged.calibrate(model, model.inputs.pack(inputs), truths, "given pairs", context)
