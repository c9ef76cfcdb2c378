"""Where a search keeps its trials: one journal file that several processes may share and that survives a kill."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ele_core.config.diff import changes, flatten
from ele_core.errors import ConfigError, DataError
from ele_core.experiments.ranges import Range
from ele_core.files.atomic import make_folder
from ele_core.files.locks import locked
from ele_core.runtime.context import Context

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

Direction = Literal["minimize", "maximize"]
NAME = "ele"


def require_optuna() -> None:
    """Refuse to go on without optuna."""
    try:
        import optuna
    except ImportError:
        fix = "pip install 'explicit-loss-embedding[tune]'"
        raise ConfigError("tuning needs the package optuna, which is not installed.", fix=fix) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def open_search(file: Path, about: Mapping[str, Any], direction: Direction, *, prune: bool) -> optuna.Study:
    """The search kept in `file`, or a new one; one that is about something else is refused."""
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    make_folder(file.parent)
    with taking_turns(file):
        try:
            storage = JournalStorage(JournalFileBackend(str(file)))
            study = optuna.create_study(
                storage=storage,
                study_name=NAME,
                direction=direction,
                load_if_exists=True,
                pruner=optuna.pruners.MedianPruner() if prune else optuna.pruners.NopPruner(),
            )
        except (ValueError, KeyError, TypeError, OSError) as error:
            fix = "Choose another with --storage."
            raise DataError(f"cannot be used as the storage of a search: {error}.", where=str(file), fix=fix) from None
        kept = study.user_attrs.get("about")
        if kept is None:
            study.set_user_attr("about", dict(about))
        elif kept != about:
            differ = "; ".join(changes(flat(kept), flat(about)).values())
            fix = "Choose another file with --storage, or put it back."
            raise ConfigError(f"holds another search, which differs: {differ}.", where=str(file), fix=fix)
    return study


def flat(about: Mapping[str, Any]) -> dict[str, Any]:
    """What a search is about, by dotted path."""
    return {path.removeprefix("config."): value for path, value in flatten(about).items()}


def next_trial(study: optuna.Study, file: Path, ranges: Mapping[str, Range], trials: int, seed: int) -> Any | None:
    """The next trial, with its options drawn; none where there are `trials` already, done or under way.

    What is drawn depends on the seed, on the trials that were done by then, and on the smallest number that no trial
    which counts was drawn by: that of a trial which was stopped is taken again.
    """
    from optuna.samplers import TPESampler

    with taking_turns(file):
        give_up_dead(study)
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
    """Whether a trial is one of those asked for: one that was stopped, or whose process died, is not."""
    return trial.state.name != "FAIL" or "reason" in trial.user_attrs


def give_up_dead(study: optuna.Study) -> None:
    """Close the trials whose process has ended without a word."""
    from optuna.trial import TrialState

    host = socket.gethostname()
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        where, _, number = trial.user_attrs.get("process", "").rpartition(":")
        if where == host and not alive(int(number)):
            study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)


def this_process() -> str:
    """Who we are, as others on the machine find us."""
    return f"{socket.gethostname()}:{os.getpid()}"


def alive(process: int) -> bool:
    """Whether a process of this machine still runs."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # somebody else's
        return True
    return True


def distribution(own: Range) -> BaseDistribution:
    """A range as optuna has it."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if own.choices:
        return CategoricalDistribution(tuple(own.choices))
    if own.whole:
        return IntDistribution(int(own.low), int(own.high), log=own.log, step=int(own.step or 1))
    return FloatDistribution(own.low, own.high, log=own.log, step=own.step)


def taking_turns(file: Path) -> AbstractContextManager[None]:
    """Wait until no other process uses the storage, and keep the others waiting."""
    return locked(file.with_name(f"{file.name}.turn"), "choosing a trial", wait=True)
