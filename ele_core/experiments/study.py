"""What a task declares about published experiments: tables and figures as data, which `ele reproduce` runs.

A row is a list of overrides, as `ele train --set` and `ele evaluate --set` take them. Rows whose options of training
are equal share one run, and rows whose outputs and surrogate are equal share the learned loss.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence


@dataclasses.dataclass(frozen=True)
class Scale:
    """How large an experiment is made."""

    summary: str
    """One sentence: how much data, and about how long it takes."""
    overrides: Sequence[str] = ()
    """Options of every row at this scale."""
    limit: int | None = None
    """Measure only so many test pairs; none: all of them."""
    seeds: Sequence[int] = (0,)
    """The seeds that are run when none are asked for."""


@dataclasses.dataclass(frozen=True)
class Row:
    """A method: one line of a table, or the model of a figure."""

    name: str
    overrides: Sequence[str] = ()
    """Options at every scale, on top of the scale's."""
    scales: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    """Further options by scale; the last word."""
    reference: str | None = None
    """The published result it stands beside, by its name among the task's references."""
    files: Sequence[str] = ()
    """Names of the study's files without which it cannot be run."""
    packages: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Modules it needs → the extra of ELE that installs them."""
    limits: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Measure fewer test pairs than the scale says, by scale."""
    minutes: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """About how long it takes on two cores by scale, for the forecast; the measured times correct it."""


@dataclasses.dataclass(frozen=True)
class Study:
    """An experiment of a paper; use one of the three below."""

    name: str
    """What follows `ele reproduce`."""
    title: str
    rows: Sequence[Row]
    scales: Mapping[str, Scale]
    """By name; the first is the default."""
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Files a user can give, with `--file NAME=PATH` or `--NAME PATH`: name → the option that takes the path."""


@dataclasses.dataclass(frozen=True)
class Table(Study):
    """Every row trained and measured with every seed."""

    metrics: Sequence[str] = ()
    """The metrics that are shown."""


@dataclasses.dataclass(frozen=True)
class ShareSweep(Study):
    """Decoders on smaller and smaller shares of the candidates, as `ele sweep` measures them, for each row's model."""

    lines: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    """The lines of the sweep → options of their decoder."""


@dataclasses.dataclass(frozen=True)
class Paths(Study):
    """Structures on the way of a decoder that leaves a trace, drawn for a few test inputs of each row's model."""

    examples: int = 4
    """Test inputs, one row of pictures each."""
    pictures: int = 6
    """Steps that are shown, evenly from the first to the last."""
