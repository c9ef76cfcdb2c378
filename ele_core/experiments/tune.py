"""Search for good options: trials, judged on validation pairs and stored in a file that a later search continues."""

from __future__ import annotations

import dataclasses
import itertools
import os
import shutil
import signal
import socket
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ele_core import config as configuration
from ele_core.config import Overrides, RunConfig
from ele_core.config.diff import changes, flatten
from ele_core.data.prepare import prepare
from ele_core.display.text import columns
from ele_core.errors import ConfigError, DataError, EleError, Interrupted, TrainingError
from ele_core.experiments.ranges import Range, read_ranges
from ele_core.extras import missing
from ele_core.files.atomic import alive, make_folder, own_prefix, remove_abandoned
from ele_core.interfaces import Regressor
from ele_core.plugins import Registry
from ele_core.runs.run import Run
from ele_core.runtime.context import Context
from ele_core.runtime.monitor import Monitor
from ele_core.runtime.work import Stop
from ele_core.types import Metric, Stage

if TYPE_CHECKING:
    import optuna
    from filelock import FileLock
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

__all__ = ["TuningSearch"]

EXAMPLE = 'Write lines such as "regressor.training.learning_rate" = {low = 1e-4, high = 1e-2, log = true}.'


@dataclasses.dataclass(frozen=True)
class TuningSearch:
    """A search over ranges of some options of a configuration, with the file that stores its trials."""

    source: str
    overrides: Overrides
    ranges: Mapping[str, Range]
    storage: Path
    limit: int | None = None
    """Judge trials on only this number of validation pairs; None: on all."""
    prune: bool = False
    """Stop trials early that are worse than the median."""
    keep: Path | None = None
    """Keep the runs of the trials in this folder; None: remove them."""
    registry: Registry | None = None
    """Where names are looked up; None: in the installed plugins."""

    @classmethod
    def of(cls, source: str, overrides: Overrides, space: Path | None, storage: Path, **options: Any) -> TuningSearch:
        """Make a search over the ranges in the file `space`; None: over those of the task's ranges that apply."""
        require_optuna()
        search = cls(source, overrides, {} if space is None else read_space(space), storage, **options)
        if space is not None:
            for path, own in search.ranges.items():
                search.config({path: own.first})
            return search
        paths = flatten(search.base.model_dump(mode="json"))
        ranges = {path: own for path, own in declared(search.base).items() if path in paths}
        if not ranges:
            what = "there is nothing to tune: no task declares ranges for its options."
            raise ConfigError(what, where=source, fix="Give a file of ranges with --space FILE.toml.")
        return dataclasses.replace(search, ranges=ranges)

    @cached_property
    def base(self) -> RunConfig:
        """The configuration without the options that are drawn."""
        return configuration.load(self.source, self.overrides, self.registry)

    def config(self, options: Mapping[str, Any]) -> RunConfig:
        """The configuration of a trial."""
        drawn = configuration.merge(configuration.as_changes(self.overrides), configuration.at(options))
        return configuration.load(self.source, drawn, self.registry)

    def metric(self, monitor: Monitor) -> Metric[Any]:
        """The primary metric, which judges the trials; reads the data, so bad data fail before the first trial."""
        metric: Metric[Any] = prepare(self.base, Context(self.base.seed, monitor=monitor)).space.metrics[0]
        return metric

    def open(self, metric: Metric[Any]) -> optuna.Study:
        """Open the storage, which holds the trials so far."""
        about = {
            "config": self.base.model_dump(mode="json"),
            "ranges": {path: own.as_table() for path, own in self.ranges.items()},
            "metric": metric.name,
            "limit": self.limit,
        }
        direction: Direction = "minimize" if metric.direction == "min" else "maximize"
        return open_search(self.storage, about, direction, prune=self.prune)

    def run(self, trials: int, monitor: Monitor) -> None:
        """Run trials until the storage holds this number of them, including those of other processes."""
        metric = self.metric(monitor)
        study = self.open(metric)
        regressor: type[Regressor] = self.base.registry.get("regressor", self.base.regressor.name)
        sign = 1 if metric.direction == "min" else -1
        with Stop().listening() as stop:
            while (trial := next_trial(study, self.storage, self.ranges, trials, self.base.seed)) is not None:
                monitor.message(f"trial {trial.number}, {trials} in all: {as_words(trial.params)}")
                shown = TrialMonitor(trial, monitor, stop, sign, regressor.stages)
                monitor.message(f"trial {trial.number}: {self._attempt(study, trial, metric, shown)}")
                if stop.signal:
                    raise self._stopped(stop.signal)

    def _stopped(self, number: int) -> Interrupted:
        what, fix = "stopped; the trials so far are kept.", "Run the same command again to continue."
        return Interrupted(what, signal=number, where=str(self.storage), fix=fix)

    def _attempt(self, study: optuna.Study, trial: optuna.Trial, metric: Metric[Any], shown: Monitor) -> str:
        """Run one trial and store its result; return it in a few words. A failure is stored, not raised."""
        import optuna
        from optuna.trial import TrialState

        folder = None if self.keep is None else self.keep / f"trial-{trial.number}"
        try:
            value = measured(self.config(trial.params), metric.name, self.limit, folder, self.storage, shown)
        except optuna.TrialPruned:
            study.tell(trial, state=TrialState.PRUNED)
            return "ended early, worse than the median"
        except (Interrupted, KeyboardInterrupt) as stopped:
            study.tell(trial, state=TrialState.FAIL)
            raise self._stopped(
                stopped.exit_code - 128 if isinstance(stopped, Interrupted) else signal.SIGINT
            ) from None
        except Exception as error:  # any failure of a combination of options is a result of the search
            reason = str(error) if isinstance(error, EleError) else f"{type(error).__name__}: {error}"
            trial.set_user_attr("reason", " ".join(reason.split()))
            study.tell(trial, state=TrialState.FAIL)
            return f"failed: {reason}"
        study.tell(trial, value)
        return f"{metric.name} {value:.4f}; best so far {study.best_value:.4f}"

    def best(self, study: optuna.Study, monitor: Monitor) -> FrozenTrial:
        """The best trial; if none succeeded, raise with the reason of the last failure."""
        done = [trial for trial in study.get_trials(deepcopy=False) if trial.state.name == "COMPLETE"]
        if not done:
            reasons = [trial.user_attrs["reason"] for trial in study.get_trials() if "reason" in trial.user_attrs]
            what = f"no trial has succeeded. The last one: {reasons[-1]}" if reasons else "no trial has finished."
            raise TrainingError(what, where=str(self.storage), fix="Change the ranges, or run more trials.")
        if len(done) > 1 and len({trial.value for trial in done}) == 1:
            warning = f"all {len(done)} trials came to {done[0].value:.4g}: they do not tell which options are better"
            monitor.message(f"{warning}. Train longer, or on more pairs.")
        return study.best_trial


def declared(config: RunConfig) -> Mapping[str, Range]:
    """The ranges that the task of a configuration declares."""
    if config.task is None:
        return {}
    ranges: Mapping[str, Range] = config.registry.get("task", config.task.name).ranges
    return ranges


def read_space(file: Path) -> dict[str, Range]:
    """Read the ranges of a TOML file."""
    try:
        tables = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}.", where=str(file)) from None
    except ValueError as error:
        raise ConfigError(f"is not valid TOML: {error}.", where=str(file)) from None
    ranges = read_ranges(tables)
    if not ranges:
        raise ConfigError("holds no range.", where=str(file), fix=EXAMPLE)
    return ranges


Item = TypeVar("Item")
STRIDE = 1 << 32
"""Offset between the steps of two stages: a step of one is never compared with a step of another."""


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


STATES = {"COMPLETE": "done", "PRUNED": "ended early", "RUNNING": "under way", "WAITING": "waiting", "FAIL": "failed"}


def table(trials: Sequence[FrozenTrial], metric: str, best: int | None) -> str:
    """One line per trial in the order of their starts; a star marks the best."""
    lines = [["trial", metric, "time", "state", "options"], *(line(trial, best) for trial in trials)]
    return columns(lines)


def line(trial: FrozenTrial, best: int | None) -> list[str]:
    """The cells of a trial."""
    value = f"{trial.value:.4f}" if trial.state.name == "COMPLETE" and trial.value is not None else "–"
    seconds = f"{trial.duration.total_seconds():.0f} s" if trial.duration else "–"
    mark = f"{value} *" if trial.number == best else value
    return [str(trial.number), mark, seconds, state(trial), as_words(trial.params)]


def as_dict(trial: FrozenTrial) -> dict[str, Any]:
    """A trial as plain values; `value` is None unless it was measured."""
    return {
        "trial": trial.number,
        "value": trial.value if trial.state.name == "COMPLETE" else None,
        "seconds": trial.duration.total_seconds() if trial.duration else None,
        "state": state(trial),
        "options": dict(trial.params),
    }


def state(trial: FrozenTrial) -> str:
    """How a trial ended, and why it failed."""
    if trial.state.name == "FAIL":
        reason = trial.user_attrs.get("reason")
        return f"failed: {reason}" if reason else "stopped"
    return STATES[trial.state.name]


Direction = Literal["minimize", "maximize"]
NAME = "ele"


def require_optuna() -> None:
    """Raise if optuna is not installed."""
    try:
        import optuna
    except ImportError:
        raise missing("tuning", "optuna", "tune") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def open_search(file: Path, about: Mapping[str, Any], direction: Direction, *, prune: bool) -> optuna.Study:
    """Open the search in `file`, or start one there; refuse a file that holds a search with other settings."""
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    make_folder(file.parent)
    try:
        with alone(file) as lock:
            remove_abandoned(file)
            mend(file)
            storage = JournalStorage(JournalFileBackend(str(file), lock))  # type: ignore[arg-type]  # it has its methods
            study = optuna.create_study(
                storage=storage,
                study_name=NAME,
                direction=direction,
                load_if_exists=True,
                pruner=optuna.pruners.MedianPruner() if prune else optuna.pruners.NopPruner(),
            )
            kept = study.user_attrs.get("about")
            if kept is None:
                study.set_user_attr("about", dict(about))
    except (ValueError, KeyError, TypeError, OSError) as error:
        fix, reason = "Choose another file with --storage.", getattr(error, "strerror", None) or error
        raise DataError(f"cannot be used as the storage of a search: {reason}.", where=str(file), fix=fix) from None
    if kept is not None and (differ := changes(flat(kept), flat(about))):
        fix = "Choose another file with --storage, or undo these changes."
        raise ConfigError(
            f"holds a search with other settings: {'; '.join(differ.values())}.", where=str(file), fix=fix
        )
    return study


@contextmanager
def alone(file: Path) -> Iterator[FileLock]:
    """Hold the lock on the journal; wait while another process holds it.

    Optuna appends under the same lock, which it takes again inside the block. The journal itself is locked: nothing is
    left beside it, and the system releases the lock if the process is killed. Optuna's own locks survive a kill and
    make the next process wait for 30 s.
    """
    from filelock import FileLock

    lock = FileLock(file.resolve(), fallback_to_soft=False, is_singleton=True)
    with lock:
        yield lock


def mend(file: Path) -> None:
    """Remove a last line that was written in part, because its process was killed or the disk was full.

    Optuna would append to that line, and could not read the journal again. Raises `ValueError` for a file that is not
    a journal.
    """
    content = file.read_bytes()
    if content and not content.startswith(b'{"op_code":'):
        raise ValueError("it is not a journal")
    if not content.endswith(b"\n"):
        os.truncate(file, content.rfind(b"\n") + 1)


def flat(about: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a search, by dotted path."""
    return {path.removeprefix("config."): value for path, value in flatten(about).items()}


def next_trial(study: optuna.Study, file: Path, ranges: Mapping[str, Range], trials: int, seed: int) -> Any | None:
    """Draw the options of the next trial; None if there are `trials` already, finished or running.

    The options depend on the seed, on the trials finished so far, and on the number of the draw: the smallest that no
    trial which counts has used. The number of a stopped trial is used again.
    """
    from optuna.samplers import TPESampler

    with alone(file):
        close_dead_trials(study)
        known = study.get_trials(deepcopy=False)
        if sum(map(counts, known)) >= trials:
            return None
        taken = {trial.user_attrs.get("draw") for trial in known if counts(trial)}
        draw = next(number for number in itertools.count() if number not in taken)
        study.sampler = TPESampler(seed=Context(seed).derived_seed("tune", draw) % 2**32)
        trial = study.ask({path: distribution(own) for path, own in ranges.items()})
        trial.set_user_attr("draw", draw)
        trial.set_user_attr("process", f"{socket.gethostname()}:{os.getpid()}")  # see `close_dead_trials`
    return trial


def counts(trial: FrozenTrial) -> bool:
    """Whether a trial counts towards the number requested: one that was stopped, or whose process died, does not."""
    return trial.state.name != "FAIL" or "reason" in trial.user_attrs


def close_dead_trials(study: optuna.Study) -> None:
    """Mark running trials whose process has died as failed."""
    from optuna.trial import TrialState

    host = socket.gethostname()
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        where, _, number = trial.user_attrs.get("process", "").rpartition(":")
        if where == host and not alive(int(number)):
            study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)


def distribution(own: Range) -> BaseDistribution:
    """Convert a range to a distribution of optuna."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if own.choices:
        return CategoricalDistribution(tuple(own.choices))
    if own.whole:
        return IntDistribution(int(own.low), int(own.high), log=own.log, step=int(own.step or 1))
    return FloatDistribution(own.low, own.high, log=own.log, step=own.step)
