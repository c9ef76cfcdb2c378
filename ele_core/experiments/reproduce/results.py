"""The records of a study: reading them, selecting those with current settings, means over seeds."""

from __future__ import annotations

import dataclasses
import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ele_core.errors import DataError, ModelError
from ele_core.experiments.reproduce.plan import without_seed
from ele_core.files.archive import read_json

Measurement = dict[str, Any]
"""The record of one row with one seed."""


@dataclasses.dataclass(frozen=True)
class Summary:
    """A metric over several seeds."""

    mean: float
    deviation: float | None
    """The standard deviation of a sample; None if there is only one value."""

    @classmethod
    def of(cls, values: Sequence[float]) -> Summary:
        """The mean and the standard deviation of some values."""
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None)


def read_records(folder: Path) -> list[Measurement]:
    """Read every record in a folder, ordered by file name."""
    return [read_record(file) for file in sorted(folder.glob("*.json"))]


def read_record(file: Path) -> Measurement:
    """Read a record; refuse a file that is not one, and do not change it."""
    try:
        record = read_json(file)
    except ModelError as error:
        raise DataError(error.what, where=str(file), fix="Remove it to measure again.") from None
    if not isinstance(record, dict) or not isinstance(record.get("settings"), dict):
        raise DataError("not a record of a study.", where=str(file), fix="Choose another folder with -o.")
    return record


def up_to_date(records: Sequence[Measurement], current: Mapping[str, Mapping[str, Any]]) -> list[Measurement]:
    """The records with the current settings of their row.

    If a row cannot be run now, its current settings are unknown: keep its records with the most frequent settings.
    """
    kept = []
    for row in dict.fromkeys(record["row"] for record in records):
        own = [record for record in records if record["row"] == row]
        texts = [json.dumps(without_seed(record["settings"]), sort_keys=True) for record in own]
        wanted = json.dumps(current[row], sort_keys=True) if row in current else max(texts, key=texts.count)
        kept += [record for record, text in zip(own, texts, strict=True) if text == wanted]
    return kept


def summaries(records: Sequence[Measurement], metrics: Sequence[str]) -> dict[str, Summary]:
    """Each metric over the records of one row."""
    values = {name: [r["metrics"][name] for r in records if name in r["metrics"]] for name in metrics}
    return {name: Summary.of(found) for name, found in values.items() if found}
