"""Evaluations as files of a run: every prediction as CSV, and beside it what was measured, and on what."""

from __future__ import annotations

import csv
import dataclasses
import datetime
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ele_core.config import RunConfig
from ele_core.errors import ModelError
from ele_core.files.archive import brief, digest, read_json, read_text
from ele_core.files.atomic import write_text
from ele_core.files.tables import as_csv
from ele_core.model.evaluate import Evaluation

FOLDER = "predictions"
FORMAT = 1
"""The layout of the JSON file; any other is as if there were none."""
LARGEST_TABLE = 1 << 30
"""Bytes of the largest table of predictions that is read."""

Settings = Mapping[str, Any]
"""What was evaluated: `split`, `limit` and `oracle`."""


@dataclasses.dataclass(frozen=True)
class Outcome:
    """One evaluation of a run, as `ele evaluate` left it."""

    file: Path
    """The table of predictions."""
    key: str
    """The same for the same model, decoder, versions and settings."""
    settings: Settings
    decoder: Mapping[str, Any]
    candidates: Mapping[str, Any]
    metrics: Mapping[str, float]
    date: str

    @property
    def rows(self) -> list[dict[str, str]]:
        """Input, prediction, truth, energy and each metric, one mapping an example."""
        return list(csv.DictReader(io.StringIO(read_text(self.file, LARGEST_TABLE), newline="")))


def name_of(decoder: str, settings: Settings) -> str:
    """The name of an evaluation's files, without suffix."""
    return f"{settings['split']}-{decoder}{'-oracle' if settings['oracle'] else ''}"


def keep(
    run: Path, key: str, settings: Settings, config: RunConfig, rows: Sequence[Mapping[str, Any]], result: Evaluation
) -> None:
    """Write `predictions/SPLIT-DECODER.csv`, and a JSON file beside it with the means and the digest of the table."""
    name = name_of(config.decoder.name, settings)
    table = as_csv(rows)
    write_text(run / FOLDER / f"{name}.csv", table)
    content = {
        "format": FORMAT,
        "key": key,
        "settings": dict(settings),
        "decoder": result.decoder.model_dump(mode="json"),
        "candidates": config.candidates.model_dump(mode="json"),
        "metrics": result.metrics,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "table": hashlib.sha256(table.encode()).hexdigest(),
    }
    write_text(run / FOLDER / f"{name}.json", json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def kept(run: Path, key: str, decoder: str, settings: Settings) -> Outcome | None:
    """The outcome of this evaluation, if it was made before and its table is as it was written then."""
    outcome = read(run / FOLDER / f"{name_of(decoder, settings)}.json")
    return outcome if outcome is not None and outcome.key == key else None


def all_kept(run: Path) -> list[Outcome]:
    """Every evaluation of a run whose table is as it was written, by name."""
    found = [read(file) for file in sorted((run / FOLDER).glob("*.json"))]
    return [outcome for outcome in found if outcome is not None]


def read(file: Path) -> Outcome | None:
    """The outcome that a JSON file describes; none where there is none, or its table has changed."""
    table = file.with_suffix(".csv")
    if not file.exists() or not table.exists():
        return None
    content = read_json(file)
    if not isinstance(content, dict) or content.get("format") != FORMAT or content.get("table") != digest(table):
        return None
    try:
        metrics = {str(name): float(value) for name, value in content["metrics"].items()}
        parts = [dict(content[part]) for part in ("settings", "decoder", "candidates")]
        return Outcome(table, str(content["key"]), parts[0], parts[1], parts[2], metrics, str(content["date"]))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"damaged: {brief(error)}.", where=str(file), fix="Remove it, and evaluate again.") from None
