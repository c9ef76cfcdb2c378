"""Predict: the one way from inputs to `Predictions`, for commands, the estimator, `ele try` and evaluations."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ele_core.data.objects import CHUNK, SHOWN, Rejected, read_inputs, read_outputs, refuse
from ele_core.errors import DataError, InvalidObject, counted
from ele_core.files.columns import FIRST, Cell, Table
from ele_core.model.constraints import combined
from ele_core.model.model import Model
from ele_core.model.results import Predictions
from ele_core.model.trust.calibration import signals
from ele_core.model.trust.judged import Trust, candidate_energies, without_confidence
from ele_core.model.trust.sets import Promise, require_promise, sets_for
from ele_core.runtime.context import Context
from ele_core.runtime.monitor import Monitor
from ele_core.types import Candidates, Choice, Decoding


@dataclasses.dataclass(frozen=True)
class Request:
    """What is asked of predictions."""

    top_k: int = 1
    """Structures to find for each input."""
    decoder: Choice | None = None
    """None: the configured one."""
    candidates: Candidates | None = None
    """Structures to choose from or to start at; None: those of the model."""
    constraints: Sequence[Any | None] | None = None
    """One `Rules.Constraint` for each input, or None, besides what follows from it; None: there are none."""
    promise: Promise | None = None
    """What prediction sets shall hold; needs a calibrated model."""
    least_confidence: float = 0.0
    """Answers of less confidence are omitted; needs a calibrated model."""
    trace: bool = False
    """Whether to record the path of the decoder."""

    def require(self, model: Model) -> None:
        """Refuse a promise, or a least confidence, that the model cannot keep."""
        require_promise(model, self.promise, self.least_confidence, self.decoder, self.candidates, self.constraints)


@dataclasses.dataclass(frozen=True)
class Asked:
    """Inputs, and the queries of those that can be used."""

    inputs: Sequence[Any]
    queries: Sequence[Tensor]
    """(n, q) for each chunk: row i of all chunks together is the query of the input at `rows[i]`."""
    rows: Sequence[int]
    implied: Sequence[Any | None] | None = None
    """The constraint that follows from each of these inputs; None: there are none."""
    rejected: Sequence[Rejected] = ()
    unlike: Mapping[int, str] = dataclasses.field(default_factory=dict)
    """Position of an input that is unlike those of the training → the reason."""
    objects: bool = True
    """Whether `inputs` are objects of the input space, which can draw them, and not cells of a file."""


def predict(model: Model, inputs: Sequence[Any], request: Request, context: Context) -> Predictions:
    """Predict for objects of the input space; the first that it does not take raises with its position."""
    request.require(model)
    queries, bound, unlike = list[Tensor](), list[Any](), dict[int, str]()
    for start in range(0, len(inputs), CHUNK):
        values = inputs[start : start + CHUNK]
        try:
            queries.append(model.queries(values))
        except InvalidObject as error:
            error.shift(start)
            raise
        bound += model.implied(values) or ()
        unlike |= unlike_training(model, values, range(start, start + len(values)))
    asked = Asked(inputs, queries, range(len(inputs)), bound or None, unlike=unlike)
    return answer(model, asked, request, context)


def predict_texts(
    model: Model, cells: Sequence[Cell], request: Request | None = None, *, context: Context
) -> Predictions:
    """Predict for texts, or vectors; these are the `inputs` of the predictions. One that cannot be used has none."""
    request = request or Request()
    request.require(model)
    queries, bound, rows, unlike = list[Tensor](), list[Any](), list[int](), dict[int, str]()
    rejected: list[Rejected] = []
    for start in range(0, len(cells), CHUNK):
        read = read_inputs(model.inputs, cells, range(start, min(start + CHUNK, len(cells))), pack=model.pack)
        rejected += read.rejected
        if len(read):
            rows += read.rows
            queries.append(model.regressor.predict(read.batch))
            bound += model.implied(read.values) or ()
            unlike |= unlike_training(model, read.values, read.rows)
    asked = Asked(cells, queries, rows, bound or None, rejected, unlike, objects=False)
    return answer(model, asked, request, context)


def unlike_training(model: Model, values: Sequence[Any], rows: Sequence[int]) -> dict[int, str]:
    """Row of each of the inputs `values` that is unlike those of the training → the reason."""
    return {row: reason for row, reason in zip(rows, model.inputs.unlike_training(values), strict=True) if reason}


def answer(model: Model, asked: Asked, request: Request, context: Context) -> Predictions:
    """Decode the queries, with a measure of trust and prediction sets if the model is calibrated for such a request."""
    constraints = request.constraints
    if constraints is not None:
        constraints = [constraints[row] for row in asked.rows]
    request = dataclasses.replace(request, constraints=constraints)
    decoding, trust = decode(model, asked.queries, asked.implied, request, context)
    return Predictions(
        model.space,
        asked.inputs,
        decoding,
        refused={each.row: each.reason for each in asked.rejected},
        unlike_training=asked.unlike,
        trust=trust,
        sets=sets_for(model.space, trust, request.promise),
        list_sets=request.promise is not None,
        least_confidence=request.least_confidence,
        input_space=model.inputs if asked.objects else None,
        constrained=combined(asked.implied, constraints) is not None,
    )


def decode(
    model: Model,
    queries: Sequence[Tensor],
    implied: Sequence[Any | None] | None,
    request: Request,
    context: Context,
) -> tuple[Decoding, Trust | None]:
    """Decode chunks of queries as one; if the model is calibrated for it, also return how far to trust the answers.

    The constraints are those `implied` by the inputs, for which models are calibrated, and those of the request. With
    a calibration, more structures are found than asked for: their energies are judged.
    """
    if not queries:
        empty = model.space.pack([])
        return Decoding(empty, model.surrogate.embed(empty).new_zeros(0, request.top_k)), None
    joined = queries[0] if len(queries) == 1 else torch.cat(list(queries))
    ask = partial(model.decode, joined, request.decoder, trace=request.trace, context=context)
    calibration, further = model.calibration, request.constraints
    if calibration is None or without_confidence(model, request.decoder, request.candidates, further):
        bound = combined(implied, further)
        return ask(top_k=request.top_k, candidates=request.candidates, constraints=bound), None
    found = ask(top_k=max(request.top_k, calibration.structures), constraints=implied)
    judged = found.ranks(0, calibration.structures)
    nearest = candidate_energies(model, found, joined, request.decoder, context)
    known = signals(judged.energies, nearest, calibration.scale)
    return found.ranks(0, request.top_k), Trust(calibration, dataclasses.replace(judged, trace=None), known)


def candidates_from(model: Model, table: Table, monitor: Monitor, *, on_error: str = "null") -> Candidates:
    """Make candidates of the first column of a file; structures that cannot be used raise (`raise`), or are left out.

    What is left out is told with its line; none may be left out if no other remains.
    """
    read = read_outputs(model.space, table.cells(table.places([FIRST])[0]), lines=table.lines)
    if not len(read) and not read.rejected:
        raise DataError("there are no candidates.", where=table.file, fix="Give one per row.")
    if on_error == "raise" or not len(read):
        refuse(read.rejected, table.file, skipping=on_error != "raise", fix="Correct or remove them.")
    if read.rejected:
        shown = [str(each) for each in read.rejected[:SHOWN]] + ["…"] * (len(read.rejected) > SHOWN)
        told = f"{table.file}: {counted(len(read), 'candidate')}, {len(read.rejected):,} left out"
        monitor.message("\n  ".join([told, *shown]))
    return model.embed_candidates(read.batch)
