"""Calibrate the model of a run, or a saved model, after its training."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from ele_core.config import DataConfig
from ele_core.data.prepare import read_examples
from ele_core.errors import DataError
from ele_core.files.locks import locked
from ele_core.model.files import save_model
from ele_core.model.model import Model
from ele_core.model.pretrained import model_folder
from ele_core.model.train import calibrated
from ele_core.model.trust.judged import calibrate
from ele_core.plugins import Registry
from ele_core.runs.folder import CHECKPOINTS
from ele_core.runs.run import Run, context_for
from ele_core.runs.saved import open_model
from ele_core.runtime.context import Context
from ele_core.runtime.distributed import Processes
from ele_core.runtime.monitor import Monitor

VALIDATION = (
    "this run set no pairs aside for a calibration: using its validation pairs. They chose the weights, so that "
    "confidence and coverage hold only about. For a guarantee, give new pairs (--data FILE), or train with --set "
    "calibration.pairs=1000"
)


def calibrate_run(
    folder: str | Path,
    data: DataConfig | None = None,
    overrides: Sequence[str] = (),
    monitor: Monitor | None = None,
    registry: Registry | None = None,
) -> Model:
    """Calibrate with pairs of a file, with those that the run set aside, or with its validation pairs; save the model.

    `overrides` choose the decoder that is calibrated; the decoder of the saved model stays the same.
    """
    opened = open_model(folder, registry)
    model = opened.model(overrides)
    context = context_for(model.config, monitor, Processes())
    with locked(Path(folder) / CHECKPOINTS / "lock", "calibrating or training"):
        if data is not None:
            model = from_file(model, data, context)
        elif isinstance(opened, Run):
            model = from_splits(model, opened, context)
        else:
            what = "a saved model has no data of its own."
            raise DataError(what, where=str(folder), fix="Give pairs: ele calibrate FOLDER --data FILE.")
        stored = dataclasses.replace(opened.model(), calibration=model.calibration)
        save_model(stored, model_folder(folder))
    return model


def from_splits(model: Model, run: Run, context: Context) -> Model:
    """Calibrate with the pairs that the run set aside, or else with its validation pairs."""
    prepared = run.data(context)
    split = "calibration" if len(prepared.data.calibration) else "validation"
    if split == "validation":
        context.monitor.message(VALIDATION)
    return calibrated(model, prepared, split, context)


def from_file(model: Model, data: DataConfig, context: Context) -> Model:
    """Calibrate with the pairs of a file; columns that are not named are those of the training."""
    trained = model.config.data
    columns = data if trained is None else trained.model_copy(update=data.model_dump(exclude_none=True))
    config = model.config.model_copy(update={"data": columns})
    inputs, truths = read_examples(data.file, config, model.space, model.inputs, context)
    return calibrate(model, inputs, truths, Path(data.file).name, context)
