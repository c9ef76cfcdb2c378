"""What a run was begun with, and whether it may be resumed with what there is now."""

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
from ele_core.config.diff import changes, settled
from ele_core.data.dataset import fingerprint
from ele_core.data.prepare import Prepared
from ele_core.errors import DataError, ModelError
from ele_core.files.archive import read_json
from ele_core.files.atomic import write_text
from ele_core.plugins.loader import OURS
from ele_core.runs.folder import CONFIG, IDENTITY, unfinished
from ele_core.runtime.context import Context

SAME_RESULTS = ("0.1.0",)
"""Earlier versions of ELE whose trainings this version continues with the same results, bit for bit."""
SAMPLED = 10_000
"""Extra outputs that are compared: there may be millions, on a disk."""


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
    write_text(folder / CONFIG, configuration.dump(prepared.config))


def versions(config: RunConfig) -> dict[str, str]:
    """The versions of torch, ELE and every plugin that brings a component."""
    providers = [config.registry.provider(kind, name) for kind, name in configuration.components(config)]
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
    changed |= changed_versions(then["versions"], now["versions"])
    if changed and not accept_changes:
        fix = (
            "Put it back, or continue with --accept-changes; the result then differs from that of a run never stopped."
        )
        raise ModelError(f"something has changed: {'; '.join(changed.values())}.", where=str(folder), fix=fix)
    for difference in (*changed.values(), *rounding(then, now)):
        context.monitor.message(f"continuing although something has changed: {difference}")
    if then != now and context.processes.main and unfinished(folder):
        write_identity(folder, prepared, context)


def changed_versions(then: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """Name → how its version changed; not of ELE itself where the results stay the same."""
    same = [name for name in ("ele", OURS) if then.get(name) in SAME_RESULTS]
    return {name: text for name, text in changes(then, now).items() if name not in same}


def rounding(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What has changed and matters only to the last bits, or to what is drawn."""
    rounded = "equal up to rounding, not to the bit"
    shared = "the same batches in the same order, but views and dropout are drawn otherwise: not equal to the bit"
    said = {"device": rounded, "threads": rounded, "processes": shared}
    differ = [part for part in said if then.get(part) != now[part]]
    return [f"{part}: {then.get(part)} → {now[part]}; {said[part]}" for part in differ]
