"""The storage of a search: one journal file, which several processes can share and which survives a kill."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ele_core.config.diff import changes, flatten
from ele_core.errors import ConfigError, DataError
from ele_core.experiments.ranges import Range
from ele_core.extras import missing
from ele_core.files.atomic import alive, make_folder, remove_abandoned
from ele_core.runtime.context import Context

if TYPE_CHECKING:
    import optuna
    from filelock import FileLock
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
