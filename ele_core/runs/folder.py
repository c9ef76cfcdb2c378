"""The layout of a run's folder: what its files are called, whether it is free, begun or finished."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from ele_core import config as configuration
from ele_core.config.schema import RunConfig
from ele_core.errors import ConfigError, ModelError, UnknownComponent
from ele_core.files.archive import read_json
from ele_core.runtime.checkpoint import numbered

CHECKPOINTS = "checkpoints"


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


IDENTITY = "identity.json"
"""What a run is trained with: options, data, versions. What must not change under it."""


def config_of(folder: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """A run's configuration; where it cannot be used here, with the versions that the run was begun with."""
    try:
        return configuration.load(folder / "config.toml", overrides)
    except (UnknownComponent, ConfigError) as error:
        try:
            brought = read_json(folder / IDENTITY)["versions"].items()
        except (ModelError, KeyError, TypeError, AttributeError):
            raise error from None
        begun = f"The run was begun with {', '.join(f'{name} {version}' for name, version in sorted(brought))}."
        raise type(error)(error.what, where=error.where, fix=f"{error.fix or ''} {begun}".strip()) from None
