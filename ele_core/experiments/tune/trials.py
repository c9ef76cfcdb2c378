"""One trial of a search: a run with the drawn options, measured on validation pairs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ele_core.config import RunConfig
from ele_core.errors import Interrupted
from ele_core.files.atomic import own_prefix
from ele_core.runs.run import Run
from ele_core.runtime.monitor import Monitor
from ele_core.runtime.signals import Stop
from ele_core.types import Stage

if TYPE_CHECKING:
    import optuna

Item = TypeVar("Item")
STRIDE = 1 << 32
"""Offset between the steps of two stages, so that a step of one is never compared with a step of another."""


def measured(
    config: RunConfig, metric: str, limit: int | None, folder: Path | None, near: Path, monitor: Monitor
) -> float:
    """Train, and return the mean of the metric on the validation pairs, never on the test pairs.

    The run stays in `folder`; None: it is made in a temporary folder beside `near`, and removed.
    """
    with kept(folder, near) as place:
        run = Run.start(config, place, monitor)
        result = run.evaluate(split="validation", limit=limit, monitor=monitor)
    return result.metrics[metric]


@contextmanager
def kept(folder: Path | None, near: Path) -> Iterator[Path]:
    """The folder for a run: `folder`, or a temporary one beside `near` if that is None."""
    if folder is not None:
        yield folder
        return
    temporary = Path(tempfile.mkdtemp(prefix=own_prefix(near), dir=near.absolute().parent))
    try:
        yield temporary / "run"
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


class TrialMonitor(Monitor):
    """Monitor that shows progress, and ends a trial that is worse than the median at the same step of a stage."""

    def __init__(self, trial: optuna.Trial, shown: Monitor, stop: Stop, sign: int, stages: Sequence[Stage]) -> None:
        self.trial = trial
        self.shown = shown
        self.stop = stop
        self.places = {stage.name: (place, stage.decides) for place, stage in enumerate(stages)}
        """Stage → its index, and the metric that is compared between trials."""
        self.sign = sign
        """1 if the search minimises, −1 if it maximises: the metric of a stage is an error, always minimised."""

    def evaluation(self, stage: str, step: int, metrics: Mapping[str, float], *, best: bool = False) -> None:
        """Report the deciding metric of a stage, and end the trial if the pruner says so."""
        import optuna

        self.message("")
        place, decides = self.places.get(stage, (0, ""))
        if decides not in metrics:
            return
        self.trial.report(self.sign * metrics[decides], place * STRIDE + step)
        if self.trial.should_prune():
            raise optuna.TrialPruned

    def progress(self, items: Iterable[Item], *, description: str, total: int | None = None) -> Iterator[Item]:
        """Show progress in the monitor of the search, with the number of the trial."""
        return self.shown.progress(items, description=f"trial {self.trial.number}: {description}", total=total)

    def message(self, text: str) -> None:
        """Show nothing; raise if a signal arrived while no stage was listening for it."""
        if self.stop.signal:
            raise Interrupted("stopped.", signal=self.stop.signal)


def as_words(options: Mapping[str, Any]) -> str:
    """The options of a trial in one line."""
    return ", ".join(
        f"{path}={value:.4g}" if isinstance(value, float) else f"{path}={value}" for path, value in options.items()
    )
