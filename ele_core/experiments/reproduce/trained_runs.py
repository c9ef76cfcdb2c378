"""The run of a job, started, resumed or reused, and the overrides with which the job decodes."""

from __future__ import annotations

from pathlib import Path

from ele_core.config import RunConfig, override
from ele_core.config.diff import flatten
from ele_core.experiments.reproduce.plan import Job, Plan
from ele_core.runs.folder import unfinished
from ele_core.runs.run import Run
from ele_core.runtime.monitor import Monitor

DECODER = {name: RunConfig.model_fields[name].default for name in ("decoder", "candidates")}
"""The defaults, with which every run starts: rows that share a run override them when they decode."""


def trained(job: Job, plan: Plan, runs: Path, monitor: Monitor) -> Run:
    """Return the job's run, trained: start it, resume it, or reuse it if it is finished."""
    folder = folder_of(job, plan, runs)
    if unfinished(folder):
        return Run.resume(folder, monitor, registry=job.config.registry)
    if (folder / "model").is_dir():
        return Run(folder, job.config.registry)
    config = job.config.model_copy(update=DECODER)
    donor = find_donor(job, plan, runs)
    if donor is None:
        return Run.start(config, folder, monitor)
    monitor.message(f"reusing the learned loss of {donor.name}")
    return Run.start(config, folder, monitor, surrogate_from=Run(folder_of(donor, plan, runs), config.registry))


def folder_of(job: Job, plan: Plan, runs: Path) -> Path:
    """The folder of the job's run: jobs with the same training share it."""
    return runs / f"{plan.task}-{job.training}"


def find_donor(job: Job, plan: Plan, runs: Path) -> Job | None:
    """A job with a finished run, the same outputs and the same surrogate; None if there is none."""
    same = [other for other in plan.jobs if other.embedding == job.embedding]
    return next((other for other in same if (folder_of(other, plan, runs) / "model").is_dir()), None)


def decoding(job: Job) -> list[str]:
    """The job's decoder with all its options, and its share of the candidates, as overrides of its run."""
    options = flatten(job.config.decoder.model_dump(mode="json"))
    name = options.pop("name")
    share = f"candidates.share={job.config.candidates.share}"
    return [f"decoder={name}", *(override(f"decoder.{path}", value) for path, value in options.items()), share]
