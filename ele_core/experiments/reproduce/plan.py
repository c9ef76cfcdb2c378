"""The jobs of a study: their configurations, the names of their runs and records, and why rows cannot be run."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ele_core import config as configuration
from ele_core.config import RunConfig
from ele_core.config.diff import training_options
from ele_core.errors import ConfigError, DataError, EleError, PluginError, closest
from ele_core.experiments.study import Paths, Row, ShareSweep, Study
from ele_core.files.archive import digest
from ele_core.plugins import Registry
from ele_core.plugins import registry as installed
from ele_core.sources import Task
from ele_core.types import Reference

EMBEDDING = ("seed", "task.", "data.", "output.", "surrogate.")
"""The options that a learned loss depends on."""


@dataclasses.dataclass(frozen=True)
class Job:
    """One row with one seed."""

    row: Row
    seed: int
    limit: int | None
    config: RunConfig
    """The configuration that is run."""
    shown: RunConfig
    """The same as a record shows it: files by name, without their folders."""
    files: Mapping[str, str]
    """The digests of the files that it reads, by name."""
    details: Mapping[str, Any]
    """Other settings that the result depends on, such as the lines of a sweep."""

    @property
    def name(self) -> str:
        """Row and seed, for messages."""
        return f"{self.row.name}, seed {self.seed}"

    @property
    def slug(self) -> str:
        """Row and seed, for file names."""
        return f"{slug(self.row.name)}-seed{self.seed}"

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that the result depends on: a record with the same settings is not measured again."""
        config = self.shown.model_dump(mode="json", exclude={"device", "recipe"})
        settings = {"config": config, "limit": self.limit, "files": dict(self.files), **self.details}
        return json.loads(json.dumps(settings))  # type: ignore[no-any-return]  # equal to what is read back

    @property
    def training(self) -> str:
        """A hash that names the run: equal if the training is the same."""
        return hashed([training_options(self.shown), self.files])

    @property
    def embedding(self) -> str:
        """A hash that names the learned loss: equal if outputs and surrogate are the same."""
        options = {path: value for path, value in training_options(self.shown).items() if path.startswith(EMBEDDING)}
        return hashed([options, self.files])


@dataclasses.dataclass(frozen=True)
class File:
    """A file that the user gave, and a digest of what is in it."""

    path: Path
    digest: str


@dataclasses.dataclass(frozen=True)
class Plan:
    """Every job of a study at one scale, and the rows that cannot be run here."""

    task: str
    study: Study
    scale: str
    jobs: Sequence[Job]
    skipped: Mapping[str, str]
    """Rows that cannot be run here, requested or not → why, as the end of a message."""
    current: Mapping[str, Mapping[str, Any]]
    """The settings, without the seed, of every row that can be run, requested or not."""
    references: Mapping[str, Reference]
    """The published results of the task, by name."""


def find_study(name: str, registry: Registry | None = None) -> tuple[str, Study]:
    """Find the study called `name` and its task; write TASK/NAME if several tasks have a study of that name."""
    known = registry or installed()
    found = [(task, study) for task in known.names("task") for study in _studies(task, known)]
    fitting = [(task, study) for task, study in found if name in (study.name, f"{task}/{study.name}")]
    if len(fitting) == 1:
        return fitting[0]
    names = [f"{task}/{study.name}" if fitting else study.name for task, study in fitting or found]
    what = f"several tasks have a study '{name}'." if fitting else f"no task has a study '{name}'{closest(name, names)}"
    raise ConfigError(what, where="STUDY", fix=f"Studies: {', '.join(names) or 'none'}.")


def make_plan(
    task: str,
    study: Study,
    scale: str | None = None,
    seeds: Sequence[int] = (),
    rows: Sequence[str] = (),
    files: Mapping[str, str] | None = None,
    registry: Registry | None = None,
) -> Plan:
    """Plan the jobs of a study: all rows of one seed come before the next seed."""
    chosen = scale or next(iter(study.scales))
    if chosen not in study.scales:
        fix = f"Scales of {study.name}: {', '.join(study.scales)}."
        raise ConfigError(f"there is no scale '{chosen}'.", where="--scale", fix=fix)
    given, wanted = given_files(study, files or {}), chosen_rows(study, rows)
    registry = registry or installed()
    published: type[Task] = registry.get("task", task)
    references = {reference.name: reference for reference in published.references}
    check_references(task, list(references), study)
    reasons = {row.name: missing(row, given) for row in study.rows}
    skipped = {name: reason for name, reason in reasons.items() if reason is not None}
    unable = [name for name in skipped if name in wanted]
    if unable and (rows or len(unable) == len(wanted)):
        raise ConfigError(f"the row '{unable[0]}' {skipped[unable[0]]}", where="--row" if rows else study.name)
    jobs = []
    for seed in dict.fromkeys(seeds or study.scales[chosen].seeds):
        for row in study.rows:
            try:
                jobs += [make_job(task, study, chosen, row, seed, given, registry)] if row.name not in skipped else []
            except EleError as error:
                if row.name in wanted:
                    raise ConfigError(str(error), where=f"row '{row.name}' of {study.name}") from error
    current = {job.row.name: without_seed(job.settings) for job in jobs}
    own = [job for job in jobs if job.row.name in wanted]
    return Plan(task, study, chosen, own, skipped, current, references)


def check_references(task: str, known: Sequence[str], study: Study) -> None:
    """Refuse a study with a row whose published reference does not exist."""
    for row in study.rows:
        if row.reference is not None and row.reference not in known:
            what = f"there is no reference '{row.reference}'{closest(row.reference, known)}"
            fix = f"References of {task}: {', '.join(known) or 'none'}."
            raise ConfigError(what, where=f"row '{row.name}' of {study.name}", fix=fix)


def make_job(
    task: str, study: Study, scale: str, row: Row, seed: int, files: Mapping[str, File], registry: Registry
) -> Job:
    """Make the job of one row and one seed; unknown options and components raise."""
    own = [*study.scales[scale].overrides, *row.overrides, *row.scales.get(scale, ()), f"seed={seed}"]
    real = [f"{study.files[name]}={json.dumps(str(files[name].path))}" for name in row.files]
    shown = [f"{study.files[name]}={json.dumps(files[name].path.name)}" for name in row.files]
    return Job(
        row,
        seed,
        row.limits.get(scale, study.scales[scale].limit),
        configuration.load(task, [*own, *real], registry),
        configuration.load(task, [*own, *shown], registry),
        {name: files[name].digest for name in row.files},
        details_of(study, row),
    )


def details_of(study: Study, row: Row) -> dict[str, Any]:
    """The settings of a figure or a row that are not in its configuration."""
    if isinstance(study, ShareSweep):
        return {"lines": {line: list(options) for line, options in study.lines.items()}}
    if isinstance(study, Paths):
        return {"examples": study.examples, "pictures": study.pictures}
    rival = {"rival": row.rival.settings} if row.rival else {}
    given = {"given": list(row.given)} if row.given else {}
    return {**rival, **given, **({"oracle": True} if row.oracle else {})}


def missing(row: Row, files: Mapping[str, File]) -> str | None:
    """Which file or package a row lacks, as the end of a message; None if it can be run."""
    for name in row.files:
        if name not in files:
            return f"needs --file {name}=PATH."
    for module, extra in row.packages.items():
        if find_spec(module) is None:
            return f"needs the package {module}: pip install 'explicit-loss-embedding[{extra}]'"
    return None


def chosen_rows(study: Study, names: Sequence[str]) -> set[str]:
    """The names of the requested rows, compared by their slugs; all rows if `names` is empty."""
    known = {slug(row.name): row for row in study.rows}
    for name in names:
        if slug(name) not in known:
            rows = ", ".join(f"'{row.name}'" for row in study.rows)
            hint = closest(name, [row.name for row in study.rows])
            raise ConfigError(f"there is no row '{name}'{hint}", where="--row", fix=f"Rows: {rows}.")
    wanted = {slug(name) for name in names} or set(known)
    return {row.name for short, row in known.items() if short in wanted}


def given_files(study: Study, files: Mapping[str, str]) -> dict[str, File]:
    """The files that the user gave, with digests; unknown names and missing files raise."""
    for name, path in files.items():
        if name not in study.files:
            what = f"{study.name} takes no file '{name}'{closest(name, list(study.files))}"
            raise ConfigError(what, where="--file", fix=f"Files of {study.name}: {', '.join(study.files) or 'none'}.")
        if not Path(path).exists():
            raise DataError("there is no such file.", where=path, fix=f"Give --file {name}= a path that exists.")
    return {name: File(Path(path).absolute(), digest_of(Path(path))) for name, path in files.items()}


def without_seed(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings that records of several seeds share."""
    return {**settings, "config": {name: value for name, value in settings["config"].items() if name != "seed"}}


def digest_of(path: Path) -> str:
    """A digest of a file, or of all files in a folder."""
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    return hashed([[file.name, digest(file.resolve())] for file in files])


def hashed(value: Any) -> str:
    """A short hash of a value that JSON can hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def slug(name: str) -> str:
    """A name as part of a file name: "ELE + ONNPT" → ele-onnpt."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _studies(task: str, registry: Registry) -> Sequence[Study]:
    try:
        return registry.get("task", task).studies  # type: ignore[no-any-return]  # a class of the registry
    except PluginError:  # a task that cannot be imported has no studies to show
        return ()
