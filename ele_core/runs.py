"""A run as a folder: configuration, data, metrics, model and predictions of one training."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from ele_core import __version__
from ele_core import config as configuration
from ele_core.config import RunConfig
from ele_core.context import Context
from ele_core.data import DataSet
from ele_core.devices import pick_device
from ele_core.errors import ConfigError, DataError, ModelError
from ele_core.evaluation import Evaluation, evaluate
from ele_core.files import write_text
from ele_core.interfaces import Reference, Task
from ele_core.loading import Prepared, prepare
from ele_core.model import Model
from ele_core.monitor import FileMonitor, Monitor, Monitors
from ele_core.plugins import registry
from ele_core.storage import load_model, save_model
from ele_core.trainer import assemble, fit

DECODING = ("decoder", "candidates", "device")
"""The sections of a configuration that matter after training."""


class Run:
    """A folder that `start` made: `config.toml`, `data.json`, `metrics.jsonl`, `model/`, `predictions/`."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not (self.folder / "config.toml").is_file() or not (self.folder / "model").is_dir():
            fix = "Give a folder that `ele train -o FOLDER` finished."
            raise ModelError("not a finished run.", where=str(folder), fix=fix)

    @classmethod
    def start(cls, config: RunConfig, folder: Path, monitor: Monitor) -> Run:
        """Train into `folder`, which must be new or empty; nothing is written before the training can begin."""
        check_free(folder)
        context = Context(config.seed, pick_device(config.device), monitor)
        prepared = prepare(config, context)
        model = assemble(prepared, context)
        monitor.message(summary(prepared))
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / "config.toml", configuration.dump(prepared.config))
        write_text(folder / "data.json", json.dumps(provenance(prepared.data)) + "\n")
        context = dataclasses.replace(context, monitor=Monitors(monitor, FileMonitor(folder)))
        save_model(fit(model, prepared, context), folder / "model")
        return cls(folder)

    @cached_property
    def config(self) -> RunConfig:
        """The resolved configuration of the training."""
        return configuration.load(self.folder / "config.toml")

    def references(self) -> Sequence[Reference]:
        """Published results of the run's task, if it trained on the task's own data."""
        if self.config.task is None or self.config.data is not None:
            return ()
        task: type[Task] = registry().get("task", self.config.task.name)
        return task.references

    def model(self, overrides: Sequence[str] = ()) -> Model:
        """The trained model; `overrides` may change how it decodes, nothing that was settled by training."""
        config = configuration.load(self.folder / "config.toml", overrides)
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
        try:
            used = json.loads((self.folder / "data.json").read_text("utf-8"))
            rows = [torch.tensor(used[name], dtype=torch.long) for name in ("train", "validation", "test")]
            fingerprint = used["fingerprint"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelError(f"damaged: {error}.", where=str(self.folder / "data.json")) from None
        if fingerprint != prepared.data.fingerprint:
            what = f"{prepared.data.source} has changed since the training."
            raise DataError(
                what, where=str(self.folder), fix="Evaluate on the data it was trained with, or train again."
            )
        return dataclasses.replace(prepared, data=prepared.data.with_split(*rows))

    def evaluate(
        self,
        *,
        oracle: bool = False,
        split: str = "test",
        limit: int | None = None,
        overrides: Sequence[str] = (),
        monitor: Monitor,
    ) -> Evaluation:
        """Measure the model on a split of its own data and write each prediction to `predictions/`."""
        model = self.model(overrides)
        context = Context(self.config.seed, pick_device(model.config.device), monitor)
        prepared = self.data(context)
        rows = getattr(prepared.data, split)[:limit]
        inputs, outputs = prepared.data.inputs_at(rows), prepared.data.outputs[rows]
        result = evaluate(model, inputs, outputs, oracle=oracle, context=context)
        name = f"{split}-{model.config.decoder.name}{'-oracle' if oracle else ''}.csv"
        table = prediction_rows(model, inputs, result)
        write_text(self.folder / "predictions" / name, as_csv(table))
        return result


def check_free(folder: Path) -> None:
    """Refuse a folder that holds something already."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        fix = "Choose another with -o, or remove it."
        raise ModelError("there is something there already.", where=str(folder), fix=fix)


def free_folder(parent: Path, name: str) -> Path:
    """The first of NAME-1, NAME-2, … that does not exist."""
    number = 1
    while (parent / f"{name}-{number}").exists():
        number += 1
    return parent / f"{name}-{number}"


def summary(prepared: Prepared) -> str:
    """One line on what will be trained on."""
    data = prepared.data
    extra = f", {len(data.extra):,} extra outputs" if data.extra is not None else ""
    left_out = f", {len(data.rejected):,} rows left out" if data.rejected else ""
    sizes = f"{len(data.train):,} training, {len(data.validation):,} validation, {len(data.test):,} test pairs"
    return f"{data.source}: {sizes}{extra}{left_out}"


def provenance(data: DataSet) -> dict[str, Any]:
    """What data.json holds: where the data came from, how they were split, and which rows were left out and why."""
    return {
        "ele": __version__,
        "source": data.source,
        "fingerprint": data.fingerprint,
        "train": data.train.tolist(),
        "validation": data.validation.tolist(),
        "test": data.test.tolist(),
        "rejected": [dataclasses.asdict(rejected) for rejected in data.rejected],
    }


def prediction_rows(model: Model, inputs: Sequence[Any], result: Evaluation) -> list[dict[str, Any]]:
    """One mapping an example: input, prediction, truth, energy and each metric."""
    format_ = model.space.format
    predicted = map(format_, model.space.unpack(result.decoding.best))
    true = map(format_, model.space.unpack(result.truths))
    energies = result.decoding.energies[:, 0].tolist()
    rows = [
        {"input": model.inputs.format(x), "prediction": p, "truth": t, "energy": f"{e:.6g}"}
        for x, p, t, e in zip(inputs, predicted, true, energies, strict=True)
    ]
    for name, values in result.values.items():
        for row, value in zip(rows, values.tolist(), strict=True):
            row[name] = f"{value:g}"
    return rows


def as_csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None) -> str:
    """Mappings with the same keys as CSV text with a header; `columns` name it where there may be no rows."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, columns or list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()
