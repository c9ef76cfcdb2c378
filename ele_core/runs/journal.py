"""What a training wrote line by line: `metrics.jsonl` and `times.jsonl`; and whether they were changed afterwards."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from ele_core.errors import ModelError
from ele_core.files.archive import MANIFEST, brief, digest, read_json, read_text, write_manifest
from ele_core.runs.folder import CONFIG, DATA, IDENTITY

METRICS, TIMES = "metrics.jsonl", "times.jsonl"
SEALED = (CONFIG, DATA, IDENTITY, METRICS, TIMES)
"""The files of a run folder that do not change after the training."""


def read_journal(file: Path) -> list[dict[str, Any]]:
    """Read the records of a JSONL file of evaluations; an empty list if there is no file.

    A last line that was written in part is left out: the training was killed.
    """
    if not file.exists():
        return []
    *lines, last = read_text(file).split("\n")
    lines += [last] if last.endswith("}") else []
    try:
        records = [json.loads(line) for line in lines if line.strip()]
        if not all(isinstance(r, dict) and isinstance(r["stage"], str) and isinstance(r["step"], int) for r in records):
            raise ValueError("a line is not an evaluation")
        if file.name == TIMES and not all(is_time(record["seconds"]) for record in records):
            raise ValueError("a line has no time")
    except (ValueError, KeyError, RecursionError) as error:
        raise ModelError(f"damaged: {brief(error)}.", where=str(file), fix="Remove the file.") from None
    return records


def is_time(value: object) -> bool:
    """Whether a value is a number of seconds."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def stage_seconds(folder: Path) -> dict[str, float]:
    """Return when each stage of a training wrote its last line, in seconds since the start."""
    return {record["stage"]: float(record["seconds"]) for record in read_journal(folder / TIMES)}


def training_seconds(folder: Path) -> float | None:
    """Return the wall time of the training: the last time that the run recorded, or None."""
    return next((float(record["seconds"]) for record in reversed(read_journal(folder / TIMES))), None)


def seal_journal(folder: Path) -> None:
    """Write the manifest of a run folder, when its training has ended."""
    write_manifest(folder, [folder / name for name in SEALED if (folder / name).exists()])


def changed_files(folder: Path) -> list[str]:
    """Return the files of a finished run that are not what the training wrote; the manifest if it is missing."""
    if not (folder / MANIFEST).exists():
        return [MANIFEST]
    manifest = read_json(folder / MANIFEST)
    files = manifest.get("files") if isinstance(manifest, dict) else None
    if not isinstance(files, dict):
        raise ModelError("not a manifest.", where=str(folder / MANIFEST))
    entries = {name: files.get(name) for name in SEALED}
    written = {name: entry.get("sha256") if isinstance(entry, dict) else None for name, entry in entries.items()}
    return [name for name in SEALED if written[name] != (digest(folder / name) if (folder / name).exists() else None)]
