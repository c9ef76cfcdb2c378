"""The trials of a search as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

from ele_core.display.text import columns
from ele_core.experiments.tune.trials import as_words

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
