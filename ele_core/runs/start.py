"""Begin the training of a run, or continue it: prepare the data, assemble the model, train it in the run folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ele_core.config import RunConfig
from ele_core.data.prepare import Prepared, prepare
from ele_core.data.summary import summary
from ele_core.errors import ModelError
from ele_core.model.model import Model
from ele_core.model.train import assemble
from ele_core.runs.folder import check_free
from ele_core.runs.training import begin, train_in
from ele_core.runtime.checkpoint import EVERY
from ele_core.runtime.context import Context

if TYPE_CHECKING:
    from ele_core.runs.run import Run

Trained = tuple[Model, Prepared]


def start(
    config: RunConfig,
    folder: Path,
    context: Context,
    *,
    surrogate_from: Run | None = None,
    every: float = EVERY,
) -> Trained:
    """Train into a new folder; nothing is written before the data are read and the model is assembled."""
    if context.processes.main:
        check_free(folder)
    prepared, model = ready(config, context)
    context.monitor.message(summary(prepared))
    surrogate = None if surrogate_from is None else surrogate_from.surrogate_for(prepared.config)
    donor = None if surrogate_from is None else surrogate_from.folder.resolve().name
    begin(folder, prepared, context, surrogate, donor)
    context.processes.wait()
    return train_in(folder, model, prepared, context, every=every), prepared


def resume(
    config: RunConfig,
    folder: Path,
    context: Context,
    *,
    accept_changes: bool = False,
    every: float = EVERY,
) -> Trained:
    """Continue a training from its last checkpoint."""
    if config.data is None and config.task is None:
        fix = "Call fit again with the same arguments and run=…: it continues from the last checkpoint."
        what = "this run was started from Python, and its data are not in a file."
        raise ModelError(what, where=str(folder), fix=fix)
    prepared, model = ready(config, context)
    return train_in(folder, model, prepared, context, every=every, accept_changes=accept_changes), prepared


def ready(config: RunConfig, context: Context) -> tuple[Prepared, Model]:
    """The data and the model that a training begins with; the main process reads first, the others find its caches."""
    with context.processes.main_first():
        prepared = prepare(config, context)
    return prepared, assemble(prepared, context)
