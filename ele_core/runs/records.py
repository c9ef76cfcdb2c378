"""Records: an evaluation as a JSON file, with its data, metrics and versions, from which tables are made."""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from ele_core import __version__
from ele_core.config import RunConfig, components
from ele_core.files.atomic import write_text
from ele_core.model.evaluate import Evaluation
from ele_core.model.groups import Groups, by_properties
from ele_core.runs.folder import SPLITS, training_seconds
from ele_core.runs.run import Run

DIGITS = 6


def record(
    file: Path, run: Run, result: Evaluation, *, command: Sequence[str], split: str, oracle: bool, seconds: float
) -> None:
    """Write an evaluation with everything needed to reproduce it; `command` are the arguments of `ele`."""
    content = {
        **measurement(run, result, command=command, split=split, oracle=oracle, seconds=seconds),
        "by_property": rounded_groups(run, result),
        "training_seconds": training_seconds(run.folder),
        "config": run.config.model_dump(mode="json"),
    }
    write_text(file, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


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
