"""Evaluations as TensorBoard event files, from the same numbers as `metrics.jsonl`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ele_core.extras import missing
from ele_core.files.atomic import free_folder
from ele_core.runtime.monitor import Callback

FOLDER = "tensorboard"


class TensorBoard(Callback):
    """A callback that writes each metric of an evaluation as the scalar `STAGE/METRIC` into `RUN/tensorboard`.

    A training without a run folder writes into a new subfolder `fit-1`, `fit-2`, … of `folder`, by default of
    `tensorboard` in the working directory. A resumed run writes its event files again from the earlier evaluations:
    steps repeated after the last checkpoint do not appear twice.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = folder
        self.writer_class = writer_class()
        self.writer: Any = None

    def start(self, folder: Path | None, earlier: Sequence[Mapping[str, Any]]) -> None:
        """Start new event files with the earlier evaluations."""
        target = self._folder(folder)
        self.writer = self.writer_class(log_dir=str(target))
        for evaluation in earlier:
            metrics = {name: value for name, value in evaluation.items() if name not in ("stage", "step", "best")}
            self.evaluation(evaluation["stage"], evaluation["step"], metrics, best=evaluation["best"])

    def _folder(self, run: Path | None) -> Path:
        """`RUN/tensorboard`, emptied of event files; without a run, a new subfolder such as `tensorboard/fit-1`."""
        if run is None or self.folder is not None:
            return free_folder(Path(self.folder or FOLDER), "fit")
        for file in (run / FOLDER).glob("events.out.tfevents.*"):
            file.unlink()
        return run / FOLDER

    def evaluation(self, stage: str, step: int, metrics: Mapping[str, float], *, best: bool = False) -> None:
        """Write one scalar per metric."""
        for name, value in metrics.items():
            self.writer.add_scalar(f"{stage}/{name}", value, step)
        self.writer.flush()

    def end(self) -> None:
        """Close the event file."""
        self.writer.close()


def writer_class() -> Any:
    """The class of torch that writes event files; it needs the package tensorboard."""
    try:
        return importlib.import_module("torch.utils.tensorboard").SummaryWriter
    except ImportError:
        raise missing("--log", "tensorboard", "tensorboard") from None
