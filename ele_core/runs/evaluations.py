"""Evaluations stored in a run folder: every prediction as CSV, and beside it a JSON file with metrics and settings."""

from __future__ import annotations

import csv
import dataclasses
import datetime
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ele_core.config import RunConfig
from ele_core.data.prepare import Prepared
from ele_core.data.truths import Truths
from ele_core.errors import ModelError
from ele_core.files.archive import brief, digest, read_json, read_text
from ele_core.files.atomic import write_text
from ele_core.files.tables import as_csv
from ele_core.files.text_tables import unguarded
from ele_core.interfaces import Decoder, OutputSpace
from ele_core.model.baselines import Baselines, baselines
from ele_core.model.evaluate import OTHERS, Evaluation
from ele_core.model.results import CONFIDENCE, EXPECTED
from ele_core.runs.folder import PREDICTIONS
from ele_core.runtime.context import Context

FORMAT = 1
"""The version of the JSON file's layout; files of other versions are ignored."""
LARGEST_TABLE = 1 << 30
"""Bytes of the largest table of predictions that is read."""

TEXTS = ("input", "prediction", "truth", OTHERS, "energy", CONFIDENCE)
"""The columns of the table that are no metrics."""

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
        **({"trust": result.assessment} if result.assessment else {}),
        "date": date,
        "table": hashlib.sha256(table.encode()).hexdigest(),
    }
    content["digest"] = digest_of(content)
    write_text(file.with_suffix(".json"), json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    found = file, key, settings, decoder, candidates, result.metrics, date, result.baselines
    return StoredEvaluation(*found, result, rows, result.assessment)


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
        given = content.get("baselines", {}).items()
        baselines = {str(name): {str(m): float(v) for m, v in means.items()} for name, means in given}
        found = table, str(content["key"]), parts[0], parts[1], parts[2], metrics, str(content["date"])
        return StoredEvaluation(*found, baselines, trust=dict(content.get("trust", {})))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"damaged: {brief(error)}.", where=str(file), fix="Remove it, and evaluate again.") from None
