"""Trained models that are installed as packages, by name.

A package provides a model by an entry point in the group `ele_models`, such as `smi2mol = "my_package"`. The
folder `model` inside that package is what `StructuredPredictor.save` wrote. The package is not imported: a model is
only data.
"""

from __future__ import annotations

import importlib.util
import shlex
from importlib.metadata import entry_points
from pathlib import Path

from ele_core.errors import ModelError

GROUP = "ele_models"


def installed_models() -> dict[str, Path]:
    """Return the folder of each installed model, by name."""
    found = {}
    for point in entry_points(group=GROUP):
        package = importlib.util.find_spec(point.value) if "." not in point.value else None
        for place in (package.submodule_search_locations or ()) if package else ():
            if (Path(place) / "model").is_dir():
                found[point.name] = Path(place) / "model"
    return found


def installed_name(folder: Path) -> str | None:
    """Return the name of the installed model in a folder; None: it is no such folder."""
    return next((name for name, place in installed_models().items() if place.resolve() == folder.resolve()), None)


def refuse_installed(folder: Path) -> None:
    """Refuse to write to the folder of an installed model, which belongs to its package."""
    if (name := installed_name(folder)) is not None:
        fix = f"Copy it, and give the copy: cp -r {shlex.quote(str(folder))} {shlex.quote(name)}"
        raise ModelError(f"this is the installed model '{name}', which is not changed.", where=str(folder), fix=fix)


def shown_name(folder: Path) -> str:
    """Return what to call a model: the name under which it is installed, else that of the folder of its run."""
    place = folder.resolve()
    return installed_name(folder) or (place.parent.name if place.name == "model" else place.name)


def model_folder(source: str | Path) -> Path:
    """Return the folder of a model: that inside a run, `source` itself, or that of an installed model of this name."""
    folder = Path(source)
    if (folder / "model").is_dir():
        return folder / "model"
    return folder if folder.exists() else installed_models().get(str(source), folder)
