"""Trained models that are installed as packages, by name.

A package provides a model by an entry point in the group `ele_models`, such as `smi2mol-small = "my_package"`. The
folder `model` inside that package is what `StructuredPredictor.save` wrote. The package is not imported: a model is
only data.
"""

from __future__ import annotations

import importlib.util
from importlib.metadata import entry_points
from pathlib import Path

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


def model_folder(source: str | Path) -> Path:
    """Return the folder of a model: that inside a run, `source` itself, or that of an installed model of this name."""
    folder = Path(source)
    if (folder / "model").is_dir():
        return folder / "model"
    return folder if folder.exists() else installed_models().get(str(source), folder)
