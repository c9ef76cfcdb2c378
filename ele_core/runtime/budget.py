"""The time that a training may take: what is left of it is shared by the networks that are still to come."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable


class TooLittleTime(Exception):
    """The time left is too short for a network that a model can do without; whoever tried it goes on without it."""


@dataclasses.dataclass(eq=False)
class Budget:
    """So many seconds for a whole training, from when this was created on; `spent` are those before it was resumed."""

    seconds: float
    coming: list[str]
    """The stages that train networks and are still to come."""
    spent: float = 0.0
    clock: Callable[[], float] = time.monotonic
    dispensable: bool = False
    """Whether the network that is trained next may raise `TooLittleTime`."""
    started: float = dataclasses.field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self.started = self.clock()

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return max(0.0, self.seconds - self.spent - (self.clock() - self.started))

    def share(self, stage: str) -> float:
        """The seconds of a stage that begins: an equal part of what is left, with the stages that are still to come.

        Planned stages before it had nothing to train, or were finished before. One of an unknown name is the first.
        """
        place = self.coming.index(stage) if stage in self.coming else 0
        del self.coming[: place + 1]
        return self.left / (len(self.coming) + 1)

    def for_dispensable(self) -> Budget:
        """The same budget, for a network that the model can do without."""
        found = dataclasses.replace(self, dispensable=True)
        found.started = self.started
        return found
