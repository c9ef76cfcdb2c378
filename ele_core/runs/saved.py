"""A model that `StructuredPredictor.save` wrote, opened to predict with it."""

from __future__ import annotations

import dataclasses
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from ele_core import config as configuration
from ele_core.config.diff import refuse_training_changes
from ele_core.model.files import load_model, read_config, read_header
from ele_core.model.model import Model
from ele_core.plugins import Registry
from ele_core.runs.folder import CONFIG
from ele_core.runs.long_work import resumable, work_key
from ele_core.runs.run import Run
from ele_core.runtime.checkpoint import EVERY
from ele_core.runtime.context import Context, pick_device


class SavedModel:
    """The folder of a saved model; it has the methods of `Run` that need no data."""

    def __init__(self, folder: str | Path, registry: Registry | None = None) -> None:
        self.folder = Path(folder)
        self.registry = registry

    def model(self, overrides: configuration.Overrides = ()) -> Model:
        """Return the model; `overrides` may change only how it decodes."""
        stored = read_config(self.folder, self.registry)
        config = configuration.load(read_header(self.folder)["config"], overrides, self.registry)
        refuse_training_changes(stored, config)
        model = load_model(self.folder, pick_device(config.device), self.registry)
        return dataclasses.replace(model, config=config)

    def resumable(
        self, model: Model, settings: Any, context: Context, every: float = EVERY
    ) -> AbstractContextManager[Context]:
        """Return a context for long work with the model, as `Run.resumable` does."""
        return resumable(self.folder, work_key(self.folder, model.config, settings), context, every)


def open_model(folder: str | Path, registry: Registry | None = None) -> Run | SavedModel:
    """Open a run, or a model that `StructuredPredictor.save` wrote."""
    folder = Path(folder)
    saved = (folder / "config.json").is_file() and not (folder / CONFIG).exists()
    return SavedModel(folder, registry) if saved else Run(folder, registry)
