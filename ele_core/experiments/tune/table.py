"""The trials of a search as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

from ele_core.experiments.tune.trials import as_words

STATES = {"COMPLETE": "done", "PRUNED": "ended early", "RUNNING": "under way", "WAITING": "waiting", "FAIL": "failed"}


def table(trials: Sequence[FrozenTrial], metric: str, best: int | None) -> str:
    """One line per trial in the order of their starts; a star marks the best."""
    lines = [["trial", metric, "time", "state", "options"], *(line(trial, best) for trial in trials)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, cells, widths)).rstrip() for cells in lines)


def line(trial: FrozenTrial, best: int | None) -> list[str]:
    """The cells of a trial."""
    value = f"{trial.value:.4f}" if trial.state.name == "COMPLETE" and trial.value is not None else "–"
    seconds = f"{trial.duration.total_seconds():.0f} s" if trial.duration else "–"
    mark = f"{value} *" if trial.number == best else value
    return [str(trial.number), mark, seconds, state(trial), as_words(trial.params)]


def state(trial: FrozenTrial) -> str:
    """How a trial ended, and why it failed."""
    if trial.state.name == "FAIL":
        reason = trial.user_attrs.get("reason")
        return f"failed: {reason}" if reason else "stopped"
    return STATES[trial.state.name]
