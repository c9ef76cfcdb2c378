"""Train a model: first its surrogate, then its regressor."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ele_core.data.prepare import Prepared
from ele_core.errors import DataError
from ele_core.interfaces import Learner
from ele_core.model.model import Model
from ele_core.model.select import decoder_of, select
from ele_core.model.trust.assess import described
from ele_core.model.trust.judged import calibrate
from ele_core.model.warm_start import start_from
from ele_core.runtime.context import Context
from ele_core.runtime.work import Snapshot, Work


def assemble(prepared: Prepared, context: Context, donor: Model | None = None) -> Model:
    """Build the components with initial weights; refuse empty data and components that do not fit together.

    With a `donor`, training starts from its weights.
    """
    data = prepared.data
    for name, rows in (("training", data.train), ("validation", data.validation)):
        if len(rows) == 0:
            raise DataError(f"the {name} set is empty.", where=data.source, fix="Bring more pairs.")
    model = Model.build(prepared.config, prepared.space, prepared.inputs, context.derived_seed("weights"))
    for name in prepared.config.selection.decoders:  # refused now rather than after the training
        model.decoder(decoder_of(prepared.config, name))
    if donor is not None:
        copied = " and ".join(start_from(model, donor))
        context.monitor.message(f"training starts from the weights of another model: {copied}")
    return model.to(context.device)


def fit(model: Model, prepared: Prepared, context: Context) -> Model:
    """Train the surrogate on outputs, then the regressor on its embeddings; keep the training outputs as candidates."""
    data = prepared.data
    outputs, validation = data.outputs[data.train], data.outputs[data.validation]
    pairs = (prepared.packed[data.train], outputs), (prepared.packed[data.validation], validation)
    sizes = len(data.train), 0 if data.extra is None else len(data.extra)
    context.monitor.plan([*model.surrogate.planned(*sizes), *model.regressor.planned(*sizes)])
    learn(model.surrogate, "surrogate", lambda: model.surrogate.fit(outputs, validation, data.extra, context), context)
    learn(model.regressor, "regressor", lambda: model.regressor.fit(*pairs, context), context)
    model.candidates = model.embed_candidates(outputs, processes=context.processes)
    rows, truths = prepared.examples("validation")
    model = select(model, prepared.packed[rows], truths, context)
    if len(data.calibration):
        model = calibrated(model, prepared, "calibration", context)
        assert model.calibration is not None
        context.monitor.message(described(model.calibration))
    return model


def calibrated(model: Model, prepared: Prepared, split: str, context: Context) -> Model:
    """Return the model with a calibration learned from a split of its data."""
    rows, truths = prepared.examples(split)
    quiet = dataclasses.replace(context, work=Work())
    return calibrate(model, prepared.packed[rows], truths, f"{split} split", quiet)


def learn(learner: Learner, name: str, fit: Callable[[], None], context: Context) -> None:
    """Fit `learner`, or restore it if it was already trained when the training was stopped."""
    done = context.work.saved(name)
    if done is not None and done.finished:
        learner.restore(done.tensors)
        learner.to(context.device)
        return
    fit()
    context.work.finish(name, lambda: Snapshot(learner.state()), closes=True)
