"""Training in a folder that survives: started once, resumed as often as needed, the outcome the same to the bit."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from ele_core import __version__
from ele_core import config as configuration
from ele_core.archive import read_json
from ele_core.checkpoint import Accept, Checkpoints
from ele_core.config import RunConfig
from ele_core.context import Context
from ele_core.data import DataSet, fingerprint
from ele_core.errors import DataError, ModelError
from ele_core.files import locked, replace_folder, write_text
from ele_core.loading import Prepared
from ele_core.model import Model
from ele_core.monitor import FileMonitor, Monitor, Monitors
from ele_core.plugins import registry
from ele_core.signals import Stop
from ele_core.storage import describe, load_model, save_model
from ele_core.trainer import assemble, fit
from ele_core.work import Snapshot

CHECKPOINTS = "checkpoints"
IDENTITY = "trained.json"
"""What a finished run was trained with: configuration, data, versions."""
EVERY = 60.0
"""Seconds between two checkpoints."""
SAMPLED = 10_000
"""Extra outputs that are compared: there may be millions, on a disk."""
DECODING = ("decoder", "candidates", "device")
"""The sections of a configuration that matter after training."""


def begin(folder: Path, prepared: Prepared) -> None:
    """Make the run's folder, with all that is known before the training, at once."""
    with replace_folder(folder) as target:
        write_text(target / "config.toml", configuration.dump(prepared.config))
        write_text(target / "data.json", json.dumps(provenance(prepared.data)) + "\n")


def train_in(
    folder: Path,
    prepared: Prepared,
    context: Context,
    *,
    every: float = EVERY,
    accept_changes: bool = False,
    advice: str | None = None,
    surrogate: Mapping[str, torch.Tensor] | None = None,
) -> Model:
    """Train in a folder that `begin` made, from its last checkpoint if there is one, and put the model there.

    With `surrogate`, the weights of one that was trained before, only the regressor is trained.
    """
    describe(prepared.config)  # a model that could not be saved is refused before it is trained
    model = assemble(prepared, context)
    checkpoints = folder / CHECKPOINTS
    lock = locked(checkpoints / "lock", "training") if context.processes.main else nullcontext()
    with lock, Stop().listening() as stop:
        if not unfinished(folder):  # it was finished by another process, between our look and our lock
            context.processes.wait()
            return load_model(folder / "model", context.device)
        journal = FileMonitor(folder) if context.processes.main else None
        work = Checkpoints(
            checkpoints,
            identity=identity(prepared, context),
            advice=advice or f"Continue with: ele resume {folder}",
            every=every,
            journal=journal,
            monitor=context.monitor,
            processes=context.processes,
            stop=stop,
        )
        if work.load(judge(context.monitor, accept_changes)):
            context.monitor.message(f"resumed from checkpoint {work.number}")
            if accept_changes and context.processes.main:
                write_text(folder / "config.toml", configuration.dump(prepared.config))
        elif surrogate is not None:
            work.finish("surrogate", Snapshot(dict(surrogate)), closes=True)
            work.save()
        monitor: Monitor = context.monitor if journal is None else Monitors(context.monitor, journal)
        fit(model, prepared, dataclasses.replace(context, monitor=monitor, work=work))
        if context.processes.main:
            remove_unfinished(folder, "model")
            write_text(folder / IDENTITY, json.dumps(work.identity, indent=2) + "\n")
            save_model(model, folder / "model")
        work.clear()
        context.processes.wait()
    return model


def fit_in(folder: Path, prepared: Prepared, context: Context) -> Model:
    """Train in `folder`: begin, go on, or take the model that is there, whichever is left to do."""
    finished = (folder / "model").is_dir() and (folder / IDENTITY).is_file()
    if finished:
        judge(context.monitor, False)(read_json(folder / IDENTITY), identity(prepared, context))
        context.monitor.message(f"{folder}: finished already, its model is taken")
        return load_model(folder / "model", context.device)
    if context.processes.main and not unfinished(folder):
        check_free(folder)
        begin(folder, prepared)
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
    }


def settled(config: RunConfig) -> dict[str, Any]:
    """Every option that training depends on, by its path."""
    flat: dict[str, Any] = {}
    for name, value in config.model_dump(mode="json").items():
        if name not in DECODING:
            flatten(name, value, flat)
    return flat


def flatten(path: str, value: Any, into: dict[str, Any]) -> None:
    """A nested table as paths and values."""
    if not isinstance(value, Mapping):
        into[path] = value
        return
    for key, inner in value.items():
        flatten(f"{path}.{key}", inner, into)


def versions(config: RunConfig) -> dict[str, str]:
    """The versions of torch, ELE and every plugin that brings a component."""
    providers = [registry().provider(kind, name) for kind, name in configuration.components(config)]
    return {str(p.distribution): str(p.version) for p in providers} | {
        "ele": __version__,
        "torch": str(torch.__version__),
    }


def judge(monitor: Monitor, accept_changes: bool) -> Accept:
    """Says what changed since a checkpoint, and refuses what would not be the same run."""

    def accept(then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        if any(then.get(part) != now[part] for part in ("data", "split", "extra")):
            fix = "Bring back the data it began with, or train anew in another folder."
            raise DataError("the data, or their split, have changed since the training began.", where="resume", fix=fix)
        changed = changes(then.get("config", {}), now["config"])
        beyond = [change for path, change in changed.items() if ".training." not in path]
        if beyond:
            fix = "Only the options of a `training` section can change. Put the others back, or train anew."
            raise ModelError(f"the configuration has changed: {'; '.join(beyond)}.", where="resume", fix=fix)
        changed |= changes(then.get("versions", {}), now["versions"])
        if changed and not accept_changes:
            fix = "Put it back, or go on with --accept-changes; the outcome is then another than without the stop."
            raise ModelError(f"something has changed: {'; '.join(changed.values())}.", where="resume", fix=fix)
        if changed:
            monitor.message(f"going on although something has changed: {'; '.join(changed.values())}")
        if then.get("device") != now["device"]:
            monitor.message(f"on {now['device']} instead of {then.get('device')}: equal up to rounding, not to the bit")
        if then.get("processes") != now["processes"]:
            monitor.message(
                f"{now['processes']} processes instead of {then.get('processes')}: the same batches in the same order, "
                "but views and dropout are drawn otherwise and sums are rounded otherwise, so not equal to the bit"
            )

    return accept


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
