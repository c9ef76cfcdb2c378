"""How long the rest will take: declared times, corrected by those that were measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ele_core.experiments.reproduce.plan import Job
from ele_core.experiments.study import Row


@dataclasses.dataclass(frozen=True)
class Forecast:
    """Times of jobs at one scale."""

    scale: str
    rows: Mapping[str, Row]
    records: Sequence[Mapping[str, Any]]
    """What was measured, with whatever seed."""

    def seconds(self, jobs: Sequence[Job]) -> float | None:
        """Of some jobs together; none where neither a declared nor a measured time is known of one of them."""
        times = [self._seconds(job) for job in jobs]
        return None if None in times else sum(time for time in times if time is not None)

    def _seconds(self, job: Job) -> float | None:
        same = [spent(record) for record in self.records if record["row"] == job.row.name]
        if same:
            return sum(same) / len(same)
        declared = job.row.minutes.get(self.scale)
        return None if declared is None else 60 * declared * self._pace()

    def _pace(self) -> float:
        """How much slower this machine is than declared."""
        pairs = [(spent(record), self.rows[record["row"]].minutes.get(self.scale)) for record in self.records]
        known = [(seconds, 60 * minutes) for seconds, minutes in pairs if minutes]
        return sum(seconds for seconds, _ in known) / sum(declared for _, declared in known) if known else 1.0


def spent(record: Mapping[str, Any]) -> float:
    """Seconds from the start of the job to its record, those before an interruption included."""
    return float(record.get("wall_seconds", 0.0))


def in_words(seconds: float | None) -> str:
    """A duration as one says it."""
    if seconds is None:
        return "an unknown time"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
