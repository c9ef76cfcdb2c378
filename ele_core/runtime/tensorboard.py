"""Evaluations as TensorBoard event files, from the same numbers as `metrics.jsonl`."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ele_core.errors import ConfigError
from ele_core.runtime.monitor import Monitor

FOLDER = "tensorboard"


def check_installed() -> None:
    """Refuse, before anything is trained, to log with a package that is not there."""
    writer_class()


def writer_class() -> Any:
    """The writer of event files that torch has, which needs the package tensorboard."""
    try:
        return importlib.import_module("torch.utils.tensorboard").SummaryWriter
    except ImportError:
        fix = "Install it with: pip install 'explicit-loss-embedding[tensorboard]'"
        raise ConfigError("the package tensorboard is not installed.", where="--log", fix=fix) from None


class TensorBoardMonitor(Monitor):
    """A scalar for each metric of an evaluation, named `STAGE/METRIC`, under `RUN/tensorboard`.

    `earlier` are the lines of `metrics.jsonl` that a resumed training goes on from. The event files are begun anew from
    them: a step that was taken again after the last checkpoint is not there twice.
    """

    def __init__(self, run: Path, earlier: Iterable[str] = ()) -> None:
        folder = run / FOLDER
        for file in folder.glob("events.out.tfevents.*"):
            file.unlink()
        self.writer = writer_class()(log_dir=str(folder))
        for line in earlier:
            record = json.loads(line)
            stage, step, best = record.pop("stage"), record.pop("step"), record.pop("best")
            self.evaluation(stage, step, record, best=best)

    def evaluation(self, stage: str, step: int, metrics: Mapping[str, float], *, best: bool = False) -> None:
        """One scalar a metric."""
        for name, value in metrics.items():
            self.writer.add_scalar(f"{stage}/{name}", value, step)
        self.writer.flush()

    def close(self) -> None:
        """End the file."""
        self.writer.close()
