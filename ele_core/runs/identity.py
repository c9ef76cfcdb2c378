"""The identity of a run: options, data and versions; and whether a run may be resumed after they have changed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ele_core import __version__
from ele_core import config as configuration
from ele_core.config import RunConfig
from ele_core.config.diff import changes, training_options
from ele_core.data.dataset import fingerprint
from ele_core.data.prepare import Prepared
from ele_core.errors import DataError, ModelError
from ele_core.files.archive import read_json
from ele_core.files.atomic import write_text
from ele_core.runs.folder import CONFIG, IDENTITY, unfinished
from ele_core.runtime.context import Context

SAMPLED = 10_000
"""The number of extra outputs that are compared: there may be millions of them, on disk."""


def identity(prepared: Prepared, context: Context) -> dict[str, Any]:
    """Return what must not change while a run is resumed, as identity.json holds it."""
    data, extra = prepared.data, prepared.data.extra
    return {
        "config": training_options(prepared.config),
        "data": data.fingerprint,
        "split": hashlib.sha256(str([rows.tolist() for rows in (data.train, data.validation)]).encode()).hexdigest(),
        "extra": None if extra is None else [len(extra), fingerprint((), extra[:SAMPLED])],
        "versions": versions(prepared.config),
        "processes": context.processes.count,
        "device": context.device.type,
        "threads": torch.get_num_threads(),
    }


def write_identity(folder: Path, prepared: Prepared, context: Context) -> None:
    """Write identity.json and config.toml of a run."""
    write_text(folder / IDENTITY, json.dumps(identity(prepared, context), indent=2) + "\n")
    write_text(folder / CONFIG, configuration.dump(prepared.config))


def versions(config: RunConfig) -> dict[str, str]:
    """Return the versions of torch, ELE and every plugin that provides a component."""
    providers = [config.registry.provider(kind, name) for kind, name in configuration.components(config)]
    return {str(p.distribution): str(p.version) for p in providers} | {
        "ele": __version__,
        "torch": str(torch.__version__),
    }


def judge(folder: Path, prepared: Prepared, context: Context, accept_changes: bool) -> None:
    """Report what has changed since the run was started, and refuse changes that would make it another run."""
    then, now = read_json(folder / IDENTITY), identity(prepared, context)
    if not isinstance(then, dict) or not all(isinstance(then.get(part), dict) for part in ("config", "versions")):
        raise ModelError("damaged: not the identity of a run.", where=str(folder / IDENTITY))
    changed = changes(then["config"], now["config"])
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
    if then != now and context.processes.main and unfinished(folder):
        write_identity(folder, prepared, context)


def rounding(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Return the changes that affect only the rounding of results, or the random draws of views and dropout."""
    rounded = "results are equal up to rounding, not bit-equal"
    redrawn = "the batches stay the same, but views and dropout are drawn differently: results are not bit-equal"
    effects = {"device": rounded, "threads": rounded, "processes": redrawn}
    differ = [part for part in effects if then.get(part) != now[part]]
    return [f"{part}: {then.get(part)} → {now[part]}; {effects[part]}" for part in differ]
