"""Calibrate the model of a run, or a saved model, after its training."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import torch

from ele_core.config import DataConfig, Overrides, RunConfig
from ele_core.config.schema import SelectionConfig
from ele_core.data.pairs import input_texts, read_examples
from ele_core.data.truths import examples, numbered
from ele_core.errors import DataError, EleError, counted
from ele_core.files.atomic import locked
from ele_core.files.signatures import SIGNATURE
from ele_core.model.files import save_model
from ele_core.model.model import Model
from ele_core.model.pretrained import model_folder, refuse_installed
from ele_core.model.train import assemble, calibrated, fit
from ele_core.model.trust.judged import calibrate, calibrate_with, to_judge
from ele_core.plugins import Registry
from ele_core.runs.folder import CHECKPOINTS
from ele_core.runs.run import Run, context_for, open_model
from ele_core.runtime.context import Context
from ele_core.runtime.distributed import Processes
from ele_core.runtime.monitor import Monitor
from ele_core.types import Decoding

VALIDATION = (
    "this run set no pairs aside for a calibration: using its validation pairs. They chose the weights, so "
    "confidence and coverage are only approximate. For a guarantee, give new pairs (--data FILE), or train with --set "
    "calibration.pairs=1000"
)


def calibrate_run(
    folder: str | Path,
    data: DataConfig | None = None,
    overrides: Overrides = (),
    monitor: Monitor | None = None,
    registry: Registry | None = None,
    folds: int | None = None,
) -> Model:
    """Calibrate with pairs of a file, with those that the run set aside, or with its validation pairs; save the model.

    With `folds` the pairs are those of the training: as many models are trained anew, each without a part of the pairs,
    which it predicts. `overrides` choose the decoder that is calibrated; the decoder of the saved model stays the same.
    """
    refuse_installed(model_folder(folder))
    opened = open_model(folder, registry)
    model = opened.model(overrides)
    context = context_for(model.config, monitor, Processes())
    with locked(Path(folder) / CHECKPOINTS / "lock", "calibrating or training"):
        if data is not None:
            if isinstance(opened, Run):
                require_new(opened, model, data, context)
            model = from_file(model, data, context)
        elif isinstance(opened, Run) and folds is not None:
            model = from_folds(model, opened, folds, context)
        elif isinstance(opened, Run):
            model = from_splits(model, opened, context)
        else:
            what = "a saved model has no data of its own."
            raise DataError(what, where=str(folder), fix="Give pairs: ele calibrate FOLDER --data FILE.")
        stored = dataclasses.replace(opened.model(), calibration=model.calibration)
        signed = (model_folder(folder) / SIGNATURE).exists()
        save_model(stored, model_folder(folder))
        if signed and not (model_folder(folder) / SIGNATURE).exists():
            context.monitor.message("the model has changed, so its signature was removed: sign it again with ele sign")
    return model


def require_new(run: Run, model: Model, data: DataConfig, context: Context) -> None:
    """Warn of inputs of a file that the training saw, and refuse a file that holds no others."""
    try:
        seen = run.data(context).data
    except EleError:  # the data of the training cannot be read any more: nothing to compare with
        return
    known = set(map(model.inputs.format, seen.inputs_at(torch.cat([seen.train, seen.validation]))))
    asked = input_texts(data.file, with_columns(model, data), model.inputs)
    shared = sum(text in known for text in asked)
    if shared and shared == len(asked):
        what = f"all {shared:,} inputs were in the training, where predictions are better than for new inputs."
        raise DataError(what, where=data.file, fix="Give new pairs, or leave --data out.")
    if shared:
        told = f"{shared:,} of {len(asked):,} inputs of {data.file} were in the training"
        context.monitor.message(f"warning: {told}: confidence and coverage will promise too much")


def from_splits(model: Model, run: Run, context: Context) -> Model:
    """Calibrate with the pairs that the run set aside, or else with its validation pairs."""
    prepared = run.data(context)
    split = "calibration" if len(prepared.data.calibration) else "validation"
    if split == "validation":
        context.monitor.message(VALIDATION)
    return calibrated(model, prepared, split, context)


def from_folds(model: Model, run: Run, folds: int, context: Context) -> Model:
    """Calibrate with the training pairs: each part of them is predicted by a model that was trained on the others."""
    prepared = run.data(context)
    data, written = prepared.data, prepared.inputs.format
    fixed = model.config.model_copy(update={"selection": SelectionConfig()})
    same = numbered(map(written, data.inputs_at(data.train)))  # pairs of one input stay together
    part = torch.randperm(int(same.max()) + 1, generator=context.generator("folds"))[same] % folds
    nothing = data.calibration[:0]
    parts = []
    for fold in range(folds):
        told = f"fold {fold + 1} of {folds}: training without {counted(int((part == fold).sum()), 'pair')}"
        context.monitor.message(f"{told}, to predict these")
        others = dataclasses.replace(data, train=data.train[part != fold], calibration=nothing, stored=None)
        own = dataclasses.replace(prepared, config=fixed, data=others)
        rows, _ = examples(data, data.train[part == fold], written)
        parts.append(to_judge(fit(assemble(own, context), own, context), data.inputs_at(rows), context))
    fewest = min(found.top_k for found in parts)
    _, truths = examples(data, torch.cat([data.train[part == fold] for fold in range(folds)]), written)
    found = Decoding.cat([each.ranks(0, fewest) for each in parts])
    return calibrate_with(model, found, truths, f"{folds} folds of the training split")


def from_file(model: Model, data: DataConfig, context: Context) -> Model:
    """Calibrate with the pairs of a file; columns that are not named are those of the training."""
    inputs, truths = read_examples(data.file, with_columns(model, data), model.space, model.inputs, context)
    return calibrate(model, inputs, truths, Path(data.file).name, context)


def with_columns(model: Model, data: DataConfig) -> RunConfig:
    """The configuration of the model with the columns of `data`; those that it does not name are of the training."""
    trained = model.config.data
    columns = data if trained is None else trained.model_copy(update=data.model_dump(exclude_none=True))
    return model.config.model_copy(update={"data": columns})
