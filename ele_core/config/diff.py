"""Compare two configurations option by option, by dotted path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ele_core.config import RunConfig
from ele_core.config.schema import CalibrationConfig, SelectionConfig
from ele_core.errors import ConfigError

DECODING = ("decoder", "candidates", "device")
"""The sections of a configuration that training does not depend on."""

LATER: Mapping[str, Any] = {
    **{"epochs": None, "minutes": None, "optimiser": "adamw", "precision": "float32"},
    **{"average_views": False, "weigh_errors": False},
}
"""Options that version 0.1.0 did not have, by the last part of their path, with the value that changes nothing."""
ABSENT = object()


def settled(config: RunConfig) -> dict[str, Any]:
    """Return every option that training depends on, by its path.

    Options that version 0.1.0 did not have are left out if they do nothing: its runs are continued and found again.
    """
    idle = {"selection": SelectionConfig(), "calibration": CalibrationConfig()}
    unused = {name for name, section in idle.items() if getattr(config, name) == section}
    options = flatten(config.model_dump(mode="json", exclude={*DECODING, *unused}))
    return {path: value for path, value in options.items() if LATER.get(path.split(".")[-1], ABSENT) != value}


def flatten(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a nested table as dotted paths and values."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            flat |= {f"{key}.{path}": inner for path, inner in flatten(value).items()}
        else:
            flat[key] = value
    return flat


def changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """Return path → old and new value, for the options that differ."""
    paths = [path for path in {**then, **now} if then.get(path) != now.get(path)]
    return {path: f"{path}: {then.get(path)} → {now.get(path)}" for path in paths}


def refuse_training_changes(then: RunConfig, now: RunConfig) -> None:
    """Refuse overrides of a trained model that change more than how it decodes."""
    fixed = [name for name in RunConfig.model_fields if name not in (*DECODING, "calibration")]
    changed = [name for name in fixed if getattr(now, name) != getattr(then, name)]
    if changed:
        what = f"{', '.join(changed)} cannot change after training."
        raise ConfigError(what, where="--set", fix=f"Only {', '.join(DECODING)} can.")
