"""How many steps fit into a given time, measured on the first ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

UNTIMED = 5
"""First steps that are not timed: they may include compilation."""
TIMED = 20
"""Steps that are timed."""
MEASURING = 0.05
"""Share of the time after which the measurement ends, however few the steps."""
EVALUATING = 0.2
"""Share of the time that evaluations may take; there are fewer of them if they are slow."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """The number of steps and of evaluations of a whole training."""

    steps: int
    evaluations: int


class Stopwatch:
    """Times the first steps of a training that lasts so many seconds."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.seconds = seconds
        self.started = self.first = clock()
        self.steps = 0

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self.clock() - self.started

    def advance(self) -> None:
        """A step was made."""
        self.steps += 1
        if self.steps == UNTIMED:
            self.first = self.clock()

    @property
    def enough(self) -> bool:
        """Whether enough steps were timed for a plan."""
        return self.steps >= UNTIMED + TIMED or self.elapsed >= MEASURING * self.seconds

    def pace(self) -> float:
        """Seconds per step."""
        if self.steps > UNTIMED:
            return (self.clock() - self.first) / (self.steps - UNTIMED)
        return self.elapsed / self.steps

    def plan(self, pace: float, evaluation: float, evaluations: int) -> Plan:
        """Return the plan for the time that is left, if a step takes `pace` seconds and an evaluation `evaluation`.

        The steps already made are included; at least one more is planned.
        """
        affordable = EVALUATING * self.seconds / evaluation if evaluation > 0 else evaluations
        evaluations = max(1, min(evaluations, int(affordable)))
        left = self.seconds - self.elapsed - evaluations * evaluation
        return Plan(self.steps + max(1, round(left / max(pace, 1e-9))), evaluations)
