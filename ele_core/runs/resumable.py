"""Long work with a run's model, such as an evaluation, that continues after a stop when it is started again."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ele_core.config import RunConfig
from ele_core.config.diff import DECODING
from ele_core.errors import Locked
from ele_core.files.archive import MANIFEST, digest
from ele_core.files.atomic import locked
from ele_core.files.tables import suffix_of
from ele_core.model.predict_file import Parts
from ele_core.model.pretrained import model_folder
from ele_core.model.tables import PARQUET, is_folder
from ele_core.runs.folder import CHECKPOINTS
from ele_core.runs.training import versions
from ele_core.runtime.checkpoint import EVERY, Checkpoints
from ele_core.runtime.context import Context
from ele_core.runtime.work import Stop


def work_key(run: Path, config: RunConfig, settings: Any) -> str:
    """Return a name for work with the model of `run`, equal for equal model, decoding, settings and versions."""
    decoding = config.model_dump(mode="json", include=set(DECODING))
    if not config.constraints:  # as in runs that are older than this section
        del decoding["constraints"]
    same = {
        "model": digest(model_folder(run) / MANIFEST),
        "decoding": decoding,
        "settings": settings,
        "versions": versions(config),
    }
    return hashlib.sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()[:16]


@contextmanager
def resumable(run: Path, key: str, context: Context, every: float = EVERY) -> Iterator[Context]:
    """Yield a context that writes checkpoints of the work called `key` into the run folder.

    They are removed when the block ends without an error: write the results inside it. If the folder cannot be
    written, or another process does the same work, there are no checkpoints.
    """
    folder = run / CHECKPOINTS / key
    with ExitStack() as stack:
        if context.processes.main:
            stack.callback(remove_empty, folder.parent)
        refused = ""
        try:
            if context.processes.main:
                stack.enter_context(locked(folder.with_suffix(".lock"), "doing the same"))
        except (Locked, OSError) as error:
            refused = str(error)
        if context.processes.largest(len(refused)):
            context.monitor.message(f"continuing without checkpoints: {refused}")
            yield context
            return
        work = Checkpoints(
            folder,
            advice="Continue with the same command.",
            every=every,
            monitor=context.monitor,
            processes=context.processes,
            stop=stack.enter_context(Stop().listening()),
        )
        if work.load():
            context.monitor.message("continuing where the same command was stopped")
        try:
            yield dataclasses.replace(context, work=work)
        except OSError:  # the results could not be written: keep a checkpoint for the next attempt
            work.save()
            raise
        work.clear()


def remove_empty(folder: Path) -> None:
    """Remove a folder unless it holds something, such as other unfinished work with the same run."""
    with suppress(OSError):
        folder.rmdir()


@contextmanager
def parts_in(run: Path, target: str, config: RunConfig, settings: Any, context: Context) -> Iterator[Parts]:
    """Yield the parts of predictions: those in the folder `target`, or else with the checkpoints of the work.

    Without checkpoints they are in a temporary folder. `settings` are what predictions depend on besides the model.
    """
    key, processes = work_key(run, config, settings), context.processes
    if is_folder(target):
        yield Parts(Path(target), ".parquet", key, processes)
        return
    suffix = suffix_of(target) if suffix_of(target) in PARQUET else ".jsonl"
    if isinstance(context.work, Checkpoints):
        yield Parts(context.work.folder / "parts", suffix, key, processes)
        return
    with TemporaryDirectory() as folder:
        yield Parts(Path(folder), suffix, key, processes)
