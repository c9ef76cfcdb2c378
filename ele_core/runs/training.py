"""Training in a run folder: after any number of stops and resumes, the results are the same bit for bit."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from ele_core import __version__
from ele_core.config import dump
from ele_core.data.dataset import DataSet
from ele_core.data.prepare import Prepared
from ele_core.errors import ModelError
from ele_core.files.atomic import locked, new_folder, remove_unfinished, write_text
from ele_core.model.files import describe, load_model, save_model
from ele_core.model.model import Model
from ele_core.model.train import assemble, fit
from ele_core.runs.folder import CHECKPOINTS, CONFIG, DATA, IDENTITY, MODEL, check_free, unfinished
from ele_core.runs.identity import judge, write_identity
from ele_core.runs.journal import seal_journal
from ele_core.runtime.checkpoint import EVERY, Checkpoints
from ele_core.runtime.context import Context
from ele_core.runtime.monitor import Callbacks, FileMonitor
from ele_core.runtime.work import Snapshot, Stop


def begin(
    folder: Path,
    prepared: Prepared,
    context: Context,
    surrogate: Mapping[str, torch.Tensor] | None = None,
    surrogate_from: str | None = None,
) -> None:
    """Create the run folder atomically, with all files known before the training; never overwrite another folder.

    `surrogate` holds the weights of a surrogate that the run `surrogate_from` trained: only the regressor is trained.
    """
    describe(prepared.config)  # refuse a model that cannot be saved before it is trained
    if not context.processes.main:
        return
    with new_folder(folder) as target:
        write_identity(target, prepared, context)
        origin = {} if surrogate_from is None else {"surrogate_from": surrogate_from}
        write_text(target / DATA, json.dumps({**provenance(prepared.data), **origin}) + "\n")
        if surrogate is not None:
            work = Checkpoints(target / CHECKPOINTS, advice="")
            work.finish("surrogate", lambda: Snapshot(dict(surrogate)), closes=True)
            work.save()


def train_in(
    folder: Path,
    model: Model,
    prepared: Prepared,
    context: Context,
    *,
    every: float = EVERY,
    accept_changes: bool = False,
    advice: str | None = None,
) -> Model:
    """Train a model in a folder that `begin` created, from its last checkpoint if there is one, and save it there.

    Of several processes only the main one writes.
    """
    processes = context.processes
    checkpoints = folder / CHECKPOINTS
    advice = advice or f"Continue with: ele resume {folder}"
    with locked(checkpoints / "lock", "training") if processes.main else nullcontext(), Stop().listening() as stop:
        finished = processes.largest(int(processes.main and not unfinished(folder)))
        if finished:  # by another process, before this one had the lock
            return load_model(folder / MODEL, context.device, prepared.config.registry)
        judge(folder, prepared, context, accept_changes)
        journal = FileMonitor(folder)
        work = Checkpoints(
            checkpoints,
            advice=advice,
            every=every,
            journal=journal if processes.main else None,
            monitor=context.monitor,
            processes=processes,
            stop=stop,
        )
        if work.load() and journal.lines["metrics.jsonl"]:
            context.monitor.message(f"resumed from checkpoint {work.number}, during {work.current}")
        monitor = Callbacks(context.monitor, *((journal,) if processes.main else ()))
        try:
            with monitor.training(folder, journal.evaluations):
                model = fit(model, prepared, dataclasses.replace(context, monitor=monitor, work=work))
            if processes.main:
                remove_unfinished(folder, MODEL)
                if model.config != prepared.config:  # a decoder was chosen
                    write_text(folder / CONFIG, dump(model.config))
                seal_journal(folder)
                save_model(model, folder / MODEL)
        except OSError as error:  # a full disk: the last checkpoints are intact
            what = f"cannot be written: {error.strerror or error}."
            raise ModelError(what, where=str(error.filename or folder), fix=f"Make room. {advice}") from error
        work.clear()
        processes.wait()
    return model


def fit_in(
    folder: Path, prepared: Prepared, context: Context, *, every: float = EVERY, donor: Model | None = None
) -> Model:
    """Train in `folder`: start, continue from a checkpoint, or load the model if the training has finished.

    A new training starts from the weights of `donor` if there is one.
    """
    if (folder / MODEL).is_dir() and (folder / IDENTITY).is_file():
        judge(folder, prepared, context, accept_changes=False)
        context.monitor.message(f"{folder}: this run has finished already, loading its model")
        model = load_model(folder / MODEL, context.device, prepared.config.registry)
        config = prepared.config  # how to decode may have changed
        if config.selection.decoders:  # the decoder was chosen after the training
            config = config.model_copy(update={"decoder": model.config.decoder})
        return dataclasses.replace(model, config=config)
    model = assemble(prepared, context, donor)
    if not unfinished(folder):
        if context.processes.main:
            check_free(folder)
        begin(folder, prepared, context)
    context.processes.wait()
    advice = "Call fit again with the same arguments."
    return train_in(folder, model, prepared, context, every=every, advice=advice)


def provenance(data: DataSet) -> dict[str, Any]:
    """Return the content of data.json: source, fingerprint, split, and which rows were left out and why."""
    return {
        "ele": __version__,
        "source": data.source,
        "fingerprint": data.fingerprint,
        "train": data.train.tolist(),
        "validation": data.validation.tolist(),
        "test": data.test.tolist(),
        "calibration": data.calibration.tolist(),
        "rejected": [
            {key: value for key, value in dataclasses.asdict(rejected).items() if value is not None}
            for rejected in data.rejected
        ],
    }
