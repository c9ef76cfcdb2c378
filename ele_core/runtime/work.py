"""The interface by which long work saves its state, and the flag that a signal sets to stop it where it can resume."""

from __future__ import annotations

import dataclasses
import json
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

L = TypeVar("L", bound="Learner")
if TYPE_CHECKING:
    from ele_core.interfaces import Learner
    from ele_core.runtime.context import Context
    from ele_core.types import TrainingData


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """The state of a piece of work: named tensors, and values that JSON can hold."""

    tensors: Mapping[str, Tensor] = dataclasses.field(default_factory=dict)
    values: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    finished: bool = False

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names begin with `prefix` and a dot, without it."""
        start = f"{prefix}."
        return {name.removeprefix(start): value for name, value in self.tensors.items() if name.startswith(start)}


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Add `prefix` and a dot to the names of the tensors: the inverse of `Snapshot.part`."""
    return {f"{prefix}.{name}": value for name, value in tensors.items()}


class Work:
    """The saved state of long work. This base class saves nothing and never stops: it is used without a run folder.

    A piece of work has a name. It asks for the state that was `saved`, calls `step` whenever it could be resumed from
    there, and `finish` with its result.
    """

    spent: float = 0.0
    """The seconds that the work took before it was resumed."""

    def saved(self, name: str) -> Snapshot | None:
        """The saved state of the work `name`, or its result if it had finished; None: start from the beginning."""
        return None

    def step(self, name: str, snapshot: Callable[[], Snapshot]) -> None:
        """Save the state if it is time to, and stop if that was asked for."""

    def keep(self, name: str, snapshot: Snapshot) -> None:
        """Save the state now, because the work cannot continue."""

    def finish(self, name: str, snapshot: Callable[[], Snapshot], *, closes: bool = False) -> None:
        """Save the result; `closes` drops the states of unfinished parts and of parts that this result includes."""


class PartOfWork(Work):
    """A part of longer work, whose pieces have names of their own there."""

    def __init__(self, whole: Work, name: str) -> None:
        self.whole = whole
        self.name = name
        self.spent = whole.spent

    def saved(self, name: str) -> Snapshot | None:
        return self.whole.saved(self._named(name))

    def step(self, name: str, snapshot: Callable[[], Snapshot]) -> None:
        self.whole.step(self._named(name), snapshot)

    def keep(self, name: str, snapshot: Snapshot) -> None:
        self.whole.keep(self._named(name), snapshot)

    def finish(self, name: str, snapshot: Callable[[], Snapshot], *, closes: bool = False) -> None:
        self.whole.finish(self._named(name), snapshot, closes=closes)

    def _named(self, name: str) -> str:
        return f"{name} of {self.name}"


def learn(learner: Learner, name: str, data: TrainingData, context: Context) -> float:
    """Fit `learner`, or restore it if it was already trained when the training was stopped.

    Returns the processor time of fitting in seconds; if it was resumed, since then.
    """
    done = context.work.saved(name)
    if done is not None and done.finished:
        learner.restore(done.tensors)
        learner.to(context.device)
        return float(done.values.get("seconds", 0.0))
    before = time.process_time()
    learner.fit(data, context)
    seconds = time.process_time() - before
    context.work.finish(name, lambda: Snapshot(learner.state(), {"seconds": seconds}), closes=True)
    return seconds


def by_cost(parts: Mapping[str, L], examples: int, extra: int = 0) -> list[tuple[str, L]]:
    """The parts of a learner in the order to fit them: those without a network, then by the number of steps."""

    def steps(part: Learner) -> int:
        return sum(stage.steps or 0 for stage in part.planned(examples, extra))

    return sorted(parts.items(), key=lambda each: steps(each[1]))


def as_bytes(value: Any) -> Tensor:
    """A JSON value as a tensor of bytes, to be stored or sent with tensors."""
    return torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)


def from_bytes(data: Tensor) -> Any:
    """The inverse of `as_bytes`."""
    return json.loads(data.numpy().tobytes())


class Stop:
    """The flag that SIGINT (Ctrl-C) and SIGTERM set to ask work to stop. A second Ctrl-C stops at once, unsaved."""

    def __init__(self) -> None:
        self.signal = 0
        """The number of the signal received; 0: none so far."""

    @contextmanager
    def listening(self) -> Iterator[Stop]:
        """Inside the block, signals only set the flag. Has no effect in a thread other than the main one."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number
