"""Predict for inputs given as texts, with a status for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ele_core.data.packing import accept, pack_all
from ele_core.data.rejected import Rejected, located, parsed, refuse
from ele_core.files.columns import Cell, cell_text
from ele_core.model.model import Model
from ele_core.model.results import Predictions
from ele_core.model.trust import judged
from ele_core.model.trust.sets import Promise, require_promise, sets_for
from ele_core.runtime.context import Context
from ele_core.types import Candidates, Decoding


def predict_texts(
    model: Model,
    texts: Sequence[Cell],
    *,
    top_k: int = 1,
    candidates: Sequence[Cell] | None = None,
    constraints: Sequence[Any | None] | None = None,
    promise: Promise | None = None,
    least_confidence: float = 0.0,
    on_error: str = "null",
    source: str = "inputs",
    lines: Sequence[int] | None = None,
    context: Context,
) -> Predictions:
    """Decode texts, or vectors; the `inputs` of the predictions are these.

    `constraints`: one `OutputSpace.Constraint` for each input, or None. `promise` is what prediction sets shall hold;
    answers below `least_confidence` are left out. Both need a calibrated model.

    An input that cannot be used raises (`raise`), is left out (`skip`) or is kept without a prediction (`null`).
    Messages name `source`, the file of the inputs, and `lines`, those of the inputs in it.
    """
    rejected: list[Rejected] = []
    vectors = model.inputs.takes_vectors or model.inputs.takes_arrays
    found = ((row, parsed(model.inputs.parse, texts, row, rejected, vectors=vectors)) for row in range(len(texts)))
    values = {row: x for row, x in found if x is not None}
    rows = list(values)
    parts, accepted, refused = accept([values[row] for row in rows], model.inputs.pack)
    rejected += [Rejected(rows[place], cell_text(texts[rows[place]]), reason) for place, reason in refused]
    if on_error == "raise":
        refuse(located(rejected, lines), source)
    require_promise(model, promise, least_confidence, candidates=candidates, constraints=constraints)
    chosen = None if candidates is None else candidates_from_texts(model, candidates, context)
    if accepted:
        queries = model.regressor.predict(type(parts[0]).cat(parts))
        own = None if constraints is None else [constraints[rows[place]] for place in accepted]
        decoding, trust = judged.decode(
            model, queries, top_k=top_k, candidates=chosen, constraints=own, context=context
        )
    else:
        decoding, trust = nothing_found(model, top_k), None
    known: dict[str, Any] = {"trust": trust, "sets": sets_for(model.space, trust, promise)}
    known |= {"list_sets": promise is not None, "least_confidence": least_confidence}
    reasons = enumerate(model.inputs.unlike_training([values[rows[place]] for place in accepted]))
    unlike = {place: reason for place, reason in reasons if reason}
    if on_error == "skip":
        return Predictions(model.space, [texts[rows[place]] for place in accepted], decoding, {}, unlike, **known)
    unlike = {rows[accepted[place]]: reason for place, reason in unlike.items()}
    reasons_by_row = {each.row: each.reason for each in rejected}
    return Predictions(model.space, texts, decoding, reasons_by_row, unlike, **known)


def candidates_from_texts(model: Model, texts: Sequence[Cell], context: Context) -> Candidates:
    """Make candidates of texts; those that cannot be read are listed in one error."""
    rejected: list[Rejected] = []
    parse = model.space.parser(dict(model.space.config))
    objects = [parsed(parse, texts, row, rejected) for row in range(len(texts))]
    refuse(rejected, "candidates")
    return model.embed_candidates(pack_all(model.space, objects, context))


def nothing_found(model: Model, top_k: int) -> Decoding:
    """Return a decoding of zero inputs."""
    empty = model.space.pack([])
    return Decoding(empty, model.surrogate.embed(empty).new_zeros(0, top_k))
