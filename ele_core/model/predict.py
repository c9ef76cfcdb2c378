"""Predict for inputs given as texts, with a status for each."""

from __future__ import annotations

from collections.abc import Sequence

from ele_core.data.packing import accept, pack_all
from ele_core.data.rejected import Rejected, parsed, refuse
from ele_core.interfaces import Candidates, Decoding
from ele_core.model.model import Model
from ele_core.model.results import Predictions
from ele_core.runtime.context import Context


def predict_texts(
    model: Model,
    texts: Sequence[str],
    *,
    top_k: int = 1,
    candidates: Sequence[str] | None = None,
    on_error: str = "null",
    context: Context,
) -> Predictions:
    """Decode texts; the `inputs` of the predictions are the texts.

    A text that cannot be used raises (`raise`), is left out (`skip`) or is kept without a prediction (`null`).
    """
    rejected: list[Rejected] = []
    values = {
        row: x for row in range(len(texts)) if (x := parsed(model.inputs.parse, texts, row, rejected)) is not None
    }
    rows = list(values)
    parts, accepted, refused = accept([values[row] for row in rows], model.inputs.pack)
    rejected += [Rejected(rows[place], texts[rows[place]], reason) for place, reason in refused]
    if on_error == "raise":
        refuse(rejected, "inputs")
    chosen = None if candidates is None else candidates_from_texts(model, candidates, context)
    if accepted:
        queries = model.regressor.predict(type(parts[0]).cat(parts))
        decoding = model.decode(queries, top_k=top_k, candidates=chosen, context=context)
    else:
        decoding = nothing_found(model, top_k)
    if on_error == "skip":
        return Predictions(model.space, [texts[rows[place]] for place in accepted], decoding)
    return Predictions(model.space, texts, decoding, {each.row: each.reason for each in rejected})


def candidates_from_texts(model: Model, texts: Sequence[str], context: Context) -> Candidates:
    """Make candidates of texts; those that cannot be read are listed in one error."""
    rejected: list[Rejected] = []
    objects = [parsed(model.space.parse, texts, row, rejected) for row in range(len(texts))]
    refuse(rejected, "candidates")
    return model.embed_candidates(pack_all(model.space, objects, context))


def nothing_found(model: Model, top_k: int) -> Decoding:
    """Return a decoding of zero inputs."""
    empty = model.space.pack([])
    return Decoding(empty, model.surrogate.embed(empty).new_zeros(0, top_k))
