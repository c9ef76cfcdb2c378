"""Predictions for texts: every row answered for, with a status, in the order given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ele_core.data.packing import accept, pack_all
from ele_core.data.rejected import Rejected, parsed, refuse
from ele_core.interfaces import Decoding
from ele_core.model.model import Model
from ele_core.numerics.tensors import Tensors
from ele_core.runtime.context import Context

Answer = dict[str, Any]
COLUMNS = ("input", "prediction", "energy", "status")


def predict_texts(
    model: Model,
    texts: Sequence[str],
    *,
    top_k: int = 1,
    candidates: Sequence[str] | None = None,
    on_error: str = "null",
    context: Context,
) -> list[Answer]:
    """Rows of input, prediction, energy and status; `top_k` rows for each text that could be used.

    A text that cannot be used raises (`raise`), is left out (`skip`) or keeps its row without a prediction (`null`).
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
    answers: dict[int, list[Answer]] = {}
    if on_error == "null":
        answers = {r.row: [{"prediction": "", "energy": "", "status": r.reason}] for r in rejected}
    if accepted:
        decoding = decode(model, type(parts[0]).cat(parts), candidates, top_k, context)
        found = answers_of(model, decoding)
        answers |= {rows[place]: found[i] for i, place in enumerate(accepted)}
    return [{"input": texts[row], **answer} for row in sorted(answers) for answer in answers[row]]


def decode(model: Model, packed: Tensors, candidates: Sequence[str] | None, top_k: int, context: Context) -> Decoding:
    """Decode packed inputs, from candidates given as texts or from the model's own."""
    chosen = None
    if candidates is not None:
        rejected: list[Rejected] = []
        objects = [parsed(model.space.parse, candidates, row, rejected) for row in range(len(candidates))]
        refuse(rejected, "candidates")
        chosen = model.embed_candidates(pack_all(model.space, objects, context))
    return model.decode(model.regressor.predict(packed), top_k=top_k, candidates=chosen, context=context)


def answers_of(model: Model, decoding: Decoding) -> list[list[Answer]]:
    """For each query its structures as texts, best first."""
    texts = [model.space.format(obj) for obj in model.space.unpack(decoding.structures)]
    k = decoding.top_k
    return [
        [
            {"prediction": texts[row * k + rank], "energy": f"{energy:.6g}", "status": "ok"}
            for rank, energy in enumerate(energies)
            if energy < float("inf")
        ]
        for row, energies in enumerate(decoding.energies.tolist())
    ]
