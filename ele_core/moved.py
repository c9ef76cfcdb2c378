"""The modules of 0.1.0 under their old names: what imports from them keeps working, with a `DeprecationWarning`."""

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
"""Old module → the modules that have its names now, all inside `ele_core`. The submodules of a package follow it."""
PACKAGE = "ele_core."


class OldModules:
    """Finds and loads a stand-in for a module that has moved. It is asked last, for what no other finder has found."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """The stand-in for an old module; None for any other name."""
        homes = homes_of(name) if name.startswith(PACKAGE) else ()
        return ModuleSpec(name, self) if homes and find_spec(homes[0]) else None  # type: ignore[arg-type]  # a loader

    def create_module(self, spec: ModuleSpec) -> None:
        """An empty module, as Python makes it."""

    def exec_module(self, module: ModuleType) -> None:
        """Give the stand-in the names of the old module; if that was a package, submodules as well."""
        homes = homes_of(module.__name__)
        vars(module)["__getattr__"] = old_names(module.__name__, homes)
        if hasattr(import_module(homes[0]), "__path__"):
            module.__path__ = []  # empty, so that the submodules too are looked for here


def homes_of(old: str) -> Sequence[str]:
    """The modules that have the names of the module `old` now; none if it has not moved."""
    name = old.removeprefix(PACKAGE)
    package, _, module = name.rpartition(".")
    found = MOVED.get(name) or (f"{MOVED[package]}.{module}" if package in MOVED else "")
    return [PACKAGE + home for home in found.split()]


def old_names(old: str, homes: Sequence[str]) -> Callable[[str], Any]:
    """A `__getattr__` for the module `old` that looks a name up in its new `homes` and warns."""

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
