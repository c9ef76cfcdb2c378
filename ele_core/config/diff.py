"""How two configurations differ: nested options by dotted path, and which of them training depends on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ele_core.config import RunConfig

DECODING = ("decoder", "candidates", "device")
"""The sections of a configuration that matter after training."""


def settled(config: RunConfig) -> dict[str, Any]:
    """Every option that training depends on, by its path."""
    return flatten(config.model_dump(mode="json", exclude=set(DECODING)))


def flatten(table: Mapping[str, Any]) -> dict[str, Any]:
    """A nested table as dotted paths and values."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            flat |= {f"{key}.{path}": inner for path, inner in flatten(value).items()}
        else:
            flat[key] = value
    return flat


def changes(then: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """Path → what it was and what it is, where they differ."""
    paths = [path for path in {**then, **now} if then.get(path) != now.get(path)]
    return {path: f"{path}: {then.get(path)} → {now.get(path)}" for path in paths}
