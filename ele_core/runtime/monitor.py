"""Where stages report to: evaluations as numbers, long work as progress."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ele_core.files.atomic import write_text

if TYPE_CHECKING:
    from rich.console import Console

Item = TypeVar("Item")


class Monitor:
    """Receives what happens and keeps silent; subclasses show or record it."""

    def evaluation(self, stage: str, step: int, metrics: Mapping[str, float], *, best: bool = False) -> None:
        """One evaluation of `stage` after `step` steps; `best` where it is the best so far."""

    def progress(self, items: Iterable[Item], *, description: str, total: int | None = None) -> Iterator[Item]:
        """Yields `items`, showing how far it is."""
        return iter(items)

    def message(self, text: str) -> None:
        """One line for the user."""


class ConsoleMonitor(Monitor):
    """A table row an evaluation; a progress bar only on a terminal. Writes to standard error."""

    def __init__(self, console: Console | None = None) -> None:
        from rich.console import Console

        self.console = console or Console(stderr=True, soft_wrap=True, highlight=False)
        self.columns: tuple[str, ...] = ()
        self.started = time.monotonic()

    def evaluation(self, stage: str, step: int, metrics: Mapping[str, float], *, best: bool = False) -> None:
        """Print one row, under a heading whenever the columns change."""
        columns = ("stage", "step", *metrics, "time")
        if columns != self.columns:
            self.columns = columns
            self.console.print("  ".join(f"{column:>{width(column)}}" for column in columns), style="bold")
        cells = [stage, str(step), *(f"{value:.4f}" for value in metrics.values()), f"{self._elapsed():.0f}s"]
        row = "  ".join(f"{cell:>{width(column)}}" for cell, column in zip(cells, columns, strict=True))
        self.console.print(row + ("  *" if best else ""))

    def progress(self, items: Iterable[Item], *, description: str, total: int | None = None) -> Iterator[Item]:
        """A bar with the time left, gone when done; nothing where the output is not a terminal."""
        if not self.console.is_terminal:
            yield from items
            return
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        if total is None and isinstance(items, Sequence):
            total = len(items)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=self.console, transient=True, refresh_per_second=5) as bar:
            yield from bar.track(items, total=total, description=description)

    def message(self, text: str) -> None:
        """Print the line."""
        self.console.print(text, markup=False)

    def _elapsed(self) -> float:
        return time.monotonic() - self.started


class FileMonitor(Monitor):
    """Appends each evaluation to `metrics.jsonl`; times go to `times.jsonl`, so that equal runs write equal metrics."""

    FILES = ("metrics.jsonl", "times.jsonl")

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: dict[str, list[str]] = {name: [] for name in self.FILES}
        self.started = time.monotonic()

    def evaluation(self, stage: str, step: int, metrics: Mapping[str, float], *, best: bool = False) -> None:
        """One line in each file."""
        self._append("metrics.jsonl", {"stage": stage, "step": step, "best": best, **metrics})
        self._append("times.jsonl", {"stage": stage, "step": step, "seconds": self._seconds()})

    def state(self) -> dict[str, Any]:
        """All that was written, for a checkpoint."""
        return {"lines": {name: list(lines) for name, lines in self.lines.items()}, "seconds": self._seconds()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Both files as they were then, and the clock; lines that came later are cut off."""
        self.started = time.monotonic() - state.get("seconds", 0.0)
        for name in self.FILES:
            self.lines[name] = list(state.get("lines", {}).get(name, ()))
            write_text(self.folder / name, "".join(self.lines[name]))

    def _seconds(self) -> float:
        return round(time.monotonic() - self.started, 3)

    def _append(self, name: str, record: Mapping[str, object]) -> None:
        line = json.dumps(record) + "\n"
        self.lines[name].append(line)
        with (self.folder / name).open("a", encoding="utf-8") as stream:
            stream.write(line)


class Monitors(Monitor):
    """Several monitors as one; the first shows the progress."""

    def __init__(self, *monitors: Monitor) -> None:
        self.monitors = monitors

    def evaluation(self, stage: str, step: int, metrics: Mapping[str, float], *, best: bool = False) -> None:
        """To all."""
        for monitor in self.monitors:
            monitor.evaluation(stage, step, metrics, best=best)

    def progress(self, items: Iterable[Item], *, description: str, total: int | None = None) -> Iterator[Item]:
        """By the first."""
        return self.monitors[0].progress(items, description=description, total=total)

    def message(self, text: str) -> None:
        """To all."""
        for monitor in self.monitors:
            monitor.message(text)


def width(column: str) -> int:
    """Columns are as wide as their heading, and wide enough for their values."""
    return max(len(column), 11 if column == "stage" else 7)
