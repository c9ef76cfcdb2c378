"""The layout of a run folder: its files, its state, what a training wrote line by line, seals and signatures."""

from __future__ import annotations

import atexit
import json
import math
import shutil
import tempfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ele_core import __version__
from ele_core import config as configuration
from ele_core.config import Overrides, RunConfig
from ele_core.errors import ConfigError, ModelError, UnknownComponent, command
from ele_core.files.archive import MANIFEST, brief, digest, read_json, read_text, regular, write_manifest
from ele_core.files.atomic import occupied
from ele_core.files.signatures import SIGNATURE, sign, signed_files
from ele_core.files.signatures import changed as changed_since
from ele_core.model.files import read_header
from ele_core.model.pretrained import model_folder, refuse_installed
from ele_core.plugins import Registry
from ele_core.runtime.checkpoint import numbered
from ele_core.runtime.distributed import Processes

CONFIG = "config.toml"
DATA = "data.json"
MODEL = "model"
CHECKPOINTS = "checkpoints"
PREDICTIONS = "predictions"
IDENTITY = "identity.json"
"""The data and versions that a run is trained with, which must not change while it is resumed."""
METRICS, TIMES, LOG = "metrics.jsonl", "times.jsonl", "log.txt"
SEALED = (CONFIG, DATA, IDENTITY, METRICS, TIMES, LOG)
"""The files of a run folder that do not change after the training."""
SPLITS = ("train", "validation", "test", "calibration")
LARGEST_DATA = 1 << 30
"""Bytes of the largest data.json, which lists every row."""


def check_free(folder: Path) -> None:
    """Refuse a folder that is not empty or cannot be created."""
    if unfinished(folder):
        fix = f"Continue with: {command('resume', folder)}. Or choose another folder, or remove this one."
        raise ModelError("there is an unfinished run.", where=str(folder), fix=fix)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        fix = "Choose another with -o, or remove it." if folder.is_dir() else "Choose another with -o."
        raise ModelError(occupied(folder), where=str(folder), fix=fix)
    nearest = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    if not nearest.is_dir():
        raise ModelError(f"cannot be created: {nearest} is a file.", where=str(folder), fix="Choose another with -o.")


def unfinished(folder: Path) -> bool:
    """Whether the folder holds a run that has no model yet."""
    return (folder / CONFIG).is_file() and not (folder / MODEL).is_dir()


def remove_checkpoints(folder: Path) -> None:
    """Remove the checkpoints that a finished training left because it was killed."""
    for path in numbered(folder / CHECKPOINTS):
        shutil.rmtree(path, ignore_errors=True)


def read_config(folder: Path, overrides: Overrides = (), registry: Registry | None = None) -> RunConfig:
    """Load a run's configuration; if it cannot be used here, the error names the versions the run was started with."""
    try:
        return configuration.load(folder / CONFIG, overrides, registry)
    except (UnknownComponent, ConfigError) as error:
        try:
            brought = read_json(folder / IDENTITY)["versions"].items()
        except (ModelError, KeyError, TypeError, AttributeError):
            raise error from None
        if overrides and all(installed_version(name) == version for name, version in brought):
            raise error from None  # a mistake in an override, not in the run
        started = f"The run was started with {', '.join(f'{name} {version}' for name, version in sorted(brought))}."
        raise type(error)(error.what, where=error.where, fix=f"{error.fix or ''} {started}".strip()) from None


def installed_version(name: str) -> str | None:
    """The version of a distribution, of ELE (`ele`) or of torch; None if it is not installed."""
    if name == "ele":
        return __version__
    try:
        return str(torch.__version__) if name == "torch" else metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def read_data(folder: Path) -> dict[str, Any]:
    """Load data.json: where the data came from and how they were split."""
    file = folder / DATA
    used = read_json(file, LARGEST_DATA)
    kinds = {"source": str, "fingerprint": str, **dict.fromkeys((*SPLITS, "rejected"), list)}
    if not isinstance(used, dict) or not all(isinstance(used.get(key), kind) for key, kind in kinds.items()):
        raise ModelError("damaged: not the data of a run.", where=str(file))
    if "stored" in used and not isinstance(used["stored"], dict):
        raise ModelError("damaged: not the data of a run.", where=str(file))
    return used


def training_pairs(used: Mapping[str, Any]) -> int:
    """The number of training pairs by data.json; it lists only those in memory."""
    return int(used.get("stored", {}).get("train", len(used["train"])))


def split_rows(folder: Path, used: Mapping[str, Any], count: int) -> list[Tensor]:
    """The training, validation, test and calibration rows that data.json lists, each below `count`."""
    lists = [used[name] for name in SPLITS]
    if not all(type(row) is int and 0 <= row < count for rows in lists for row in rows):
        what = f"damaged: a split is a list of rows, each from 0 to {count - 1}."
        raise ModelError(what, where=str(folder / DATA))
    if not used["train"] or len({row for rows in lists for row in rows}) != sum(map(len, lists)):
        what = "damaged: there are no training rows, or a row is listed twice."
        raise ModelError(what, where=str(folder / DATA))
    return [torch.tensor(rows, dtype=torch.long) for rows in lists]


def require_finished(folder: Path) -> None:
    """Refuse a run that has no model yet."""
    if unfinished(folder):
        fix = f"Finish it with: {command('resume', folder)}"
        raise ModelError("this run has not finished.", where=str(folder), fix=fix)


def finished_folder(folder: Path) -> Path:
    """Return `folder` if it holds a finished run; refuse anything else."""
    require_finished(folder)
    if not (folder / CONFIG).is_file() or not (folder / MODEL).is_dir():
        fix = "Give a folder that `ele train -o FOLDER` wrote."
        alone = (folder / "config.json").is_file()
        what = "this is a model without the data and the records of its run." if alone else "there is no run here."
        raise ModelError(what, where=str(folder), fix=fix)
    regular(folder / CONFIG)
    return folder


# -- machines that share no disk ----------------------------------------------------------------------------------


def brought(folder: Path, processes: Processes) -> Path:
    """Return the folder of a run or a model as this process can read it.

    On a machine that does not have what the main process finds there, it is a copy, removed when the process ends.
    """
    if processes.count == 1:
        return folder
    known = processes.text_from_main(json.dumps(listed(folder) if processes.main else None))
    here = processes.main or listed(folder) == json.loads(known)
    if not processes.largest(int(not here)):
        return folder
    names = json.loads(known) if processes.main else ()
    contents = processes.from_main({name: torch.from_numpy(np.fromfile(folder / name, np.uint8)) for name in names})
    if here:
        return folder
    copy = Path(tempfile.mkdtemp(prefix="ele-"))
    atexit.register(shutil.rmtree, copy, ignore_errors=True)
    (copy / MODEL).mkdir()
    for name, content in contents.items():
        (copy / name).write_bytes(content.numpy().tobytes())
    if not any((copy / MODEL).iterdir()):  # the run has not finished, or the folder is itself a model
        (copy / MODEL).rmdir()
    return copy


def listed(folder: Path) -> dict[str, Any]:
    """Name → size of each file of a run or a model but its report, evaluations and checkpoints; SHA-256 of small ones.

    Where the manifest has equal contents, large files are not compared.
    """
    files = [file for each in (folder, folder / MODEL) if each.is_dir() for file in sorted(each.iterdir())]
    kept = [file for file in files if file.is_file() and file.suffix != ".html" and not file.name.startswith(".")]
    sizes = {str(file.relative_to(folder)): file.stat().st_size for file in kept}
    return {name: [size, digest(folder / name) if size <= COMPARED else ""] for name, size in sizes.items()}


COMPARED = 1 << 20
"""Bytes of the largest file that is compared by its contents."""


# -- what a training wrote line by line ---------------------------------------------------------------------------


def read_journal(file: Path) -> list[dict[str, Any]]:
    """Read the records of a JSONL file of evaluations; an empty list if there is no file.

    A last line that was written in part is ignored: the training was killed.
    """
    if not file.exists():
        return []
    *lines, last = read_text(file).split("\n")
    lines += [last] if last.endswith("}") else []
    try:
        records = [json.loads(line) for line in lines if line.strip()]
        if not all(isinstance(r, dict) and isinstance(r["stage"], str) and isinstance(r["step"], int) for r in records):
            raise ValueError("a line is not an evaluation")
        if file.name == TIMES and not all(is_time(record["seconds"]) for record in records):
            raise ValueError("a line has no time")
    except (ValueError, KeyError, RecursionError) as error:
        raise ModelError(f"damaged: {brief(error)}.", where=str(file), fix="Remove the file.") from None
    return records


def read_log(folder: Path) -> list[str]:
    """Return the messages of a training; an empty list if there is no file."""
    return read_text(folder / LOG).splitlines() if (folder / LOG).exists() else []


def is_time(value: object) -> bool:
    """Whether a value is a number of seconds."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def stage_seconds(folder: Path) -> dict[str, float]:
    """Return when each stage of a training wrote its last line, in seconds since the start."""
    return {record["stage"]: float(record["seconds"]) for record in read_journal(folder / TIMES)}


def training_seconds(folder: Path) -> float | None:
    """Return the wall time of the training: the last time that the run recorded, or None."""
    return next((float(record["seconds"]) for record in reversed(read_journal(folder / TIMES))), None)


def seal_journal(folder: Path) -> None:
    """Write the manifest of a run folder, when its training has ended."""
    write_manifest(folder, [folder / name for name in SEALED if (folder / name).exists()])


def changed_files(folder: Path) -> list[str]:
    """Return the files of a finished run that are not what the training wrote; the manifest if it is missing."""
    if not (folder / MANIFEST).exists():
        return [MANIFEST]
    manifest = read_json(folder / MANIFEST)
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict):
        raise ModelError("not a manifest.", where=str(folder / MANIFEST))
    entries = {name: files.get(name) for name in SEALED}
    written = {name: entry.get("sha256") if isinstance(entry, dict) else None for name, entry in entries.items()}
    return [name for name in SEALED if written[name] != (digest(folder / name) if (folder / name).exists() else None)]


def require_unchanged(folder: Path) -> None:
    """Refuse a run whose configuration or rows are not those of the training: what it measures would not be true."""
    if differ := [name for name in changed_files(folder) if name in (MANIFEST, CONFIG, DATA)]:
        what = f"{' and '.join(differ)} changed after the training: what would be measured is not this run."
        fix = "Restore the files, or train again. To decode otherwise, use --set."
        raise ModelError(what, where=str(folder), fix=fix)


# -- signatures ---------------------------------------------------------------------------------------------------


def sign_run(folder: Path, key: bytes) -> list[Path]:
    """Sign the model of a run, its records and its evaluations so far, or a saved model; return the signatures."""
    require_finished(folder)
    model = model_folder(folder)
    refuse_installed(model)
    read_header(model)  # refuses a folder without a model
    sign(model, [MANIFEST], key)
    if model == folder:
        return [model / SIGNATURE]
    sign(folder, records_of(folder), key)
    return [model / SIGNATURE, folder / SIGNATURE]


def changed_since_signed(folder: Path, key: bytes) -> list[str]:
    """Return the records and evaluations of a run that were changed, added or removed since it was signed."""
    present = records_of(folder)
    gone = [name for name in signed_files(folder, key) if name not in present]
    return sorted([*changed_since(folder, present, key), *gone])


def records_of(folder: Path) -> list[str]:
    """The files of a run folder that are signed beside its model, relative to the folder."""
    measured = sorted(f"{PREDICTIONS}/{file.name}" for file in (folder / PREDICTIONS).glob("*.json"))
    return [*(name for name in SEALED if (folder / name).is_file()), *measured]
