"""Training in a folder that survives: started once, resumed as often as needed, the outcome the same to the bit."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from ele_core import __version__
from ele_core import config as configuration
from ele_core.archive import read_json
from ele_core.checkpoint import EVERY, Checkpoints, numbered
from ele_core.config import RunConfig
from ele_core.context import Context
from ele_core.data import DataSet, fingerprint
from ele_core.errors import DataError, ModelError
from ele_core.files import locked, new_folder, remove_unfinished, write_text
from ele_core.loading import Prepared
from ele_core.model import Model
from ele_core.monitor import FileMonitor, Monitor, Monitors
from ele_core.plugins import registry
from ele_core.signals import Stop
from ele_core.storage import describe, load_model, save_model
from ele_core.trainer import assemble, fit
from ele_core.work import Snapshot

CHECKPOINTS = "checkpoints"
IDENTITY = "identity.json"
"""What a run is trained with: options, data, versions. What must not change under it."""
SAMPLED = 10_000
"""Extra outputs that are compared: there may be millions, on a disk."""
DECODING = ("decoder", "candidates", "device")
"""The sections of a configuration that matter after training."""


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
    from ele_core.tensorboard import TensorBoardMonitor

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


def check_free(folder: Path) -> None:
    """Refuse a folder that holds something already."""
    if unfinished(folder):
        fix = f"Go on with it: ele resume {folder}. Or choose another folder, or remove this one."
        raise ModelError("there is an unfinished run.", where=str(folder), fix=fix)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        fix = "Choose another with -o, or remove it."
        raise ModelError("there is something there already.", where=str(folder), fix=fix)
    nearest = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    if not nearest.is_dir():
        raise ModelError(f"cannot be made: {nearest} is a file.", where=str(folder), fix="Choose another with -o.")


def unfinished(folder: Path) -> bool:
    """Whether there is a run that was begun and has no model yet."""
    return (folder / "config.toml").is_file() and not (folder / "model").is_dir()


def remove_checkpoints(folder: Path) -> None:
    """Remove the checkpoints of a training that has finished, where a kill left them."""
    for path in numbered(folder / CHECKPOINTS):
        shutil.rmtree(path, ignore_errors=True)


# -- what may change ----------------------------------------------------------------------------------------------


def identity(prepared: Prepared, context: Context) -> dict[str, Any]:
    """What a resumed training is compared by."""
    data, extra = prepared.data, prepared.data.extra
    return {
        "config": settled(prepared.config),
        "data": data.fingerprint,
        "split": hashlib.sha256(str([rows.tolist() for rows in (data.train, data.validation)]).encode()).hexdigest(),
        "extra": None if extra is None else [len(extra), fingerprint((), extra[:SAMPLED])],
        "versions": versions(prepared.config),
        "processes": context.processes.count,
        "device": context.device.type,
        "threads": torch.get_num_threads(),
    }


def write_identity(folder: Path, prepared: Prepared, context: Context) -> None:
    """Write what the run is trained with, as it is from now on."""
    write_text(folder / IDENTITY, json.dumps(identity(prepared, context), indent=2) + "\n")
    write_text(folder / "config.toml", configuration.dump(prepared.config))


def settled(config: RunConfig) -> dict[str, Any]:
    """Every option that training depends on, by its path."""
    return flatten(config.model_dump(mode="json", exclude=set(DECODING)))


def flatten(table: Mapping[str, Any]) -> dict[str, Any]:
    """A nested table as dotted paths and values."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            flat |= {f"{key}.{path}": inner for path, inner in flatten(value).items()}
        else:
            flat[key] = value
    return flat


def versions(config: RunConfig) -> dict[str, str]:
    """The versions of torch, ELE and every plugin that brings a component."""
    providers = [registry().provider(kind, name) for kind, name in configuration.components(config)]
    return {str(p.distribution): str(p.version) for p in providers} | {
        "ele": __version__,
        "torch": str(torch.__version__),
    }


def judge(folder: Path, prepared: Prepared, context: Context, accept_changes: bool) -> None:
    """Say what has changed since a run began, and refuse what would not be the same run."""
    then, now = read_json(folder / IDENTITY), identity(prepared, context)
    if not isinstance(then, dict) or not all(isinstance(then.get(part), dict) for part in ("config", "versions")):
        raise ModelError("damaged: not the identity of a run.", where=str(folder / IDENTITY))
    changed = changes(then["config"], now["config"])
    beyond = [change for path, change in changed.items() if ".training." not in path]
    if beyond:
        fix = "Only the options of a `training` section can change. Put the others back, or train anew."
        raise ModelError(f"the configuration has changed: {'; '.join(beyond)}.", where=str(folder), fix=fix)
    if any(then.get(part) != now[part] for part in ("data", "split", "extra")):
        fix = "Bring back the data it began with, or train anew in another folder."
        raise DataError("the data, or their split, have changed since the training began.", where=str(folder), fix=fix)
    changed |= changes(then["versions"], now["versions"])
    if changed and not accept_changes:
        fix = "Put it back, or go on with --accept-changes; the outcome is then another than without the stop."
        raise ModelError(f"something has changed: {'; '.join(changed.values())}.", where=str(folder), fix=fix)
    for difference in (*changed.values(), *rounding(then, now)):
        context.monitor.message(f"going on although something has changed: {difference}")
    if then != now and context.processes.main and unfinished(folder):
        write_identity(folder, prepared, context)


def rounding(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What has changed and matters only to the last bits, or to what is drawn."""
    rounded = "equal up to rounding, not to the bit"
    shared = "the same batches in the same order, but views and dropout are drawn otherwise: not equal to the bit"
    said = {"device": rounded, "threads": rounded, "processes": shared}
    differ = [part for part in said if then.get(part) != now[part]]
    return [f"{part}: {then.get(part)} → {now[part]}; {said[part]}" for part in differ]


def changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """Path → what it was and what it is, where they differ."""
    paths = [path for path in {**then, **now} if then.get(path) != now.get(path)]
    return {path: f"{path}: {then.get(path)} → {now.get(path)}" for path in paths}


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
