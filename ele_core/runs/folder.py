"""The layout of a run folder: the names of its files, and whether it is free, unfinished or finished."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ele_core import __version__
from ele_core import config as configuration
from ele_core.config import Overrides, RunConfig
from ele_core.errors import ConfigError, ModelError, UnknownComponent
from ele_core.files.archive import read_json, regular
from ele_core.plugins import Registry
from ele_core.runtime.checkpoint import numbered

CONFIG = "config.toml"
DATA = "data.json"
MODEL = "model"
CHECKPOINTS = "checkpoints"
IDENTITY = "identity.json"
"""The options, data and versions that a run is trained with, which must not change while it is resumed."""
SPLITS = ("train", "validation", "test", "calibration")
LARGEST_DATA = 1 << 30
"""Bytes of the largest data.json, which lists every row."""


def check_free(folder: Path) -> None:
    """Refuse a folder that is not empty or cannot be created."""
    if unfinished(folder):
        fix = f"Continue with: ele resume {folder}. Or choose another folder, or remove this one."
        raise ModelError("there is an unfinished run.", where=str(folder), fix=fix)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        fix = "Choose another with -o, or remove it."
        raise ModelError("the folder is not empty.", where=str(folder), fix=fix)
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
    return used


def split_rows(folder: Path, used: Mapping[str, Any], count: int) -> list[Tensor]:
    """The training, validation, test and calibration rows that data.json lists, each below `count`."""
    lists = [used[name] for name in SPLITS]
    if not all(type(row) is int and 0 <= row < count for rows in lists for row in rows):
        what = f"damaged: a split is a list of rows, each from 0 to {count - 1}."
        raise ModelError(what, where=str(folder / DATA))
    return [torch.tensor(rows, dtype=torch.long) for rows in lists]


def finished_folder(folder: Path) -> Path:
    """Return `folder` if it holds a finished run; refuse anything else."""
    if unfinished(folder):
        raise ModelError("this run has not finished.", where=str(folder), fix=f"Finish it with: ele resume {folder}")
    if not (folder / CONFIG).is_file() or not (folder / MODEL).is_dir():
        fix = "Give a folder that `ele train -o FOLDER` wrote."
        raise ModelError("there is no run here.", where=str(folder), fix=fix)
    regular(folder / CONFIG)
    return folder
