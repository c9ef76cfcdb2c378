"""Train: start, resume, or fit; in a run folder the results are the same after any number of stops, bit for bit."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from ele_core import __version__
from ele_core import config as configuration
from ele_core.config import RunConfig, StartConfig
from ele_core.config.diff import changes, training_options
from ele_core.data.dataset import DataSet, fingerprint
from ele_core.data.prepare import Pairs, Prepared, prepare
from ele_core.data.store import StoredOutputs
from ele_core.data.summary import recipe_lines, summary
from ele_core.errors import DataError, InvalidObject, ModelError, command
from ele_core.files.archive import digest, read_json
from ele_core.files.atomic import locked, new_folder, remove_unfinished, write_text
from ele_core.model import train
from ele_core.model.files import describe, load_model, save_model
from ele_core.model.model import Model
from ele_core.model.pretrained import model_folder
from ele_core.model.warm_start import adopt
from ele_core.model.warm_start import digest as weights_digest
from ele_core.plugins import Registry
from ele_core.runs.folder import (
    CHECKPOINTS,
    CONFIG,
    DATA,
    IDENTITY,
    MODEL,
    brought,
    check_free,
    read_config,
    remove_checkpoints,
    seal_journal,
    unfinished,
)
from ele_core.runtime.checkpoint import EVERY, Checkpoints
from ele_core.runtime.context import Context
from ele_core.runtime.distributed import Processes
from ele_core.runtime.monitor import Callbacks, FileMonitor
from ele_core.runtime.work import Snapshot, Stop

if TYPE_CHECKING:
    from ele_core.runs.run import Run

Trained = tuple[Model, Prepared]
SAMPLED = 10_000
"""The number of extra outputs that are compared: there may be millions of them, on disk."""


def start(
    config: RunConfig,
    folder: Path,
    context: Context,
    *,
    surrogate_from: Run | None = None,
    every: float = EVERY,
    again: bool = False,
) -> Trained:
    """Train into a new folder; nothing is written before the data are read and the model is assembled.

    `again`: a run in the folder that was begun with the same data and options is continued; if it has finished, its
    model is loaded.
    """
    found = again and found_in(folder, context.processes)
    if context.processes.main and not found:
        check_free(folder)
    prepared, model = ready(config, context)
    context.monitor.message(summary(prepared))
    if not found:
        surrogate = None if surrogate_from is None else surrogate_from.surrogate_for(prepared.config)
        donor = None if surrogate_from is None else surrogate_from.folder.resolve().name
        begin(folder, prepared, context, surrogate, donor)
    return train_in(folder, model, prepared, context, begun=not found, every=every), prepared


def resume(
    config: RunConfig, folder: Path, context: Context, *, accept_changes: bool = False, every: float = EVERY
) -> Trained:
    """Continue a training from its last checkpoint."""
    if config.data is None and config.task is None:
        fix = "Call fit again with the same arguments and run=…: it continues from the last checkpoint."
        what = "this run was started from Python, and its data are not in a file."
        raise ModelError(what, where=str(folder), fix=fix)
    prepared, model = ready(config, context)
    return train_in(folder, model, prepared, context, every=every, accept_changes=accept_changes), prepared


def fit(
    config: RunConfig,
    pairs: Pairs,
    context: Context,
    *,
    folder: Path | None = None,
    every: float = EVERY,
    donor: Model | None = None,
) -> Model:
    """Train on pairs in memory, from what `donor` learned if there is one.

    With a folder: start there, continue from a checkpoint, or load the model if the training has finished.
    """
    prepared, model = ready(config, context, pairs, donor)
    for note in (*prepared.data.notes, *recipe_lines(prepared.config)):
        context.monitor.message(note)
    if folder is None:
        with Callbacks(context.monitor).training():
            return train.fit(model, prepared, context)
    found = found_in(folder, context.processes)
    if not found:
        if context.processes.main:
            check_free(folder)
        begin(folder, prepared, context)
    advice = "Call fit again with the same arguments."
    return train_in(folder, model, prepared, context, begun=not found, every=every, advice=advice)


def found_in(folder: Path, processes: Processes) -> bool:
    """Whether the main process finds a run in the folder, finished or not."""
    return bool(
        processes.largest(int(processes.main and all((folder / each).is_file() for each in (CONFIG, IDENTITY))))
    )


def finished_in(folder: Path, processes: Processes) -> bool:
    """Whether the main process finds a finished run in the folder."""
    return bool(processes.largest(int(processes.main and (folder / MODEL).is_dir())))


def finished(folder: Path, prepared: Prepared, context: Context) -> Model:
    """Load the model of a training that has finished with the same data and options; how it decodes may differ."""
    if context.processes.main:
        check_resumable(folder, prepared, context, accept_changes=False)
        remove_checkpoints(folder)
    context.monitor.message(f"{folder}: this run has finished already, loading its model")
    model = load_model(brought(folder, context.processes) / MODEL, context.device, prepared.config.registry)
    config = prepared.config
    if config.selection.decoders:  # the decoder was chosen after the training
        config = config.model_copy(update={"decoder": model.config.decoder})
    return dataclasses.replace(model, config=config)


def ready(
    config: RunConfig, context: Context, pairs: Pairs | None = None, donor: Model | None = None
) -> tuple[Prepared, Model]:
    """The data and the model that a training begins with; the main process reads first, the others find its caches.

    `donor` is the model to start from, if it is not the one that the configuration names.
    """
    if donor is None and config.start is not None:
        donor = start_model(config.start, config.registry, context)
    if donor is not None:
        config = adopt(config, donor)
    try:
        with context.processes.main_first():
            prepared = prepare(config, context, pairs, donor)
    except InvalidObject as error:
        if pairs is not None:
            error.where = error.where and pairs.place(error.noun, error.index)
        if donor is not None and error.fix is None:
            error.fix = f"The {error.noun}s must be in the spaces of the model to start from."
        raise
    return prepared, train.assemble(prepared, context, donor)


def start_model(start: StartConfig, registry: Registry, context: Context) -> Model:
    """Load the model to start from; refuse one that has changed since a run recorded it."""
    folder = brought(model_folder(start.name), context.processes)
    if not (folder / "config.json").is_file():
        what = "the model to start from is not here, or its training has not finished."
        fix = "Restore, install or finish it. If it was moved: --set start.name=FOLDER"
        raise ModelError(what, where=start.name, fix=fix)
    model = load_model(folder, context.device, registry)
    if start.sha256 not in (None, weights_digest(model)):
        what = "the model to start from has changed: its weights are not those that were recorded."
        fix = "Restore it, or start a new training from it: ele train FILE --from MODEL"
        raise ModelError(what, where=start.name, fix=fix)
    return model


# -- in a folder --------------------------------------------------------------------------------------------------


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
    if context.processes.main:
        with new_folder(folder) as target:
            write_identity(target, prepared, context)
            origin = {} if surrogate_from is None else {"surrogate_from": surrogate_from}
            write_text(target / DATA, json.dumps({**provenance(prepared.data), **origin}) + "\n")
            if surrogate is not None:
                work = Checkpoints(target / CHECKPOINTS, advice="")
                work.finish("surrogate", lambda: Snapshot(dict(surrogate)), closes=True)
                work.save()
    context.processes.wait()


def train_in(
    folder: Path,
    model: Model,
    prepared: Prepared,
    context: Context,
    *,
    begun: bool = False,
    every: float = EVERY,
    accept_changes: bool = False,
    advice: str | None = None,
) -> Model:
    """Train a model in a folder that `begin` created, from its last checkpoint if there is one, and save it there.

    `begun`: this process has just created the folder, so nothing can have changed since. Of several processes only the
    main one reads and writes the folder: others may be on machines without it. If the training has finished, the model
    is loaded.
    """
    processes = context.processes
    checkpoints = folder / CHECKPOINTS
    advice = advice or f"Continue with: {command('resume', folder)}"
    if finished_in(folder, processes):
        return finished(folder, prepared, context)
    with locked(checkpoints / "lock", "training") if processes.main else nullcontext(), Stop().listening() as stop:
        if finished_in(folder, processes):  # by another process, before this one had the lock
            return finished(folder, prepared, context)
        if not begun and processes.main:
            check_resumable(folder, prepared, context, accept_changes)
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
                model = train.fit(model, prepared, dataclasses.replace(context, monitor=monitor, work=work))
            if processes.main:
                remove_unfinished(folder, MODEL)
                if model.config != prepared.config:  # a decoder was chosen
                    write_text(folder / CONFIG, configuration.dump(model.config))
                seal_journal(folder)
                save_model(model, folder / MODEL)
        except OSError as error:  # a full disk: the last checkpoints are intact
            what = f"cannot be written: {error.strerror or error}."
            raise ModelError(what, where=str(error.filename or folder), fix=f"Make room. {advice}") from error
        work.clear()
        processes.wait()
    return model


def provenance(data: DataSet) -> dict[str, Any]:
    """Return the content of data.json: source, fingerprint, split, and which rows were skipped and why."""
    return {
        "ele": __version__,
        "source": data.source,
        "fingerprint": data.fingerprint,
        "train": data.train.tolist(),
        "validation": data.validation.tolist(),
        "test": data.test.tolist(),
        "calibration": data.calibration.tolist(),
        **({} if data.stored is None else {"stored": data.stored.provenance}),
        "extra": data.extra.provenance if isinstance(data.extra, StoredOutputs) else None,
        "rejected": [
            {key: value for key, value in dataclasses.asdict(rejected).items() if value is not None}
            for rejected in data.rejected
        ],
    }


# -- what must not change while a run is resumed ------------------------------------------------------------------


def identity(prepared: Prepared, context: Context) -> dict[str, Any]:
    """Return what must not change while a run is resumed, besides its configuration, as identity.json holds it."""
    data, extra = prepared.data, prepared.data.extra
    return {
        "data": data.fingerprint,
        "split": hashlib.sha256(str([rows.tolist() for rows in (data.train, data.validation)]).encode()).hexdigest(),
        "extra": None if extra is None else [len(extra), extra_fingerprint(extra)],
        "versions": versions(prepared.config),
        "processes": context.processes.count,
        "device": context.device.type,
        "threads": torch.get_num_threads(),
    }


def extra_fingerprint(extra: Any) -> str:
    """Return the SHA-256 of the file of extra outputs; of those that are in memory or in a task's cache, of some."""
    return extra.store.digest if isinstance(extra, StoredOutputs) else fingerprint((), extra[:SAMPLED])


def write_identity(folder: Path, prepared: Prepared, context: Context) -> None:
    """Write identity.json, with the SHA-256 of config.toml, and config.toml.

    The SHA-256 of a config.toml that is replaced is kept beside the new one: a crash between both files does no harm.
    """
    text = configuration.dump(prepared.config)
    known = [hashlib.sha256(text.encode()).hexdigest()]
    known += [digest(folder / CONFIG)] if (folder / CONFIG).exists() else []
    write_text(folder / IDENTITY, json.dumps({"config": known, **identity(prepared, context)}, indent=2) + "\n")
    write_text(folder / CONFIG, text)


def versions(config: RunConfig) -> dict[str, str]:
    """Return the versions of torch, ELE and every plugin that provides a component."""
    providers = [config.registry.provider(kind, name) for kind, name in configuration.components(config)]
    return {str(p.distribution): str(p.version) for p in providers} | {
        "ele": __version__,
        "torch": str(torch.__version__),
    }


def check_resumable(folder: Path, prepared: Prepared, context: Context, accept_changes: bool) -> None:
    """Report what has changed since the run was started, and refuse changes that would make it another run."""
    then, now = read_json(folder / IDENTITY), identity(prepared, context)
    kinds = {"config": list, "versions": dict}
    if not isinstance(then, dict) or not all(isinstance(then.get(part), kind) for part, kind in kinds.items()):
        raise ModelError("damaged: not the identity of a run.", where=str(folder / IDENTITY))
    if unfinished(folder) and digest(folder / CONFIG) not in then["config"]:
        fix = "Restore it, and change options of a `training` section with --set and --accept-changes."
        raise ModelError("has changed since the training began.", where=str(folder / CONFIG), fix=fix)
    started = read_config(folder, registry=prepared.config.registry)
    changed = changes(training_options(started), training_options(prepared.config))
    beyond = [change for path, change in changed.items() if ".training." not in path]
    if beyond:
        fix = "Only the options of a `training` section can change. Undo the other changes, or train again."
        raise ModelError(f"the configuration has changed: {'; '.join(beyond)}.", where=str(folder), fix=fix)
    if any(then.get(part) != now[part] for part in ("data", "split", "extra")):
        fix = "Restore the data it was started with, or train again in another folder."
        raise DataError("the data, or their split, have changed since the training began.", where=str(folder), fix=fix)
    changed |= changes(then["versions"], now["versions"])
    if changed and not accept_changes:
        fix = "Undo the change, or continue with --accept-changes: the result then differs from an uninterrupted run."
        raise ModelError(f"something has changed: {'; '.join(changed.values())}.", where=str(folder), fix=fix)
    for difference in (*changed.values(), *rounding(then, now)):
        context.monitor.message(f"continuing although something has changed: {difference}")
    same = all(then.get(part) == value for part, value in now.items()) and started == prepared.config
    if not same and context.processes.main and unfinished(folder):
        write_identity(folder, prepared, context)


def rounding(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the changes that affect only the rounding of results, or the random draws of views and dropout."""
    rounded = "results are equal up to rounding, not bit-equal"
    redrawn = "the batches stay the same, but views and dropout are drawn differently: results are not bit-equal"
    effects = {"device": rounded, "threads": rounded, "processes": redrawn}
    differ = [part for part in effects if then.get(part) != now[part]]
    return [f"{part}: {then.get(part)} → {now[part]}; {effects[part]}" for part in differ]
