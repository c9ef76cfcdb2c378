"""Run a study of a paper: start missing jobs, resume interrupted ones, and keep the results of finished ones."""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ele_core import config as configuration
from ele_core.config import Overrides
from ele_core.data.prepare import prepare
from ele_core.display.pictures import Cell, sheet_png, sheet_svg
from ele_core.display.text import in_words
from ele_core.errors import ConfigError, Interrupted, closest, counted
from ele_core.experiments.reproduce.plan import Job, Plan, find_study, make_plan
from ele_core.experiments.reproduce.tables import ComparisonTable, read_record, read_records, up_to_date
from ele_core.experiments.rivals import CPU, measure_rival
from ele_core.experiments.study import Paths, Row, ShareSweep, Table
from ele_core.experiments.sweep import sweep
from ele_core.extras import installed, missing
from ele_core.files.atomic import locked, write_bytes, write_text
from ele_core.model.model import Model
from ele_core.runs.folder import SPLITS, stage_seconds, training_seconds, unfinished
from ele_core.runs.measurements import DIGITS, Measurement, circumstances, measurement, write_measurements
from ele_core.runs.run import Run, context_for
from ele_core.runtime.distributed import Processes
from ele_core.runtime.monitor import Monitor
from ele_core.types import Metric, Trace

__all__ = ["Plan", "Reproduction", "find_study", "make_plan"]


@dataclasses.dataclass(frozen=True)
class Reproduction:
    """A plan with its folders: records, tables and figures in `folder/STUDY-SCALE`, trained runs in `runs`."""

    plan: Plan
    folder: Path
    runs: Path
    monitor: Monitor
    again: bool = False
    """Remove the records and runs of these jobs first, and start over."""

    @property
    def results(self) -> Path:
        """The folder for the results of this study at this scale."""
        return self.folder / f"{self.plan.study.name}-{self.plan.scale}"

    def record_of(self, job: Job) -> Measurement | None:
        """The record of a job; None if there is none with the same settings."""
        file = self._file_of(job)
        record = read_record(file) if file.exists() else None
        return record if record is not None and record.get("settings") == job.settings else None

    def missing(self) -> list[Job]:
        """The jobs without a record."""
        return [job for job in self.plan.jobs if self.record_of(job) is None]

    def forecast(self) -> Forecast:
        """Estimate the times of jobs from the finished ones, of any seed."""
        rows = {row.name: row for row in self.plan.study.rows}
        return Forecast(self.plan.scale, rows, [record for record in self.records() if record["row"] in rows])

    def _forget(self) -> None:
        """Remove the records of the plan's jobs and the runs they were measured with."""
        for job in self.plan.jobs:
            self._file_of(job).unlink(missing_ok=True)
            shutil.rmtree(folder_of(job, self.plan, self.runs), ignore_errors=True)

    def run(self) -> list[Path]:
        """Run the missing jobs and write the table; return the files to look at."""
        if self.again:
            self._forget()
        for row, reason in self.plan.skipped.items():
            self.monitor.message(f"skipped: {row} {reason}")
        missing, count = self.missing(), len(self.plan.jobs)
        if len(missing) < count:
            done = count - len(missing)
            self.monitor.message(f"{done} of {counted(count, 'result')} already in {self.results}")
        with ExitStack() as stack:
            if missing:
                stack.enter_context(locked(self.results / "lock", f"reproducing {self.plan.study.name}"))
            for number, job in enumerate(missing, start=1):
                left = in_words(self.forecast().seconds(missing[number - 1 :]))
                self.monitor.message(f"{number} of {len(missing)}: {job.name}; about {left} left in all")
                self._carry_out(job)
        return self._write_tables() if isinstance(self.plan.study, Table) else sorted(self.results.rglob("*.svg"))

    def _carry_out(self, job: Job) -> None:
        """Train and measure a job, and write its record."""
        folder, started = folder_of(job, self.plan, self.runs), time.monotonic()
        before = (training_seconds(folder) or 0.0) if unfinished(folder) else 0.0
        try:
            if job.row.rival is not None:
                content = measured_rival(job, self._command(job), self.monitor)
            else:
                content = self._measured(job, trained(job, self.plan, self.runs, self.monitor))
        except Interrupted as stopped:
            fix = f"Run the same command again{', without --again,' if self.again else ''} to continue."
            where, number = str(self.results), stopped.exit_code - 128
            raise Interrupted(stopped.what, signal=number, where=where, fix=fix) from stopped
        record = {
            "study": self.plan.study.name,
            "row": job.row.name,
            "scale": self.plan.scale,
            **content,
            "training_seconds": training_seconds(folder),
            "stages": stage_seconds(folder),
            "wall_seconds": round(before + time.monotonic() - started, 3),
            "config": job.shown.model_dump(mode="json"),
            "settings": job.settings,
        }
        write_measurements(self._file_of(job), record)

    def _measured(self, job: Job, run: Run) -> dict[str, Any]:
        """Measure a job: metrics, a sweep, or drawings."""
        study, command, monitor = self.plan.study, self._command(job), self.monitor
        started = time.monotonic()
        if isinstance(study, ShareSweep):
            lines, folder = study.lines, self.results / job.slug
            done = sweep(
                run, folder, lines=list(lines), changes=lines, limit=job.limit, command=command, monitor=monitor
            )
            outcome: dict[str, Any] = {"sweep": done.records}
        elif isinstance(study, Paths):
            outcome = {"paths": draw_paths(study, run, decoding(job), self.results / job.slug, monitor)}
        else:
            oracle, given = job.row.oracle, job.row.given
            result = run.evaluate(oracle=oracle, given=given, limit=job.limit, overrides=decoding(job), monitor=monitor)
            if isinstance(study, Table):
                check_metrics(study, result.metrics)
            seconds = round(time.monotonic() - started, 1)
            return measurement(run, result, command=command, split="test", oracle=oracle, seconds=seconds)
        seconds = round(time.monotonic() - started, 1)
        return {**circumstances(run.config, run.provenance, command=command, seconds=seconds), **outcome}

    def _write_tables(self) -> list[Path]:
        """Write the table of all records with the current settings, of any seed."""
        study, plan = self.plan.study, self.plan
        assert isinstance(study, Table)
        known, records = read_records(self.results), self.records()
        if len(records) < len(known):
            others = counted(len(known) - len(records), "record")
            self.monitor.message(f"not in the table: {others} with other settings")
        made = ComparisonTable(study, plan.scale, records, plan.references, plan.skipped)
        files = {self.results / f"{study.name}.md": made.markdown(), self.results / f"{study.name}.tex": made.latex()}
        for file, text in files.items():
            write_text(file, text)
        return list(files)

    def records(self) -> list[Measurement]:
        """All records with the current settings, of any seed."""
        return up_to_date(read_records(self.results), self.plan.current)

    def _file_of(self, job: Job) -> Path:
        return self.results / f"{job.slug}.json"

    def _command(self, job: Job) -> list[str]:
        """The command that makes this record alone; files are given by name, without their folders."""
        options = self.plan.study.files
        config = job.shown.model_dump(mode="json")
        files = [word for name in job.row.files for word in ("--file", f"{name}={value_at(config, options[name])}")]
        what = ["reproduce", self.plan.study.name, "--scale", self.plan.scale, "--seeds", str(job.seed)]
        return [*what, "--row", job.row.name, *files]


def check_metrics(study: Table, measured: Mapping[str, float]) -> None:
    """Refuse a study whose table shows a metric that is not measured."""
    for name in study.metrics:
        if name not in measured:
            what = f"there is no metric '{name}'{closest(name, list(measured))}"
            raise ConfigError(what, where=study.name, fix=f"Metrics: {', '.join(measured)}.")


def value_at(tables: Any, path: str) -> str:
    """The value at a dotted path."""
    for key in path.split("."):
        tables = tables[key]
    return str(tables)


DECODER = {"decoder": "candidates", "candidates": {}}
"""What every run starts with: rows that share a run decode with their own."""


def trained(job: Job, plan: Plan, runs: Path, monitor: Monitor) -> Run:
    """Return the job's run, trained: start it, resume it, or reuse it if it is finished."""
    folder = folder_of(job, plan, runs)
    if unfinished(folder):
        return Run.resume(folder, monitor, registry=job.config.registry)
    if (folder / "model").is_dir():
        return Run(folder, job.config.registry)
    config = configuration.load({**job.config.given, **DECODER}, registry=job.config.registry)
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


def decoding(job: Job) -> dict[str, Any]:
    """The job's decoder with all its options, and its share of the candidates, as overrides of its run."""
    return job.config.model_dump(mode="json", include={"decoder", "candidates"})


def measured_rival(job: Job, command: Sequence[str], monitor: Monitor) -> dict[str, Any]:
    """Let the rival of a job learn and predict, and measure its predictions as those of a model."""
    rival = job.row.rival
    assert rival is not None
    context = context_for(job.config, monitor, Processes())
    prepared = prepare(job.config, context)
    started = time.monotonic()
    metrics = measure_rival(rival, prepared, context, limit=job.limit)
    seconds, cpu = round(time.monotonic() - started, 1), metrics.pop(CPU)
    metrics["examples"] = float(len(prepared.examples("test", job.limit)[0]))
    data = {name: getattr(prepared.data, name) for name in ("source", "fingerprint", *SPLITS)}
    return {
        **circumstances(job.config, data, command=command, seconds=seconds),
        "split": "test",
        "oracle": False,
        "rival": rival.settings,
        CPU: cpu,
        "metrics": {name: round(value, DIGITS) for name, value in metrics.items()},
    }


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


def draw_paths(study: Paths, run: Run, overrides: Overrides, target: Path, monitor: Monitor) -> list[dict[str, Any]]:
    """Decode a few test inputs, write `target`.svg and .png, and return what is drawn: one entry per input."""
    model = run.model(overrides)
    context = context_for(model.config, monitor, Processes())
    data = run.data(context).data
    rows = data.test[: study.examples]
    inputs, truths = data.inputs_at(rows), data.outputs[rows]
    trace = model.decode(model.queries(inputs), trace=True, context=context).trace
    if trace is None:
        fix = "Choose a decoder that can record one (Decoder.traces)."
        raise ConfigError(f"decoder '{model.config.decoder.name}' recorded no trace to draw.", where="decoder", fix=fix)
    chosen = evenly(len(trace.steps), study.pictures)
    followed = [follow(model, trace, number, chosen, truths) for number in range(len(inputs))]
    cells = [cells for _, cells in followed]
    write_text(target.with_suffix(".svg"), sheet_svg(cells))
    if installed("matplotlib"):
        write_bytes(target.with_suffix(".png"), sheet_png(cells))
    else:
        monitor.message(f"only an SVG was drawn: {missing('a PNG', 'matplotlib', 'figures')}")
    return [{"input": model.inputs.format(x), **entry} for x, (entry, _) in zip(inputs, followed, strict=True)]


def follow(
    model: Model, trace: Trace, number: int, chosen: Sequence[int], truths: Any
) -> tuple[dict[str, Any], list[Cell]]:
    """The chosen steps of one input, as numbers (structure, energy, metric) and as pictures, followed by the truth."""
    space = model.space
    metric: Metric[Any] = space.metrics[0]
    own = slice(number, number + 1)
    truth = space.unpack(truths[own])[0]
    steps, cells = [], []
    for place in chosen:
        batch, step = trace.structures[place][own], int(trace.steps[place])
        structure = space.unpack(batch)[0]
        energy, value = float(trace.energies[place][number]), float(metric.values(batch, truths[own])[0])
        steps.append({"step": step, "structure": space.texts.format(structure), "energy": energy, metric.name: value})
        caption = [f"step {step}", f"energy {energy:.3f}, {metric.name} {value:g}"]
        cells.append(Cell(space.show.render(structure, truth), caption))
    cells.append(Cell(space.show.render(truth), ["truth", space.texts.format(truth)]))
    return {"truth": space.texts.format(truth), "steps": steps}, cells


def evenly(count: int, pictures: int) -> list[int]:
    """At most `pictures` of `count` indices, evenly spaced from the first to the last."""
    if pictures >= count:
        return list(range(count))
    return [round(place * (count - 1) / (pictures - 1)) for place in range(pictures)] if pictures > 1 else [count - 1]
