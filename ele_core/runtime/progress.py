"""How far long work has come: an estimate of the time left, and a bar for a terminal."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence

from ele_core.display.text import in_words, listed
from ele_core.types import PlannedStage

BAR = 30
"""Characters of a full bar."""


class Timetable:
    """The time that is left.

    The present stage is extrapolated from its own steps, without the first, which may include compilation. Later
    stages are named: how long their steps take is not known, unless they have the name of the present one.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.started = clock()
        self.coming: list[PlannedStage] = []
        self.stage = ""
        self.done = 0
        self.total: int | None = None
        self._before = 0
        self._first = 0.0

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self.clock() - self.started

    def plan(self, stages: Sequence[PlannedStage]) -> None:
        """Replace the list of the stages to come."""
        self.coming = list(stages)

    def begin(self, stage: str, total: int | None) -> None:
        """A stage begins, with `total` steps left; planned stages before it count as done."""
        names = [planned.name for planned in self.coming]
        self.stage, self.total, self.done, self._before = stage, total, 0, 0
        if stage in names:
            own, self.coming = self.coming[names.index(stage)], self.coming[names.index(stage) + 1 :]
            if own.steps is not None and total is not None:  # a resumed stage has made some of its steps before
                self._before = max(0, own.steps - total)
                self.done, self.total = self._before, self._before + total

    def advance(self) -> None:
        """The present stage has made a step."""
        self.done += 1
        if self.done == self._before + 1:
            self._first = self.clock()

    def seconds_per_step(self) -> float | None:
        """The mean time of the steps after the first one; None before there is one."""
        timed = self.done - self._before - 1
        return (self.clock() - self._first) / timed if timed > 0 else None

    def left(self) -> str:
        """The time left as text, such as `about 4 min left, then decoding`; an empty text if nothing is known."""
        pace = self.seconds_per_step()
        if pace is None or self.total is None:
            return ""
        again = sum(stage.steps or 0 for stage in self.coming if stage.name == self.stage)
        others = list(dict.fromkeys(stage.name for stage in self.coming if stage.name != self.stage))
        rest = f", then {listed(others)}" if others else ""
        return f"about {in_words(pace * (max(0, self.total - self.done) + again))} left{rest}"

    def line(self) -> str:
        """Stage, step, elapsed time and time left in one line."""
        step = f"step {self.done:,}" + (f" of {self.total:,}" if self.total is not None else "")
        return ", ".join(filter(None, (f"{self.stage}: {step}", f"{in_words(self.elapsed)} elapsed", self.left())))

    def bar(self) -> str:
        """The same with a bar, cut to the width of the terminal."""
        full = BAR if not self.total else min(BAR, BAR * self.done // self.total)
        count = f"{self.done:,}/{self.total:,}" if self.total is not None else f"{self.done:,}"
        parts = (self.stage, "━" * full + "─" * (BAR - full), count, self.left())
        return "  ".join(filter(None, parts))[: shutil.get_terminal_size().columns - 1]
