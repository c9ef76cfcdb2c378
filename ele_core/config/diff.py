"""Compare two configurations option by option, by dotted path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ele_core.config.schema import RunConfig
from ele_core.errors import ConfigError

DECODING = ("decoder", "constraints", "candidates", "device")
"""The sections of a configuration that training does not depend on."""
PLACE = "start.name"
"""Where the model to start from is, which training does not depend on either: its digest says which it is."""


def training_options(config: RunConfig) -> dict[str, Any]:
    """Return every option that training depends on, by its path."""
    options = flatten(config.model_dump(mode="json", exclude={*DECODING, "recipe"}))
    return {path: value for path, value in options.items() if path != PLACE}


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
