"""Measurements as JSON files: evaluations of a run with their tables of predictions, and records to reproduce them."""

from __future__ import annotations

import csv
import dataclasses
import datetime
import hashlib
import io
import json
import os
import platform
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ele_core import __version__
from ele_core.config import RunConfig, components
from ele_core.data.prepare import Prepared
from ele_core.data.truths import Truths
from ele_core.errors import DataError, ModelError
from ele_core.files.archive import brief, digest, read_json, read_text
from ele_core.files.atomic import write_text
from ele_core.files.tables import as_csv
from ele_core.files.text_tables import unguarded
from ele_core.interfaces import Decoder, OutputSpace
from ele_core.model.evaluate import OTHERS, Baselines, Evaluation, baselines, behind
from ele_core.model.metrics import Groups, by_properties
from ele_core.model.results import CONFIDENCE, EXPECTED
from ele_core.runs.folder import PREDICTIONS, SPLITS, training_seconds
from ele_core.runtime.context import Context

if TYPE_CHECKING:
    from ele_core.runs.run import Run

DIGITS = 6
"""The decimals of metrics in a record."""
FORMAT = 1
"""The version of the JSON file's layout; files of other versions are ignored."""
LARGEST_TABLE = 1 << 30
"""Bytes of the largest table of predictions that is read."""

TEXTS = ("input", "prediction", "truth", OTHERS, "energy", CONFIDENCE)
"""The columns of the table that are no metrics."""

Measurement = dict[str, Any]
"""What was measured, on what, and how, as JSON holds it."""
Settings = Mapping[str, Any]
"""What was evaluated: `split`, `limit` and `oracle`; and `given`, if predictions had to satisfy constraints."""


@dataclasses.dataclass(frozen=True)
class StoredEvaluation:
    """One evaluation of a run, as `ele evaluate` stored it."""

    file: Path
    """The table of predictions."""
    key: str
    """Equal if model, decoder, versions and settings are equal."""
    settings: Settings
    decoder: Mapping[str, Any]
    candidates: Mapping[str, Any]
    metrics: Mapping[str, float]
    date: str
    baselines: Baselines = dataclasses.field(default_factory=dict)
    """Means of the metrics of predictions without a model; empty in evaluations from true embeddings."""
    result: Evaluation | None = dataclasses.field(default=None, repr=False, compare=False)
    """The evaluation itself, if it was made in this process: queries and structures need not be computed again."""
    table: list[dict[str, str]] | None = dataclasses.field(default=None, repr=False, compare=False)
    """The rows, if they were written in this process."""
    trust: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """What confidence and prediction sets are worth on these examples; empty if the model is not calibrated."""
    rivals: Baselines = dataclasses.field(default_factory=dict)
    """Means of the metrics of rivals on the same pairs, if they were measured, and the processor time of each."""

    @property
    def others(self) -> Baselines:
        """All that the model should beat: baselines and rivals."""
        return {**self.baselines, **self.rivals}

    @property
    def name(self) -> str:
        """The decoder or its variant, as in the name of the file."""
        return self.file.stem.removeprefix(f"{self.settings['split']}-").removesuffix("-oracle")

    @property
    def rows(self) -> list[dict[str, str]]:
        """One mapping per example: input, prediction, truth, energy and each metric."""
        if self.table is not None:
            return self.table
        rows = csv.DictReader(io.StringIO(read_text(self.file, LARGEST_TABLE), newline=""))
        return [{name: unguarded(cell or "") for name, cell in row.items() if name is not None} for row in rows]

    def measured(self, space: OutputSpace[Any, Any]) -> tuple[Any, dict[str, Tensor]]:
        """The truths, packed by `space`, and each metric with one value per example."""
        rows, parse = self.rows, space.texts.parse
        names = [name for name in rows[0] if not (name in TEXTS or name.startswith(EXPECTED))] if rows else []
        values = {name: torch.tensor([float(row[name]) for row in rows]) for name in names}
        return space.pack([parse(row["truth"]) for row in rows]), values


class MeasuredBaselines:
    """Baselines that are measured once for all decoders that are evaluated on the same pairs."""

    def __init__(self) -> None:
        self.known: dict[bytes, Baselines] = {}

    def __call__(self, prepared: Prepared, rows: Tensor, truths: Truths, context: Context) -> Baselines:
        """Measure the baselines on the examples at `rows`, or return those measured before."""
        same = rows.numpy().tobytes()
        if same not in self.known:
            self.known[same] = baselines(prepared, rows, truths, context)
        return self.known[same]


def settings_of(split: str, limit: int | None, oracle: bool, given: Sequence[str] = ()) -> Settings:
    """The settings of an evaluation; `given` are the names of constraints."""
    constrained = {"given": sorted(given)} if given else {}
    return {"split": split, "limit": limit, "oracle": oracle, **constrained}


def file_name(config: RunConfig, settings: Settings) -> str:
    """The name of an evaluation's files, without suffix: SPLIT-DECODER, or SPLIT-VARIANT for a variant of a decoder.

    It ends in `-given-NAME` if predictions had to satisfy a constraint, and in `-oracle`.
    """
    given = "".join(f"-given-{name}" for name in settings.get("given", ()))
    decoder = variant_name(config).replace(":", "-")
    return f"{settings['split']}-{decoder}{given}{'-oracle' if settings['oracle'] else ''}"


def variant_name(config: RunConfig) -> str:
    """The name of the declared variant that the decoder's options select; the decoder's name if it is the default."""
    decoder: type[Decoder] = config.registry.get("decoder", config.decoder.name)
    fields, chosen = decoder.Config.model_fields, config.decoder.options
    for variant in decoder.variants:
        special = {name: value for name, value in variant.options.items() if fields[name].default != value}
        if special and all(chosen.get(name) == value for name, value in variant.options.items()):
            plugin, colon, _ = config.decoder.name.rpartition(":")
            return f"{plugin}{colon}{variant.name}"
    return config.decoder.name


def store(
    run: Path, key: str, settings: Settings, config: RunConfig, rows: list[dict[str, str]], result: Evaluation
) -> StoredEvaluation:
    """Write `predictions/SPLIT-DECODER.csv`, and a JSON file beside it with the means and the digest of the table."""
    file = run / PREDICTIONS / f"{file_name(config, settings)}.csv"
    table = as_csv(rows)
    write_text(file, table)
    decoder, candidates = (part.model_dump(mode="json") for part in (result.decoder, config.candidates))
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    content = {
        "format": FORMAT,
        "key": key,
        "settings": dict(settings),
        "decoder": decoder,
        "candidates": candidates,
        "metrics": result.metrics,
        "baselines": result.baselines,
        **({"behind": result.behind} if result.behind else {}),
        **({"trust": result.assessment} if result.assessment else {}),
        "date": date,
        "table": hashlib.sha256(table.encode()).hexdigest(),
    }
    seal(file.with_suffix(".json"), content)
    found = file, key, settings, decoder, candidates, result.metrics, date, result.baselines
    return StoredEvaluation(*found, result, rows, result.assessment)


def seal(file: Path, content: Measurement) -> None:
    """Write the JSON file of an evaluation, with its digest."""
    write_measurements(file, {**content, "digest": digest_of(content)})


def with_rival(
    stored: StoredEvaluation, space: OutputSpace[Any, Any], name: str, means: Mapping[str, float]
) -> StoredEvaluation:
    """Return a stored evaluation with the metrics of one more rival, also in its JSON file."""
    found = dataclasses.replace(stored, rivals={**stored.rivals, name: means})
    told = behind(space, found.metrics, found.others)
    file = stored.file.with_suffix(".json")
    seal(file, {**read_json(file), "rivals": found.rivals, **({"behind": told} if told else {})})
    return found


def digest_of(content: Mapping[str, Any]) -> str:
    """The SHA-256 of an evaluation's JSON file, whatever its layout, without the digest itself."""
    rest = {name: value for name, value in content.items() if name != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def changed(run: Path) -> list[str]:
    """Return the files of evaluations that were changed after they were written; their evaluations are not loaded."""
    found = []
    for file in sorted((run / PREDICTIONS).glob("*.json")):
        content, table = read_json(file), file.with_suffix(".csv")
        if not isinstance(content, dict) or content.get("digest") != digest_of(content):
            found.append(f"{PREDICTIONS}/{file.name}")
        elif table.exists() and content.get("table") != digest(table):
            found.append(f"{PREDICTIONS}/{table.name}")
    return found


def find(run: Path, key: str) -> StoredEvaluation | None:
    """Load the evaluation with this key; None if there is none or it was changed."""
    for file in sorted((run / PREDICTIONS).glob("*.json")):
        with suppress(ModelError):  # a damaged file is another evaluation's, or one that is going to be replaced
            stored = load(file)
            if stored is not None and stored.key == key:
                return stored
    return None


def load_all(run: Path) -> list[StoredEvaluation]:
    """Load every evaluation of a run that was not changed, in the order of their names."""
    found = [load(file) for file in sorted((run / PREDICTIONS).glob("*.json"))]
    return [stored for stored in found if stored is not None]


def load(file: Path) -> StoredEvaluation | None:
    """Load the evaluation that a JSON file describes; None if a file is missing, or it or its table was changed."""
    table = file.with_suffix(".csv")
    if not file.exists() or not table.exists():
        return None
    content = read_json(file)
    if not isinstance(content, dict) or content.get("format") != FORMAT or content.get("table") != digest(table):
        return None
    if content.get("digest") != digest_of(content):
        return None
    try:
        metrics = {str(name): float(value) for name, value in content["metrics"].items()}
        parts = [dict(content[part]) for part in ("settings", "decoder", "candidates")]
        baselines, rivals = (as_means(content.get(part, {})) for part in ("baselines", "rivals"))
        found = table, str(content["key"]), parts[0], parts[1], parts[2], metrics, str(content["date"])
        return StoredEvaluation(*found, baselines, trust=dict(content.get("trust", {})), rivals=rivals)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"damaged: {brief(error)}.", where=str(file), fix="Remove it, and evaluate again.") from None


def as_means(content: Mapping[str, Mapping[str, Any]]) -> Baselines:
    """Means of metrics by name, as a JSON file holds them."""
    return {str(name): {str(m): float(v) for m, v in means.items()} for name, means in content.items()}


# -- any measurement ----------------------------------------------------------------------------------------------


def write_measurements(file: Path, content: Measurement | Sequence[Measurement]) -> None:
    """Write one measurement, or several, as JSON."""
    write_text(file, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def read_measurements(file: Path, what: str, settings: str) -> list[Measurement]:
    """Read the measurements of a JSON file, one or a list of them; none if there is no file.

    Refuse a file that is not `what` it should be: one whose measurements do not have `settings`.
    """
    if not file.exists():
        return []
    try:
        content = read_json(file)
    except ModelError as error:
        raise DataError(error.what, where=str(file), fix="Remove it to measure again.") from None
    found = content if isinstance(content, list) else [content]
    if not all(isinstance(each, dict) and settings in each for each in found):
        raise DataError(f"not {what}.", where=str(file), fix="Choose another folder with -o.")
    return found


def record(
    file: Path,
    run: Run,
    result: Evaluation,
    *,
    command: Sequence[str],
    split: str,
    oracle: bool,
    seconds: float,
    rivals: Baselines,
) -> None:
    """Write an evaluation with everything needed to reproduce it; `command` are the arguments of `ele`."""
    content = {
        **measurement(run, result, command=command, split=split, oracle=oracle, seconds=seconds),
        **({"rivals": rivals} if rivals else {}),
        "by_property": rounded_groups(run, result),
        "training_seconds": training_seconds(run.folder),
        "config": run.config.model_dump(mode="json"),
    }
    write_measurements(file, content)


def rounded_groups(run: Run, result: Evaluation) -> dict[str, Groups]:
    """Return the mean metrics for each value of each property of the truths, such as the number of atoms."""
    found = by_properties(run.space, result.truths, result.values)
    return {
        name: [{**each, "metrics": {m: round(v, DIGITS) for m, v in each["metrics"].items()}} for each in groups]
        for name, groups in found.items()
    }


def measurement(
    run: Run, result: Evaluation, *, command: Sequence[str], split: str, oracle: bool, seconds: float
) -> dict[str, Any]:
    """Return an evaluation as JSON values: what was run, on what, and the metrics; without how the run was trained."""
    return {
        **circumstances(run.config, run.provenance, command=command, seconds=seconds),
        "split": split,
        "oracle": oracle,
        **({"given": list(result.given)} if result.given else {}),
        "decoder": result.decoder.model_dump(mode="json"),
        "metrics": {name: round(value, DIGITS) for name, value in result.metrics.items()},
    }


def circumstances(
    config: RunConfig, data: Mapping[str, Any], *, command: Sequence[str], seconds: float
) -> dict[str, Any]:
    """Return the command, date, data, machine, versions and duration of a measurement.

    `data` holds the `source`, the `fingerprint` and the rows of each split.
    """
    return {
        "command": shlex.join(["ele", *command]),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "task": config.task.name if config.task else None,
        "source": data["source"],
        "fingerprint": data["fingerprint"],
        "seed": config.seed,
        "sizes": {name: len(data[name]) for name in SPLITS},
        "seconds": seconds,
        "machine": {"processor": platform.machine(), "cores": os.cpu_count(), "threads": torch.get_num_threads()},
        "versions": {"ele": __version__, "python": platform.python_version(), **packages_in_use(config)},
    }


def packages_in_use(config: RunConfig) -> dict[str, str]:
    """Return the versions of the imported packages among those that the plugins of a configuration require."""
    providers = {config.registry.provider(kind, name).distribution for kind, name in components(config)}
    required = {canonical(line) for name in providers if name for line in metadata.requires(name) or ()}
    modules = metadata.packages_distributions()
    imported = {name for module in list(sys.modules) for name in modules.get(module, ())}
    return {name: metadata.version(name) for name in sorted(imported - providers) if canonical(name) in required}


def canonical(requirement: str) -> str:
    """Return the normalised name of the distribution that a requirement names."""
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    return re.sub(r"[-_.]+", "-", found[0]).lower() if found else ""
