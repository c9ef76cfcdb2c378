"""Training in a folder that survives: started once, resumed as often as needed, the outcome the same to the bit."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from ele_core import __version__
from ele_core.data.dataset import DataSet
from ele_core.data.prepare import Prepared
from ele_core.errors import ModelError
from ele_core.files.atomic import new_folder, remove_unfinished, write_text
from ele_core.files.locks import locked
from ele_core.model.files import describe, load_model, save_model
from ele_core.model.model import Model
from ele_core.model.train import assemble, fit
from ele_core.runs.folder import CHECKPOINTS, IDENTITY, check_free, unfinished
from ele_core.runs.identity import judge, write_identity
from ele_core.runtime.checkpoint import EVERY, Checkpoints
from ele_core.runtime.context import Context
from ele_core.runtime.monitor import FileMonitor, Monitor, Monitors
from ele_core.runtime.signals import Stop
from ele_core.runtime.work import Snapshot


def begin(
    folder: Path,
    prepared: Prepared,
    context: Context,
    surrogate: Mapping[str, torch.Tensor] | None = None,
    surrogate_from: str | None = None,
) -> None:
    """Make the run's folder, with all that is known before the training, at once; never in the place of another.

    With `surrogate`, the weights of one that the run called `surrogate_from` trained, only the regressor is left to do.
    """
    describe(prepared.config)  # a model that could not be saved is refused before it is trained
    if not context.processes.main:
        return
    with new_folder(folder) as target:
        write_identity(target, prepared, context)
        origin = {} if surrogate_from is None else {"surrogate_from": surrogate_from}
        write_text(target / "data.json", json.dumps({**provenance(prepared.data), **origin}) + "\n")
        if surrogate is not None:
            work = Checkpoints(target / CHECKPOINTS, advice="")
            work.finish("surrogate", Snapshot(dict(surrogate)), closes=True)
            work.save()


def train_in(
    folder: Path,
    prepared: Prepared,
    context: Context,
    *,
    every: float = EVERY,
    accept_changes: bool = False,
    advice: str | None = None,
    log: str | None = None,
) -> Model:
    """Train in a folder that `begin` made, from its last checkpoint if there is one, and put the model there.

    With `log` "tensorboard", evaluations go to event files too.
    """
    model = assemble(prepared, context)
    processes = context.processes
    checkpoints = folder / CHECKPOINTS
    advice = advice or f"Continue with: ele resume {folder}"
    with locked(checkpoints / "lock", "training") if processes.main else nullcontext(), Stop().listening() as stop:
        finished = processes.largest(int(processes.main and not unfinished(folder)))
        if finished:  # by another process, between our look and our lock
            return load_model(folder / "model", context.device)
        judge(folder, prepared, context, accept_changes)
        journal = FileMonitor(folder) if processes.main else None
        work = Checkpoints(
            checkpoints,
            advice=advice,
            every=every,
            journal=journal,
            monitor=context.monitor,
            processes=processes,
            stop=stop,
        )
        if work.load() and journal is not None and journal.lines["metrics.jsonl"]:
            context.monitor.message(f"resumed from checkpoint {work.number}, during {work.current}")
        monitor, close = monitors(context.monitor, journal, log)
        try:
            fit(model, prepared, dataclasses.replace(context, monitor=monitor, work=work))
            if processes.main:
                remove_unfinished(folder, "model")
                save_model(model, folder / "model")
        except OSError as error:  # a full disk: the checkpoints there are stay
            what = f"cannot be written: {error.strerror or error}."
            raise ModelError(what, where=str(error.filename or folder), fix=f"Make room. {advice}") from error
        finally:
            close()
        work.clear()
        processes.wait()
    return model


def monitors(shown: Monitor, journal: FileMonitor | None, log: str | None) -> tuple[Monitor, Callable[[], None]]:
    """Whom a training reports to, and what to call at its end; only the process with the journal writes."""
    if journal is None:
        return shown, lambda: None
    if log is None:
        return Monitors(shown, journal), lambda: None
    from ele_core.runtime.tensorboard import TensorBoardMonitor

    board = TensorBoardMonitor(journal.folder, journal.lines["metrics.jsonl"])
    return Monitors(shown, journal, board), board.close


def fit_in(folder: Path, prepared: Prepared, context: Context) -> Model:
    """Train in `folder`: begin, go on, or take the model that is there, whichever is left to do."""
    if (folder / "model").is_dir() and (folder / IDENTITY).is_file():
        judge(folder, prepared, context, accept_changes=False)
        context.monitor.message(f"{folder}: finished already, its model is taken")
        model = load_model(folder / "model", context.device)
        model.config = prepared.config  # how to decode may have changed
        return model
    if not unfinished(folder):
        if context.processes.main:
            check_free(folder)
        begin(folder, prepared, context)
    context.processes.wait()
    return train_in(folder, prepared, context, every=EVERY, advice="Call fit again with the same arguments.")


# -- what may change ----------------------------------------------------------------------------------------------


def provenance(data: DataSet) -> dict[str, Any]:
    """What data.json holds: where the data came from, how they were split, and which rows were left out and why."""
    return {
        "ele": __version__,
        "source": data.source,
        "fingerprint": data.fingerprint,
        "train": data.train.tolist(),
        "validation": data.validation.tolist(),
        "test": data.test.tolist(),
        "rejected": [dataclasses.asdict(rejected) for rejected in data.rejected],
    }
