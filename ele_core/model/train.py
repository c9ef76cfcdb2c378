"""Train a model: first its surrogate, then its regressor, then its decoder if that learns."""

from __future__ import annotations

import dataclasses

from ele_core.data.prepare import Prepared
from ele_core.energies import SquaredDistance
from ele_core.errors import DataError, counted
from ele_core.files.archive import brief
from ele_core.interfaces import Energy, Learner
from ele_core.model.model import Model
from ele_core.model.select import decoder_of, select
from ele_core.model.trust.assess import described
from ele_core.model.trust.judged import calibrate
from ele_core.model.warm_start import start_from
from ele_core.numerics.tensors import Tensors
from ele_core.runtime.budget import Budget
from ele_core.runtime.context import Context
from ele_core.runtime.work import Work, learn
from ele_core.types import Pairs, Problem, TrainingData

CHECKED = 200
"""Validation pairs by which a training that diverged, or constraints that contradict the outputs, are found."""
DIVERGED = 100.0
"""How many times as far from the truths as their mean, in squared distances, no regressor is that learned."""


def assemble(prepared: Prepared, context: Context, donor: Model | None = None) -> Model:
    """Build the components with initial weights; refuse empty data and components that do not fit together.

    With a `donor`, training starts from what it learned.
    """
    data = prepared.data
    for name, rows in (("training", data.train), ("validation", data.validation)):
        if len(rows) == 0:
            fix = "Bring more pairs." if name == "training" else "Bring more pairs, or set `validation` above 0."
            raise DataError(f"the {name} set is empty.", where=data.source, fix=fix)
    model = Model.build(prepared.config, prepared.space, prepared.inputs, context.derived_seed("weights"))
    for name in prepared.config.selection.decoders:  # refused now rather than after the training
        model.decoder(decoder_of(prepared.config, name))
    if warning := contradictions(model, prepared):
        context.monitor.message(warning)
    if donor is not None:
        assert prepared.config.start is not None
        context.monitor.message(f"starting from {prepared.config.start.name}: {start_from(model, donor)}")
    return model.to(context.device)


def fit(model: Model, prepared: Prepared, context: Context) -> Model:
    """Fit everything that learns, the surrogate first; keep the training outputs in memory as candidates.

    The surrogate and the candidates of a model that the training starts from stay.
    """
    data, given = prepared.data, training_data(prepared)
    sizes = data.training_pairs, 0 if data.extra is None else len(data.extra)
    learners = model.learners()
    if model.config.start is not None:
        del learners["surrogate"]
    stages = [stage for learner in learners.values() for stage in learner.planned(*sizes)]
    context.monitor.plan(stages)
    if (minutes := model.config.minutes) is not None:
        networks = [stage.name for stage in stages if stage.steps is not None]
        budget = Budget(60 * minutes, networks, context.work.spent)
        context = dataclasses.replace(context, budget=budget)
    seconds = 0.0
    if model.config.start is None:
        seconds = learn(model.surrogate, "surrogate", given, context)
    learn(model.regressor, "regressor", given, context)
    if warning := divergence(model, given.validation):
        context.monitor.message(warning)
    known = [] if model.candidates is None else [model.candidates.batch.to("cpu")]
    own = given.in_memory.outputs[:]
    outputs = type(own).cat([own, *known]) if known else own
    model.candidates = model.embed_candidates(outputs, processes=context.processes)
    fit_decoders(model, given, context)
    rows, truths = prepared.examples("validation")
    model = select(model, prepared.packed[rows], truths, context, model.implied(data.inputs_at(rows)), seconds)
    if len(data.calibration):
        model = calibrated(model, prepared, "calibration", context)
        assert model.calibration is not None
        context.monitor.message(described(model.calibration))
    return model


def training_data(prepared: Prepared) -> TrainingData:
    """What learners are fitted on: the training and validation pairs, in memory or on disk."""
    data = prepared.data
    train, validation = (Pairs(prepared.packed[rows], data.outputs[rows]) for rows in (data.train, data.validation))
    if data.stored is None:
        return TrainingData(prepared.inputs, train, validation, data.extra)
    return TrainingData(prepared.inputs, data.stored, validation, data.extra, sample=train)


def contradictions(model: Model, prepared: Prepared) -> str:
    """A warning if outputs do not satisfy the constraint that follows from their inputs; else empty."""
    data, rows, rules = prepared.data, prepared.data.validation[:CHECKED], model.space.rules
    constraints = model.implied(data.inputs_at(rows))
    if constraints is None or rules is None:
        return ""
    each = zip(rows.tolist(), rows.split(1), constraints, strict=True)
    against = [row for row, own, one in each if one is not None and not rules.satisfies(data.outputs[own], one)]
    if not against:
        return ""
    told = f"{len(against):,} of {counted(len(rows), 'validation output')} violate the constraint of their input"
    first = brief(model.inputs.format(data.inputs[against[0]]), 60)
    return f"warning: {told}, first that of {first!r}: they cannot be predicted. Check the section constraints"


def divergence(model: Model, pairs: Pairs) -> str:
    """A warning if the mean is far nearer to the truths than the queries are; empty where energies are no distances."""
    truths = model.surrogate.embed(pairs.outputs[:CHECKED])
    queries = model.regressor.predict(pairs.inputs[:CHECKED])
    if not isinstance(model.surrogate.energy(queries), SquaredDistance) or queries.shape != truths.shape:
        return ""
    centres = truths.mean(dim=0), queries.to(truths)
    spread, error = (float((truths - centre).square().sum(dim=1).mean()) for centre in centres)
    if not error > DIVERGED * spread > 0:
        return ""
    far = f"queries are {error / spread:,.0f} times as far from the truths as the mean of these is"
    return f"warning: {far}: the training diverged, or was too short. Try a smaller learning_rate, or more epochs"


def calibrated(model: Model, prepared: Prepared, split: str, context: Context) -> Model:
    """Return the model with a calibration learned from a split of its data."""
    rows, truths = prepared.examples(split)
    quiet = dataclasses.replace(context, work=Work())
    return calibrate(model, prepared.data.inputs_at(rows), truths, f"{split} split", quiet)


def fit_decoders(model: Model, data: TrainingData, context: Context) -> None:
    """Fit the configured decoder, and those to select from, if they learn."""
    assert model.candidates is not None
    config = model.config
    choices = [config.decoder, *(decoder_of(config, name) for name in config.selection.decoders)]
    problem = Problem(model.space, model.candidates)

    def energy(inputs: Tensors) -> Energy:
        return model.regressor.energy(model.regressor.predict(inputs))

    own = dataclasses.replace(data, problem=problem, energy=energy)
    for choice in {choice.name: choice for choice in reversed(choices)}.values():
        engine = model.decoder(choice)
        if isinstance(engine, Learner):
            learn(engine, f"decoder {choice.name}", own, context)
            model.fitted[choice.name] = engine
