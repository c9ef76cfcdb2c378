"""A monitor that records evaluations and messages, and checkpoints in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ele_core.runtime.monitor import Monitor
from ele_core.runtime.work import Snapshot, Work


class Recorder(Monitor):
    """A monitor that keeps every evaluation and message."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, int, dict[str, float], bool]] = []
        self.messages: list[str] = []

    def evaluation(self, stage: str, step: int, metrics: Mapping[str, float], *, best: bool = False) -> None:
        self.rows.append((stage, step, dict(metrics), best))

    def message(self, text: str) -> None:
        self.messages.append(text)

    def stages(self) -> list[str]:
        return list(dict.fromkeys(stage for stage, *_ in self.rows))

    def steps(self, stage: str) -> list[int]:
        return [step for name, step, *_ in self.rows if name == stage]

    def values(self, stage: str, metric: str) -> list[float]:
        return [metrics[metric] for name, _, metrics, _ in self.rows if name == stage]

    def best(self, stage: str) -> list[bool]:
        return [best for name, _, _, best in self.rows if name == stage]


class Stopped(Exception):
    """Raised by `Memory` to stop work in the middle."""


class Memory(Work):
    """Work that keeps copies of its state in memory instead of on disk, and stops at step `stop_after`."""

    def __init__(self, kept: Mapping[str, Snapshot] | None = None, stop_after: int | None = None) -> None:
        self.kept = dict(kept or {})
        self.stop_after = stop_after
        self.steps = 0
        self.closed: set[str] = set()

    def saved(self, name: str) -> Snapshot | None:
        found = self.kept.get(name)
        return found and copied(found, found.finished)

    def step(self, name: str, snapshot: Callable[[], Snapshot]) -> None:
        self.steps += 1
        if self.steps == self.stop_after:
            self.keep(name, snapshot())
            raise Stopped

    def keep(self, name: str, snapshot: Snapshot) -> None:
        self.kept[name] = copied(snapshot)

    def finish(self, name: str, snapshot: Callable[[], Snapshot], *, closes: bool = False) -> None:
        if closes:
            self.kept = {key: value for key, value in self.kept.items() if key in self.closed}
            self.closed.add(name)
        self.kept[name] = copied(snapshot(), finished=True)


def copied(snapshot: Snapshot, finished: bool = False) -> Snapshot:
    """A copy of the state that later steps do not change."""
    tensors = {name: tensor.detach().clone() for name, tensor in snapshot.tensors.items()}
    return Snapshot(tensors, dict(snapshot.values), finished)
