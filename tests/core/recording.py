"""A monitor that remembers."""

from __future__ import annotations

from collections.abc import Mapping

from ele_core.monitor import Monitor


class Recorder(Monitor):
    """Keeps every evaluation and message."""

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
