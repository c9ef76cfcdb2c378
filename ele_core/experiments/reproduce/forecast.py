"""Forecast of the remaining time: declared times, corrected by measured ones."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ele_core.experiments.reproduce.plan import Job
from ele_core.experiments.study import Row


@dataclasses.dataclass(frozen=True)
class Forecast:
    """Expected times of jobs at one scale."""

    scale: str
    rows: Mapping[str, Row]
    records: Sequence[Mapping[str, Any]]
    """Records of finished jobs, of any seed."""

    def seconds(self, jobs: Sequence[Job]) -> float | None:
        """Seconds for all `jobs` together; None if one of them has neither a declared nor a measured time."""
        times = [self._seconds(job) for job in jobs]
        return None if None in times else sum(time for time in times if time is not None)

    def _seconds(self, job: Job) -> float | None:
        same = [spent(record) for record in self.records if record["row"] == job.row.name]
        if same:
            return sum(same) / len(same)
        declared = job.row.minutes.get(self.scale)
        return None if declared is None else 60 * declared * self._pace()

    def _pace(self) -> float:
        """Measured time of the finished jobs, divided by their declared time; 1 if nothing is known."""
        pairs = [(spent(record), self.rows[record["row"]].minutes.get(self.scale)) for record in self.records]
        known = [(seconds, 60 * minutes) for seconds, minutes in pairs if minutes]
        return sum(seconds for seconds, _ in known) / sum(declared for _, declared in known) if known else 1.0


def spent(record: Mapping[str, Any]) -> float:
    """Seconds from the start of the job to its record, including those before an interruption."""
    return float(record.get("wall_seconds", 0.0))
