"""The old module names of 0.1.0: imports from them keep working, with a `DeprecationWarning`."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

MOVED = {
    "archive": "files.archive",
    "blocks": "runtime.blockwise",
    "checkpoint": "runtime.checkpoint",
    "context": "runtime.context",
    "decoding": "components.decoders",
    "decoding.candidates": "components.decoders.candidates components.decoders.nearest",
    "devices": "runtime.device",
    "distributed": "runtime.distributed",
    "encoders": "components.encoders.flat",
    "evaluation": "model.evaluate",
    "hashing": "numerics.keys",
    "inputs": "components.inputs",
    "inputs.gru": "components.backbones.gru",
    "inputs.mlp": "components.backbones.mlp",
    "inputs.pooling": "components.backbones.pooling",
    "inputs.transformer": "components.backbones.transformer",
    "kept": "components.training.best_weights",
    "limits": "interfaces",
    "loading": "data.rejected data.prepare data.summary",
    "losses": "components.surrogates.losses",
    "mining": "components.surrogates.mining",
    "monitor": "runtime.monitor",
    "optimisation": "components.training.optimise",
    "outcomes": "runs.evaluations",
    "plugins.describe": "config.describe",
    "plugins.options": "config.resolve",
    "plugins.problems": "config.problems",
    "prediction": "model.predict",
    "predictions": "model.results",
    "projections": "numerics.projections",
    "ranges": "experiments.ranges",
    "records": "runs.records",
    "regression": "components.regressors",
    "reproduction": "experiments.reproduce",
    "resuming": "config.diff runs.folder runs.identity runs.training",
    "rows": "numerics.keys",
    "sets": "numerics.sets",
    "sheet": "display.sheet",
    "signals": "runtime.signals",
    "sketching": "components.sketching",
    "sparse": "numerics.sparse",
    "storage": "model.files",
    "study": "experiments.study",
    "surrogates": "components.surrogates",
    "sweep": "experiments.sweep",
    "tables": "files.tables",
    "tensorboard": "runtime.tensorboard",
    "tensors": "numerics.tensors",
    "trainer": "model.train",
    "tuning": "experiments.tune",
    "work": "runtime.work",
}
"""Old module → the modules that now define its names, all in `ele_core`. Submodules of a package moved with it."""
PACKAGE = "ele_core."


class OldModules:
    """An import finder and loader of stand-ins for moved modules. Python asks it after all other finders."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return the spec of a stand-in if `name` is an old module, else None."""
        homes = homes_of(name) if name.startswith(PACKAGE) else ()
        return ModuleSpec(name, self) if homes and find_spec(homes[0]) else None  # type: ignore[arg-type]  # a loader

    def create_module(self, spec: ModuleSpec) -> None:
        """Let Python create an empty module."""

    def exec_module(self, module: ModuleType) -> None:
        """Define the names of the old module in its stand-in; if the old module was a package, its submodules too."""
        homes = homes_of(module.__name__)
        vars(module)["__getattr__"] = old_names(module.__name__, homes)
        if hasattr(import_module(homes[0]), "__path__"):
            module.__path__ = []  # empty, so that the submodules too are looked for here


def homes_of(old: str) -> Sequence[str]:
    """Return the modules that now define the names of the module `old`; an empty list if it has not moved."""
    name = old.removeprefix(PACKAGE)
    package, _, module = name.rpartition(".")
    found = MOVED.get(name) or (f"{MOVED[package]}.{module}" if package in MOVED else "")
    return [PACKAGE + home for home in found.split()]


def old_names(old: str, homes: Sequence[str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for the module `old` that looks up names in its new `homes` and warns."""

    def look_up(name: str) -> Any:
        if not name.startswith("__") and not submodule(old, name):
            for home in homes:
                if hasattr(import_module(home), name):
                    better = "ele_core" if name in sys.modules["ele_core"].__all__ else home
                    text = f"`{name}` has moved from {old}: write `from {better} import {name}`."
                    warnings.warn(text, DeprecationWarning, stacklevel=2)
                    return getattr(import_module(home), name)
        raise AttributeError(f"module '{old}' has no attribute '{name}'")

    return look_up


def submodule(package: str, name: str) -> bool:
    """Whether a package has a submodule of this name, which Python imports if the attribute is missing."""
    return hasattr(sys.modules[package], "__path__") and find_spec(f"{package}.{name}") is not None
