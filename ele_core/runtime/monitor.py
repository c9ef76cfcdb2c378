"""Callbacks, which are notified of events in training and decoding: the console, the files of a run, your own."""

from __future__ import annotations

import json
import os
import reprlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from ele_core.display.text import harmless
from ele_core.errors import ConfigError
from ele_core.files.atomic import write_text
from ele_core.runtime.progress import Timetable
from ele_core.types import PlannedStage

if TYPE_CHECKING:
    from torch import Tensor

Item = TypeVar("Item")
BAR_EVERY = 0.2
"""Seconds between two pictures of the bar on a terminal."""
LINE_EVERY = 30.0
"""Seconds between two lines about the time left if the output is not a terminal."""


class Callback:
    """An object that is notified of events during training. Override the methods you need; by default they do nothing.

    Pass instances as `callbacks=[…]` to `StructuredPredictor`, `Run.start` or `Run.resume`. If there
    are several processes, only the main one calls them.
    """

    def start(self, folder: Path | None, earlier: Sequence[Mapping[str, Any]]) -> None:
        """A training begins, in the run folder `folder` if it has one.

        `earlier` holds the evaluations made before it was stopped, if it is resumed: `stage`, `step`, `best`, metrics.
        Messages about the data and about changes may come before it.
        """
        self.notify("start", folder, earlier)

    def plan(self, stages: Sequence[PlannedStage]) -> None:
        """The training is going to have these stages, as far as its components know them in advance."""
        self.notify("plan", stages)

    def step(self, stage: str, step: int, loss: Tensor) -> None:
        """The stage `stage` has made `step` steps; `loss` is the loss of the last one, a tensor without dimensions."""
        self.notify("step", stage, step, loss)

    def evaluation(self, stage: str, step: int, metrics: Mapping[str, float], *, best: bool = False) -> None:
        """The stage was evaluated after `step` steps; `best` if it is the best evaluation of the stage so far."""
        self.notify("evaluation", stage, step, metrics, best=best)

    def stage_end(self, stage: str) -> None:
        """The stage has finished; its best weights are in place."""
        self.notify("stage_end", stage)

    def message(self, text: str) -> None:
        """One line for the user."""
        self.notify("message", text)

    def end(self) -> None:
        """The training has ended, was stopped, or failed."""
        self.notify("end")

    def notify(self, event: str, *facts: Any, **named: Any) -> None:
        """Called for each event whose method is not overridden, with the method's name and arguments; does nothing."""


class Monitor(Callback):
    """A callback that can also show the progress of long work. This base class shows nothing."""

    def progress(self, items: Iterable[Item], *, description: str, total: int | None = None) -> Iterator[Item]:
        """Yield `items`, showing how many are done."""
        return iter(items)


class ConsoleMonitor(Monitor):
    """Prints a table row per evaluation and the time left. Writes to standard error.

    On a terminal the time left is shown with a progress bar, elsewhere as a line every half minute.
    """

    def __init__(
        self,
        console: Any = None,
        *,
        afterwards: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`console` is a text stream, or an object with a stream called `file` such as rich's `Console`.

        `afterwards` names what follows the training, such as decoding, whose time is not known before.
        """
        self.stream: TextIO = getattr(console, "file", console) or sys.stderr
        own = getattr(console, "is_terminal", None)
        self.terminal = is_terminal(self.stream) if own is None else bool(own)
        self.columns: tuple[str, ...] = ()
        self.timetable = Timetable(clock)
        self.afterwards = [PlannedStage(name) for name in afterwards]
        self._shown = self.timetable.elapsed
        self._bar = False

    def plan(self, stages: Sequence[PlannedStage]) -> None:
        """Estimate the time left over these stages, and those named `afterwards`."""
        self.timetable.plan([*stages, *self.afterwards])

    def end(self) -> None:
        """What comes after the training is planned by itself."""
        self.afterwards = []

    def evaluation(self, stage: str, step: int, metrics: Mapping[str, float], *, best: bool = False) -> None:
        """Print one row, under a heading whenever the columns change."""
        columns = ("stage", "step", *metrics, "time")
        if columns != self.columns:
            self.columns = columns
            heading = "  ".join(f"{column:>{width(column)}}" for column in columns)
            self._print(f"\x1b[1m{heading}\x1b[0m" if self.terminal and "NO_COLOR" not in os.environ else heading)
        cells = [stage, str(step), *(f"{value:.4f}" for value in metrics.values()), f"{self.timetable.elapsed:.0f}s"]
        row = "  ".join(f"{cell:>{width(column)}}" for cell, column in zip(cells, columns, strict=True))
        self._print(row + ("  *" if best else ""))

    def progress(self, items: Iterable[Item], *, description: str, total: int | None = None) -> Iterator[Item]:
        """Yield `items`, and show from time to time how many are done and how long the rest will take."""
        if total is None and isinstance(items, Sized):
            total = len(items)
        self.timetable.begin(description, total)
        if self.terminal:
            self._shown = -BAR_EVERY  # show the bar at the first step
        try:
            for item in items:
                yield item
                self.timetable.advance()
                self._show()
        finally:
            self._clear()

    def message(self, text: str) -> None:
        """Print the line; names of the user's files and columns in it cannot command the terminal."""
        self._print(harmless(text))

    def _show(self) -> None:
        now = self.timetable.elapsed
        if now - self._shown < (BAR_EVERY if self.terminal else LINE_EVERY):
            return
        self._shown = now
        if self.terminal:
            self._clear()
            self.stream.write(self.timetable.bar())
            self.stream.flush()
            self._bar = True
        else:
            self._print(self.timetable.line())

    def _print(self, text: str) -> None:
        self._clear()
        self.stream.write(f"{text}\n")
        self.stream.flush()

    def _clear(self) -> None:
        """Remove the bar from the terminal."""
        if self._bar:
            self.stream.write("\r\x1b[2K")
            self._bar = False


class FileMonitor(Callback):
    """Appends evaluations to `metrics.jsonl`, messages to `log.txt`; times go to `times.jsonl`.

    So equal runs write equal metrics.
    """

    FILES = ("metrics.jsonl", "times.jsonl", "log.txt")

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: dict[str, list[str]] = {name: [] for name in self.FILES}
        self.started = time.monotonic()

    def evaluation(self, stage: str, step: int, metrics: Mapping[str, float], *, best: bool = False) -> None:
        """Append one line to each file."""
        self._append("metrics.jsonl", json.dumps({"stage": stage, "step": step, "best": best, **metrics}))
        self._append("times.jsonl", json.dumps({"stage": stage, "step": step, "seconds": self.seconds}))

    def message(self, text: str) -> None:
        """Append the line."""
        self._append("log.txt", harmless(text))

    @property
    def evaluations(self) -> list[dict[str, Any]]:
        """The evaluations written so far: `stage`, `step`, `best` and the metrics of each."""
        return [json.loads(line) for line in self.lines["metrics.jsonl"]]

    def state(self) -> dict[str, Any]:
        """All lines and the time, for a checkpoint."""
        return {"lines": {name: list(lines) for name, lines in self.lines.items()}, "seconds": self.seconds}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore both files and the time from a checkpoint; later lines are removed."""
        self.started = time.monotonic() - state.get("seconds", 0.0)
        for name in self.FILES:
            self.lines[name] = list(state.get("lines", {}).get(name, ()))
            write_text(self.folder / name, "".join(self.lines[name]))

    @property
    def seconds(self) -> float:
        """The seconds of training so far, also before it was resumed."""
        return round(time.monotonic() - self.started, 3)

    def _append(self, name: str, line: str) -> None:
        self.lines[name].append(f"{line}\n")
        with (self.folder / name).open("a", encoding="utf-8") as stream:
            stream.write(f"{line}\n")


def with_callbacks(monitor: Monitor, callbacks: Sequence[Callback]) -> Callbacks:
    """A monitor that also forwards to the user's callbacks; anything but `Callback` objects is refused."""
    listed = list(callbacks) if isinstance(callbacks, Iterable) else [callbacks]
    for each in listed:
        if not isinstance(each, Callback):
            what = f"expected objects that derive from `Callback`, not {reprlib.repr(each)}."
            raise ConfigError(what, where="callbacks", fix="Write a list, such as callbacks=[TensorBoard()].")
    return Callbacks(monitor, *listed)


class StageNames(Monitor):
    """A monitor that renames stages, for a component that runs the stages of others as its own."""

    def __init__(self, monitor: Monitor, names: Mapping[str, str]) -> None:
        self.monitor = monitor
        self.names = names

    def notify(self, event: str, *facts: Any, **named: Any) -> None:
        """Forward messages, and the events of a stage under its new name; the rest belongs to the whole training."""
        if event in ("step", "evaluation", "stage_end"):
            facts = (self.names.get(facts[0], facts[0]), *facts[1:])
        if event not in ("start", "plan", "end"):
            getattr(self.monitor, event)(*facts, **named)

    def progress(self, items: Iterable[Item], *, description: str, total: int | None = None) -> Iterator[Item]:
        """Forward under the new name."""
        return self.monitor.progress(items, description=self.names.get(description, description), total=total)


class Callbacks(Monitor):
    """A monitor and any number of callbacks as one; only the monitor shows progress."""

    def __init__(self, monitor: Monitor, *callbacks: Callback) -> None:
        self.monitor = monitor
        self.everyone = (monitor, *callbacks)

    def notify(self, event: str, *facts: Any, **named: Any) -> None:
        """Forward to everyone."""
        for each in self.everyone:
            getattr(each, event)(*facts, **named)

    def progress(self, items: Iterable[Item], *, description: str, total: int | None = None) -> Iterator[Item]:
        """Only the monitor shows progress."""
        return self.monitor.progress(items, description=description, total=total)

    @contextmanager
    def training(self, folder: Path | None = None, earlier: Sequence[Mapping[str, Any]] = ()) -> Iterator[None]:
        """Call `start` before the block and `end` after it, however it ends."""
        self.start(folder, list(earlier))
        try:
            yield
        finally:
            self.end()


def width(column: str) -> int:
    """The width of a column: at least that of its heading, and enough for its values."""
    return max(len(column), 11 if column == "stage" else 7)


def is_terminal(stream: TextIO) -> bool:
    """Whether a progress bar can be drawn on the stream."""
    return stream.isatty() and os.environ.get("TERM") != "dumb"
