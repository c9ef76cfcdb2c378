"""Metrics by a property of the truths, such as the number of atoms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from ele_core.errors import ConfigError
from ele_core.interfaces import OutputSpace

MOST = 100
"""The most different values of a property by which metrics are grouped."""

Groups = list[dict[str, Any]]
"""For each value of a property, in increasing order: the `value`, the number of `examples`, the mean `metrics`."""


def by_properties(space: OutputSpace[Any, Any], truths: Any, values: Mapping[str, Tensor]) -> dict[str, Groups]:
    """Group each metric, one value per example, by every property of the space that has few different values."""
    columns = space.show.properties(truths)
    return {name: grouped(column, values) for name, column in columns.items() if len(column.unique()) <= MOST}


def property_of(space: OutputSpace[Any, Any], batch: Any, name: str) -> Tensor:
    """One number per structure: the property `name`. Raise `ConfigError` if the output space does not have it."""
    columns = space.show.properties(batch)
    if name not in columns:
        known = f"these outputs have {', '.join(columns)}" if columns else "these outputs have none"
        raise ConfigError(f"there is no property {name!r}: {known}.", where="--by")
    return columns[name]


def grouped(column: Tensor, values: Mapping[str, Tensor]) -> Groups:
    """Mean metrics of the examples with equal entries of `column`."""
    kinds, place = column.cpu().unique(return_inverse=True)
    counts = torch.bincount(place, minlength=len(kinds))
    means = {name: torch.bincount(place, own.cpu().double(), len(kinds)) / counts for name, own in values.items()}
    return [
        {"value": kind, "examples": int(count), "metrics": {name: float(mean[k]) for name, mean in means.items()}}
        for k, (kind, count) in enumerate(zip(kinds.tolist(), counts, strict=True))
    ]


def as_lines(name: str, groups: Groups) -> list[str]:
    """The groups as lines of a table: the property, the number of examples, and each metric."""
    metrics = list(groups[0]["metrics"]) if groups else []
    rows: list[Sequence[str]] = [(name, "examples", *metrics)]
    rows += [
        (f"{each['value']:g}", f"{each['examples']:,}", *(f"{value:.4f}" for value in each["metrics"].values()))
        for each in groups
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.rjust, row, widths)) for row in rows]
