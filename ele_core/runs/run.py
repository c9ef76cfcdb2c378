"""A run as a folder: configuration, data, metrics, model and predictions of one training."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ele_core import config as configuration
from ele_core.config import RunConfig
from ele_core.config.diff import DECODING, changes, settled
from ele_core.data.prepare import Prepared, prepare
from ele_core.data.summary import summary
from ele_core.errors import ConfigError, DataError, Locked, ModelError
from ele_core.files.archive import MANIFEST, brief, digest, read_json, regular
from ele_core.files.locks import locked
from ele_core.interfaces import Reference, Task
from ele_core.model.evaluate import Evaluation, evaluate, prediction_rows
from ele_core.model.files import load_model
from ele_core.model.model import Model
from ele_core.model.train import assemble
from ele_core.plugins import registry
from ele_core.runs.evaluations import Outcome, Settings, keep, kept
from ele_core.runs.folder import CHECKPOINTS, check_free, config_of, remove_checkpoints, unfinished
from ele_core.runs.identity import versions
from ele_core.runs.training import begin, train_in
from ele_core.runtime.checkpoint import EVERY, Checkpoints
from ele_core.runtime.context import Context
from ele_core.runtime.device import pick_device
from ele_core.runtime.distributed import Processes, joined
from ele_core.runtime.monitor import Monitor
from ele_core.runtime.signals import Stop

SPLITS = ("train", "validation", "test")
LARGEST_DATA = 1 << 30
"""Bytes of the largest data.json, which names every row."""


class Run:
    """A finished run: `config.toml`, `data.json`, `metrics.jsonl`, `model/`, `predictions/`."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if unfinished(self.folder):
            fix = f"Finish it with: ele resume {folder}"
            raise ModelError("this run has not finished.", where=str(folder), fix=fix)
        if not (self.folder / "config.toml").is_file() or not (self.folder / "model").is_dir():
            fix = "Give a folder that `ele train -o FOLDER` wrote."
            raise ModelError("there is no run here.", where=str(folder), fix=fix)
        regular(self.folder / "config.toml")

    @classmethod
    def start(
        cls,
        config: RunConfig,
        folder: Path,
        monitor: Monitor,
        *,
        every: float = EVERY,
        surrogate_from: Run | None = None,
        log: str | None = None,
    ) -> Run:
        """Train into `folder`, which must be new or empty; nothing is written before the training can begin."""
        with joined() as processes:
            context = context_for(config, monitor, processes)
            if processes.main:
                check_free(folder)
            with processes.main_first():
                prepared = prepare(config, context)
            assemble(prepared, context)
            context.monitor.message(summary(prepared))
            surrogate = None if surrogate_from is None else surrogate_from.surrogate_for(prepared.config)
            donor = None if surrogate_from is None else surrogate_from.folder.resolve().name
            begin(folder, prepared, context, surrogate, donor)
            processes.wait()
            train_in(folder, prepared, context, every=every, log=log)
        return cls(folder)

    @classmethod
    def resume(
        cls,
        folder: Path,
        monitor: Monitor,
        *,
        every: float = EVERY,
        accept_changes: bool = False,
        overrides: Sequence[str] = (),
        log: str | None = None,
    ) -> Run:
        """Go on with a training that was stopped; `overrides` may change how it trains, if changes are accepted."""
        if not unfinished(folder):
            run = cls(folder)
            if differ := changes(settled(run.config), settled(config_of(folder, overrides))):
                what = f"this run has finished, nothing of its training can change: {'; '.join(differ.values())}."
                raise ModelError(what, where=str(folder), fix="Train anew in another folder.")
            remove_checkpoints(folder)
            monitor.message("this run has finished already: there is nothing to do")
            return run
        with joined() as processes:
            config = config_of(folder, overrides)
            context = context_for(config, monitor, processes)
            if config.data is None and config.task is None:
                fix = "Call fit again with the same arguments and run=…: it goes on from the last checkpoint."
                raise ModelError("this run was started from Python, which has its data.", where=str(folder), fix=fix)
            with processes.main_first():
                prepared = prepare(config, context)
            train_in(folder, prepared, context, every=every, accept_changes=accept_changes, log=log)
        return cls(folder)

    @cached_property
    def config(self) -> RunConfig:
        """The resolved configuration of the training."""
        return config_of(self.folder)

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """Where the data came from and how they were split, as the training wrote it down."""
        file = self.folder / "data.json"
        used = read_json(file, LARGEST_DATA)
        kinds = {"source": str, "fingerprint": str, **dict.fromkeys((*SPLITS, "rejected"), list)}
        if not isinstance(used, dict) or not all(isinstance(used.get(key), kind) for key, kind in kinds.items()):
            raise ModelError("damaged: not the data of a run.", where=str(file))
        return used

    def references(self) -> Sequence[Reference]:
        """Published results of the run's task, if it trained on the task's own data."""
        if self.config.task is None or self.config.data is not None:
            return ()
        task: type[Task] = registry().get("task", self.config.task.name)
        return task.references

    def surrogate_for(self, config: RunConfig) -> Mapping[str, Tensor]:
        """The weights of this run's surrogate, for another run with the same one on the same outputs."""
        model = self.model()
        then, now = settled(configuration.with_output(self.config, model.space.config)), settled(config)
        parts = ("output.", "surrogate.")
        differ = [text for path, text in changes(then, now).items() if path.startswith(parts)]
        if differ:
            what = f"its surrogate cannot be used, the configuration differs: {'; '.join(differ)}."
            raise ConfigError(what, where=str(self.folder), fix="Leave `output` and `surrogate` as they are there.")
        return model.surrogate.state()

    def model(self, overrides: Sequence[str] = ()) -> Model:
        """The trained model; `overrides` may change how it decodes, nothing that was settled by training."""
        config = config_of(self.folder, overrides)
        settled = [name for name in RunConfig.model_fields if name not in DECODING]
        changed = [name for name in settled if getattr(config, name) != getattr(self.config, name)]
        if changed:
            what = f"{', '.join(changed)} cannot change after training."
            raise ConfigError(what, where="--set", fix=f"What can: {', '.join(DECODING)}.")
        model = load_model(self.folder / "model", pick_device(config.device))
        model.config = config
        return model

    def data(self, context: Context) -> Prepared:
        """The data of the training again, with the split that was used; refused if the data have changed."""
        prepared = prepare(self.config, context)
        used = self.provenance
        if used["fingerprint"] != prepared.data.fingerprint:
            what = f"{prepared.data.source} has changed since the training."
            fix = "Evaluate on the data it was trained with, or train again."
            raise DataError(what, where=str(self.folder), fix=fix)
        try:
            rows = [rows_of(used[name], len(prepared.data)) for name in SPLITS]
        except ValueError as error:
            raise ModelError(f"damaged: {brief(error)}.", where=str(self.folder / "data.json")) from None
        return dataclasses.replace(prepared, data=prepared.data.with_split(*rows))

    def evaluate(
        self,
        *,
        oracle: bool = False,
        split: str = "test",
        limit: int | None = None,
        overrides: Sequence[str] = (),
        every: float = EVERY,
        monitor: Monitor,
    ) -> Evaluation:
        """Measure the model on a split of its own data and write each prediction to `predictions/`.

        A measurement that was stopped goes on when it is asked for again.
        """
        model = self.model(overrides)
        with joined() as processes:
            context = context_for(model.config, monitor, processes)
            with processes.main_first():
                prepared = self.data(context)
            chosen = getattr(prepared.data, split)[:limit]
            inputs, outputs = prepared.data.inputs_at(chosen), prepared.data.outputs[chosen]
            settings = {"split": split, "limit": limit, "oracle": oracle}
            with self.resumable(model, settings, context, every) as resumable:
                result = evaluate(model, inputs, outputs, oracle=oracle, context=resumable)
                if processes.main:
                    rows = prediction_rows(model, inputs, result)
                    keep(self.folder, self._name_of(model, settings), settings, model.config, rows, result)
        return result

    def outcome(self, model: Model, settings: Settings) -> Outcome | None:
        """What `evaluate` found with this model and these settings, if it was asked before."""
        return kept(self.folder, self._name_of(model, settings), model.config.decoder.name, settings)

    @contextmanager
    def resumable(self, model: Model, settings: Any, context: Context, every: float = EVERY) -> Iterator[Context]:
        """A context for long work with this run's model: stopped, it goes on when the same is asked for again.

        `settings` are what else the outcome depends on. The state is removed when the block ends well: write the
        outcome inside. Where the folder cannot be written, or another process does the same, no state is kept.
        """
        folder = self.folder / CHECKPOINTS / self._name_of(model, settings)
        with ExitStack() as stack:
            refused = ""
            try:
                if context.processes.main:
                    stack.enter_context(locked(folder.with_suffix(".lock"), "doing the same"))
            except (Locked, OSError) as error:
                refused = str(error)
            if context.processes.largest(len(refused)):
                context.monitor.message(f"no state is kept of this: {refused}")
                yield context
                return
            work = Checkpoints(
                folder,
                advice="Continue with the same command.",
                every=every,
                monitor=context.monitor,
                processes=context.processes,
                stop=stack.enter_context(Stop().listening()),
            )
            if work.load():
                context.monitor.message("going on where the same command was stopped")
            try:
                yield dataclasses.replace(context, work=work)
            except OSError:  # the outcome could not be written: it is kept for the next try
                work.save()
                raise
            work.clear()
        if context.processes.main:
            with suppress(OSError):  # another one is still going on
                folder.parent.rmdir()

    def _name_of(self, model: Model, settings: Any) -> str:
        """A name for work on this model: the same for the same work."""
        decoding = {name: getattr(model.config, name) for name in DECODING}
        same = {
            "model": digest(self.folder / "model" / MANIFEST),
            "decoding": {k: v if isinstance(v, str) else v.model_dump(mode="json") for k, v in decoding.items()},
            "settings": settings,
            "versions": versions(model.config),
        }
        return hashlib.sha256(json.dumps(same, sort_keys=True).encode()).hexdigest()[:16]


def rows_of(numbers: list[Any], count: int) -> Tensor:
    """The numbers of some of `count` rows, as data.json has them; `ValueError` where they are none."""
    if not all(type(n) is int and 0 <= n < count for n in numbers):
        raise ValueError(f"a split is a list of rows, each from 0 to {count - 1}")
    return torch.tensor(numbers, dtype=torch.long)


def context_for(config: RunConfig, monitor: Monitor, processes: Processes) -> Context:
    """The context of a configuration; of several processes only the main one reports."""
    shown = monitor if processes.main else Monitor()
    return Context(config.seed, pick_device(config.device), shown, processes=processes)
