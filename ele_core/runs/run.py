"""Open a trained model: a run with its data and evaluations, or a folder or an installed package with a model alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ele_core.config import Overrides, RunConfig, load, with_output
from ele_core.config.diff import changes, refuse_training_changes, training_options
from ele_core.data.prepare import Prepared, prepare
from ele_core.errors import ConfigError, DataError, ModelError
from ele_core.interfaces import OutputSpace
from ele_core.model.evaluate import Evaluation, behind, evaluate
from ele_core.model.files import load_model, read_config
from ele_core.model.model import Model
from ele_core.model.pretrained import installed_name, model_folder
from ele_core.plugins import Registry
from ele_core.runs import folder as layout
from ele_core.runs.measurements import MeasuredBaselines, Settings, StoredEvaluation, find, settings_of, store
from ele_core.runs.resumable import resumable, work_key
from ele_core.runs.training import resume, start
from ele_core.runtime.checkpoint import EVERY
from ele_core.runtime.context import Context
from ele_core.runtime.device import pick_device
from ele_core.runtime.distributed import Processes, process_group
from ele_core.runtime.monitor import Callback, Monitor, with_callbacks
from ele_core.sources import Task
from ele_core.types import Reference

Source = RunConfig | str | Path | Mapping[str, Any]
"""A resolved configuration, or what `load_config` takes: a TOML file, a task's name or a mapping."""


def open_model(source: Any, registry: Registry | None = None, where: str = "model") -> Opened:
    """Open a trained model.

    `source` is a run folder, a folder that `StructuredPredictor.save` wrote, the name of an installed model, a `Run`, a
    fitted predictor, or the model itself. An error names `where` it was given.
    """
    if isinstance(source, Opened):
        return source
    model = source if isinstance(source, Model) else getattr(source, "model_", None)
    if isinstance(model, Model):
        return Opened("", registry, model)
    if not isinstance(source, str | Path):
        what = f"got {type(source).__name__}; give a fitted StructuredPredictor, a Run, or the folder of one."
        raise ConfigError(what, where=where)
    run = (Path(source) / layout.CONFIG).exists()
    return Run(source, registry) if run else Opened(model_folder(source), registry)


class Opened:
    """A trained model: its configuration, output space and model, each made once, when it is first needed.

    The model is loaded from `folder` unless it is given. Names are looked up in `registry`, by default in the installed
    plugins.
    """

    def __init__(self, folder: str | Path, registry: Registry | None = None, model: Model | None = None) -> None:
        self.folder = Path(folder)
        self.registry = registry
        self._given = self._model = model

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.folder)!r})"

    @property
    def name(self) -> str:
        """Where it can be opened again: the name of an installed model, or its folder."""
        if self._given is not None:
            return "a fitted predictor"
        return installed_name(self.folder) or str(self.folder.resolve())

    @cached_property
    def config(self) -> RunConfig:
        """The resolved configuration of the training."""
        return self._read_config(()) if self._given is None else self._given.config

    @cached_property
    def space(self) -> OutputSpace[Any, Any]:
        """The output space."""
        if self._given is not None:
            return self._given.space
        space: OutputSpace[Any, Any] = self.config.registry.create("output", self.config.output, path="output")
        return space

    def decoding_config(self, overrides: Overrides = ()) -> RunConfig:
        """Return the configuration with `overrides`, which may change only how the model decodes."""
        if not overrides:
            return self.config
        trained = self.config
        config = self._read_config(overrides)
        refuse_training_changes(trained, config)
        return config

    def model(self, overrides: Overrides = (), device: torch.device | None = None) -> Model:
        """Return the trained model; `overrides` may change only how it decodes."""
        config = self.decoding_config(overrides)
        device = device or pick_device(config.device)
        if self._model is None or (self._model.device != device and self._given is None):
            self._model = load_model(self._model_folder, device, config=self.config)
        return dataclasses.replace(self._model, config=config)

    def resumable(
        self, model: Model, settings: Any, context: Context, every: float = EVERY
    ) -> AbstractContextManager[Context]:
        """Return a context for long work with the model, which continues after a stop if it is started again.

        `settings` are everything else that the results depend on. Nothing is written beside an installed model.
        """
        if installed_name(self.folder) is not None:
            return nullcontext(context)
        return resumable(self.folder, work_key(self.folder, model.config, settings), context, every)

    @property
    def _model_folder(self) -> Path:
        return self.folder

    def _read_config(self, overrides: Overrides) -> RunConfig:
        return read_config(self.folder, self.registry, overrides)


class Run(Opened):
    """A finished run: `config.toml`, `data.json`, `metrics.jsonl`, `model/`, `predictions/`.

    Model and data are loaded once, when they are first needed.
    """

    def __init__(self, folder: str | Path, registry: Registry | None = None) -> None:
        super().__init__(layout.finished_folder(Path(folder)), registry)
        self._prepared: Prepared | None = None
        self._evaluations: dict[str, StoredEvaluation] = {}
        self._baselines = MeasuredBaselines()

    @classmethod
    def start(
        cls,
        config: Source,
        folder: str | Path,
        monitor: Monitor | None = None,
        *,
        callbacks: Sequence[Callback] = (),
        every: float = EVERY,
        surrogate_from: Run | None = None,
        again: bool = False,
    ) -> Run:
        """Train into `folder`, which must be new or empty; nothing is written before the data are checked.

        `callbacks` are notified of events; `every` is the time between checkpoints in seconds; `surrogate_from` is a
        run whose trained surrogate is used instead of training a new one. With `again`, a run that was begun in
        `folder` with the same data and options is continued.
        """
        config, folder, told = as_config(config), Path(folder), with_callbacks(monitor or Monitor(), callbacks)
        with process_group() as processes:
            context = context_for(config, told, processes)
            trained = start(config, folder, context, surrogate_from=surrogate_from, every=every, again=again)
            return cls._trained(layout.brought(folder, processes), config.registry, *trained)

    @classmethod
    def resume(
        cls,
        folder: str | Path,
        monitor: Monitor | None = None,
        *,
        callbacks: Sequence[Callback] = (),
        every: float = EVERY,
        accept_changes: bool = False,
        overrides: Overrides = (),
        registry: Registry | None = None,
    ) -> Run:
        """Continue a training that was stopped; with `accept_changes`, `overrides` may change training options."""
        folder, told = Path(folder), with_callbacks(monitor or Monitor(), callbacks)
        with process_group() as processes:
            folder = layout.brought(folder, processes)
            if not layout.unfinished(folder):
                return cls._finished(folder, overrides, registry, told)
            config = layout.read_config(folder, overrides, registry)
            context = context_for(config, told, processes)
            trained = resume(config, folder, context, accept_changes=accept_changes, every=every)
            return cls._trained(layout.brought(folder, processes), config.registry, *trained)

    @classmethod
    def _finished(cls, folder: Path, overrides: Overrides, registry: Registry | None, monitor: Monitor) -> Run:
        """Return a run that has finished, unless `overrides` would change its training."""
        run = cls(folder, registry)
        then, now = run.config, layout.read_config(folder, overrides, registry)
        if differ := changes(training_options(then), training_options(now)):
            what = f"this run has finished, its training options cannot change: {'; '.join(differ.values())}."
            raise ModelError(what, where=str(folder), fix="Train again in another folder.")
        layout.remove_checkpoints(folder)
        monitor.message("this run has finished already: there is nothing to do")
        return run

    @classmethod
    def _trained(cls, folder: Path, registry: Registry, model: Model, prepared: Prepared) -> Run:
        """Return a run that was trained in this process, without loading its model and data again."""
        run = cls(folder, registry)
        run._model, run._prepared = model, prepared
        return run

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """Where the data came from and how they were split, as the training recorded it in data.json."""
        return layout.read_data(self.folder)

    def references(self) -> Sequence[Reference]:
        """Return the published results of the run's task, if the run was trained on the task's own data."""
        if self.config.task is None or self.config.data is not None:
            return ()
        task: type[Task] = self.config.registry.get("task", self.config.task.name)
        return task.references

    def surrogate_for(self, config: RunConfig) -> Mapping[str, Tensor]:
        """Return the weights of this run's surrogate, for a run with the same options of `output` and `surrogate`."""
        model = self.model()
        then, now = training_options(with_output(self.config, model.space.config)), training_options(config)
        parts = ("output.", "surrogate.")
        differ = [text for path, text in changes(then, now).items() if path.startswith(parts)]
        if differ:
            what = f"its surrogate cannot be used, the configuration differs: {'; '.join(differ)}."
            fix = "Give `output` and `surrogate` the same options as in that run."
            raise ConfigError(what, where=str(self.folder), fix=fix)
        return model.surrogate.state()

    def data(self, context: Context) -> Prepared:
        """Return the data of the training, in the same split; refuse data that have changed since."""
        if self._prepared is None:
            self._prepared = self._read_data(context)
        return self._prepared

    def _read_data(self, context: Context) -> Prepared:
        used = self.provenance
        layout.require_unchanged(self.folder)
        prepared = prepare(self.config, context, start=None if self.config.start is None else self.model())
        if used["fingerprint"] != prepared.data.fingerprint:
            what = f"{prepared.data.source} has changed since the training."
            fix = "Evaluate on the data it was trained with, or train again."
            raise DataError(what, where=str(self.folder), fix=fix)
        rows = layout.split_rows(self.folder, used, len(prepared.data))
        return dataclasses.replace(prepared, data=prepared.data.with_split(*rows))

    def evaluate(
        self,
        *,
        oracle: bool = False,
        split: str = "test",
        limit: int | None = None,
        given: Sequence[str] = (),
        overrides: Overrides = (),
        every: float = EVERY,
        monitor: Monitor | None = None,
    ) -> Evaluation:
        """Measure the model on a split of its own data and write each prediction to `predictions/`.

        `given` names constraints, such as `("formula",)`, that predictions must satisfy as the truths do.

        An evaluation that was stopped continues when it is called again with the same arguments.
        """
        model = self.model(overrides)
        with process_group() as processes:
            context = context_for(model.config, monitor, processes)
            with processes.main_first():
                prepared = self.data(context)
            rows, truths = prepared.examples(split, limit)
            inputs = prepared.data.inputs_at(rows)
            settings = settings_of(split, limit, oracle, given)
            with self.resumable(model, settings, context, every) as kept:
                result = evaluate(model, inputs, truths, oracle=oracle, given=given, context=kept)
                if not oracle:
                    found = self._baselines(prepared, rows, truths, kept)
                    told = behind(model.space, result.metrics, found)
                    result = dataclasses.replace(result, baselines=found, behind=told)
                if processes.main:
                    key, table = work_key(self.folder, model.config, settings), result.rows(model, inputs)
                    self._evaluations[key] = store(self.folder, key, settings, model.config, table, result)
        return result

    def evaluation(self, model: Model, settings: Settings) -> StoredEvaluation | None:
        """Return the evaluation that was stored for this model and these settings, or None."""
        key = work_key(self.folder, model.config, settings)
        return self._evaluations.get(key) or find(self.folder, key)

    def stored(
        self, split: str, limit: int | None, oracle: bool, overrides: Overrides = (), given: Sequence[str] = ()
    ) -> StoredEvaluation | None:
        """Return the evaluation that `evaluate` with these arguments would repeat; loads no model and no data."""
        layout.require_unchanged(self.folder)
        settings = settings_of(split, limit, oracle, given)
        return find(self.folder, work_key(self.folder, self.decoding_config(overrides), settings))

    @property
    def _model_folder(self) -> Path:
        return self.folder / layout.MODEL

    def _read_config(self, overrides: Overrides) -> RunConfig:
        return layout.read_config(self.folder, overrides, self.registry)


def as_config(source: Source) -> RunConfig:
    """Load `source` unless it is a resolved configuration already."""
    return source if isinstance(source, RunConfig) else load(source)


def context_for(config: RunConfig, monitor: Monitor | None, processes: Processes) -> Context:
    """Return the context of a configuration; of several processes only the main one reports."""
    shown = monitor if processes.main and monitor is not None else Monitor()
    return Context(config.seed, pick_device(config.device), shown, processes=processes)
