"""The run of a job: trained, resumed, or taken as it is; and how the job decodes with it."""

from __future__ import annotations

from pathlib import Path

from ele_core.config import RunConfig, override
from ele_core.config.diff import flatten
from ele_core.experiments.reproduce.plan import Job, Plan
from ele_core.runs.folder import unfinished
from ele_core.runs.run import Run
from ele_core.runtime.monitor import Monitor

DECODER = {name: RunConfig.model_fields[name].default for name in ("decoder", "candidates")}
"""What a run is started with: rows that share it decode each in its own way, and none of them is the run's."""


def trained(job: Job, plan: Plan, runs: Path, monitor: Monitor) -> Run:
    """Whatever is left to do for the job's run, and the run."""
    folder = folder_of(job, plan, runs)
    if unfinished(folder):
        return Run.resume(folder, monitor, registry=job.config.registry)
    if (folder / "model").is_dir():
        return Run(folder, job.config.registry)
    config = job.config.model_copy(update=DECODER)
    donor = find_donor(job, plan, runs)
    if donor is None:
        return Run.start(config, folder, monitor)
    monitor.message(f"the learned loss of {donor.name} is taken over")
    return Run.start(config, folder, monitor, surrogate_from=Run(folder_of(donor, plan, runs), config.registry))


def folder_of(job: Job, plan: Plan, runs: Path) -> Path:
    """Where the job's run is: the same folder for the same training."""
    return runs / f"{plan.task}-{job.training}"


def find_donor(job: Job, plan: Plan, runs: Path) -> Job | None:
    """A job whose training has finished, with the same outputs and the same surrogate."""
    same = [other for other in plan.jobs if other.embedding == job.embedding]
    return next((other for other in same if (folder_of(other, plan, runs) / "model").is_dir()), None)


def decoding(job: Job) -> list[str]:
    """The job's decoder and share of candidates in full, as overrides of a run that was started with others."""
    options = flatten(job.config.decoder.model_dump(mode="json"))
    name = options.pop("name")
    share = f"candidates.share={job.config.candidates.share}"
    return [f"decoder={name}", *(override(f"decoder.{path}", value) for path, value in options.items()), share]
