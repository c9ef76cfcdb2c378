"""The storage of a search: one journal file, which several processes can share and which survives a kill."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ele_core.config.diff import changes, flatten
from ele_core.errors import ConfigError, DataError
from ele_core.experiments.ranges import Range
from ele_core.extras import missing
from ele_core.files.atomic import alive, make_folder, remove_abandoned
from ele_core.files.locks import locked
from ele_core.runtime.context import Context

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

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
    lock = JournalLock(file)
    with taking_turns(file):
        remove_abandoned(file)
        try:
            lock.mend()
            storage = JournalStorage(JournalFileBackend(str(file), lock))  # type: ignore[arg-type]  # it has its methods
            study = optuna.create_study(
                storage=storage,
                study_name=NAME,
                direction=direction,
                load_if_exists=True,
                pruner=optuna.pruners.MedianPruner() if prune else optuna.pruners.NopPruner(),
            )
        except (ValueError, KeyError, TypeError, OSError) as error:
            fix, reason = "Choose another file with --storage.", getattr(error, "strerror", None) or error
            raise DataError(f"cannot be used as the storage of a search: {reason}.", where=str(file), fix=fix) from None
        kept = study.user_attrs.get("about")
        if kept is None:
            study.set_user_attr("about", dict(about))
        elif differ := changes(flat(kept), flat(about)):
            fix = "Choose another file with --storage, or undo these changes."
            what = f"holds a search with other settings: {'; '.join(differ.values())}."
            raise ConfigError(what, where=str(file), fix=fix)
    return study


class JournalLock:
    """The lock under which lines are appended to a journal, as optuna's own, but released if its process is killed."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.held = ExitStack()

    def acquire(self) -> bool:
        """Wait for the lock."""
        self.held.enter_context(locked(self.file.with_name(f"{self.file.name}.write"), "writing", wait=True))
        return True

    def release(self) -> None:
        """Let others write."""
        self.held.close()

    def mend(self) -> None:
        """Remove a last line that was written in part, because its process was killed or the disk was full.

        Raises `ValueError` for a file that is not a journal: optuna would append to it.
        """
        self.acquire()
        try:
            content = self.file.read_bytes() if self.file.exists() else b""
            if content and not content.startswith(b'{"op_code":'):
                raise ValueError("it is not a journal")
            whole = content.rfind(b"\n") + 1
            if whole < len(content):
                os.truncate(self.file, whole)
        finally:
            self.release()


def flat(about: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a search, by dotted path."""
    return {path.removeprefix("config."): value for path, value in flatten(about).items()}


def next_trial(study: optuna.Study, file: Path, ranges: Mapping[str, Range], trials: int, seed: int) -> Any | None:
    """Draw the options of the next trial; None if there are `trials` already, finished or running.

    The options depend on the seed, on the trials finished so far, and on the number of the draw: the smallest that no
    trial which counts has used. The number of a stopped trial is used again.
    """
    from optuna.samplers import TPESampler

    with taking_turns(file):
        close_dead_trials(study)
        known = study.get_trials(deepcopy=False)
        if sum(map(counts, known)) >= trials:
            return None
        taken = {trial.user_attrs.get("draw") for trial in known if counts(trial)}
        draw = next(number for number in itertools.count() if number not in taken)
        study.sampler = TPESampler(seed=Context(seed).derived_seed("tune", draw) % 2**32)
        trial = study.ask({path: distribution(own) for path, own in ranges.items()})
        trial.set_user_attr("draw", draw)
        trial.set_user_attr("process", this_process())
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


def this_process() -> str:
    """The host and the id of this process, by which other processes can tell whether it is alive."""
    return f"{socket.gethostname()}:{os.getpid()}"


def distribution(own: Range) -> BaseDistribution:
    """Convert a range to a distribution of optuna."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if own.choices:
        return CategoricalDistribution(tuple(own.choices))
    if own.whole:
        return IntDistribution(int(own.low), int(own.high), log=own.log, step=int(own.step or 1))
    return FloatDistribution(own.low, own.high, log=own.log, step=own.step)


def taking_turns(file: Path) -> AbstractContextManager[None]:
    """Lock the storage; wait while another process holds it."""
    return locked(file.with_name(f"{file.name}.turn"), "choosing a trial", wait=True)
