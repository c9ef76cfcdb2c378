"""One trial of a search: a run with the options that were drawn, measured on validation pairs."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ele_core.config import RunConfig
from ele_core.errors import Interrupted
from ele_core.interfaces import Stage
from ele_core.runs.run import Run
from ele_core.runtime.monitor import Monitor
from ele_core.runtime.signals import Stop

if TYPE_CHECKING:
    import optuna

Item = TypeVar("Item")
STRIDE = 1 << 32
"""Steps between two stages, so that a step of one is never compared with a step of another."""


def measured(
    config: RunConfig, metric: str, limit: int | None, folder: Path | None, near: Path, monitor: Monitor
) -> float:
    """Train and measure: the mean of the metric on the validation pairs, never on those of the test.

    The run stays in `folder`; without one it is made beside `near` and removed.
    """
    with kept(folder, near) as place:
        run = Run.start(config, place, monitor)
        result = run.evaluate(split="validation", limit=limit, monitor=monitor)
    return result.metrics[metric]


@contextmanager
def kept(folder: Path | None, near: Path) -> Iterator[Path]:
    """A place for a run: `folder`, or one that is gone afterwards."""
    if folder is not None:
        yield folder
        return
    temporary = Path(tempfile.mkdtemp(prefix=f".{near.name}.", dir=near.absolute().parent))
    try:
        yield temporary / "run"
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


class TrialMonitor(Monitor):
    """Shows progress, and ends a trial that is worse than the median of the others at the same step of a stage."""

    def __init__(self, trial: optuna.Trial, shown: Monitor, stop: Stop, sign: int, stages: Sequence[Stage]) -> None:
        self.trial = trial
        self.shown = shown
        self.stop = stop
        self.places = {stage.name: (place, stage.decides) for place, stage in enumerate(stages)}
        """Of each stage whose evaluations tell early how good a trial will be: its place, and the metric to compare."""
        self.sign = sign
        """1 where the search minimises, −1 where it maximises: errors are reported as what it looks for."""

    def evaluation(self, stage: str, step: int, metrics: Mapping[str, float], *, best: bool = False) -> None:
        """Report what decides in a stage, and stop where the pruner says so."""
        import optuna

        self.message("")
        place, decides = self.places.get(stage, (0, ""))
        if decides not in metrics:
            return
        self.trial.report(self.sign * metrics[decides], place * STRIDE + step)
        if self.trial.should_prune():
            raise optuna.TrialPruned

    def progress(self, items: Iterable[Item], *, description: str, total: int | None = None) -> Iterator[Item]:
        """As the monitor of the search shows it."""
        return self.shown.progress(items, description=f"trial {self.trial.number}: {description}", total=total)

    def message(self, text: str) -> None:
        """Keeps silent; the moment to stop in, if somebody asked for that while no stage listened."""
        if self.stop.signal:
            raise Interrupted("stopped.", signal=self.stop.signal)


def as_words(options: Mapping[str, Any]) -> str:
    """The options of a trial in one line."""
    return ", ".join(
        f"{path}={value:.4g}" if isinstance(value, float) else f"{path}={value}" for path, value in options.items()
    )
