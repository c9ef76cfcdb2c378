"""What a task declares about published experiments: tables and figures as data, which `ele reproduce` runs.

A row is a list of overrides, as `ele train --set` and `ele evaluate --set` take them. Rows whose options of training
are equal share one run, and rows whose outputs and surrogate are equal share the learned loss. A row can also be a
`Rival`: a method that is not made of ELE's components.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from ele_core.data.prepare import Prepared
    from ele_core.runtime.context import Context


class Rival(ABC):
    """A method that is not made of ELE's components, such as another program, measured on the same pairs.

    Write it as a frozen dataclass: its fields are its settings, and are recorded with the result.
    """

    @abstractmethod
    def predict(self, prepared: Prepared, rows: Tensor, context: Context) -> Any:
        """Learn from the training pairs of `prepared.data`; return one packed output for each of the pairs at `rows`.

        Choose settings on `prepared.data.validation`, and report progress with `context.monitor`.
        """

    @property
    def settings(self) -> dict[str, Any]:
        """The name and the fields, as JSON can hold them."""
        return {"name": type(self).__name__, **{f.name: getattr(self, f.name) for f in dataclasses.fields(self)}}  # type: ignore[arg-type]  # a subclass is a dataclass


@dataclasses.dataclass(frozen=True)
class Scale:
    """The size of an experiment: data, options, test pairs and seeds."""

    summary: str
    """One sentence: how much data, and about how long it takes."""
    overrides: Sequence[str] = ()
    """Options of every row at this scale."""
    limit: int | None = None
    """Measure only this number of test pairs; None: all of them."""
    seeds: Sequence[int] = (0,)
    """The seeds that are run by default."""


@dataclasses.dataclass(frozen=True)
class Row:
    """A method: one line of a table, or the model of a figure."""

    name: str
    overrides: Sequence[str] = ()
    """Options at every scale, on top of the scale's."""
    scales: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    """Further options by scale; they win over all others."""
    reference: str | None = None
    """The published result to show beside it: the name of one of the task's references."""
    files: Sequence[str] = ()
    """Names of the study's files that it needs."""
    packages: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Modules that it needs → the extra of ELE that installs them."""
    limits: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Measure only this number of test pairs instead of the scale's `limit`, by scale."""
    oracle: bool = False
    """Whether to decode from the embeddings of the truths: what a perfect regressor would give."""
    given: Sequence[str] = ()
    """Constraints that predictions must satisfy as the truths do, such as `formula`."""
    rival: Rival | None = None
    """A method to measure instead of ELE; the options choose only the data and the output space."""
    minutes: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """Approximate minutes on two cores, by scale, for the forecast; measured times correct them."""


@dataclasses.dataclass(frozen=True)
class Study:
    """An experiment of a paper: a `Table`, a `ShareSweep` or `Paths`."""

    name: str
    """The name to give to `ele reproduce`."""
    title: str
    rows: Sequence[Row]
    scales: Mapping[str, Scale]
    """The scales by name; the first is the default."""
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Files a user can give, with `--file NAME=PATH` or `--NAME PATH`: name → the option that takes the path."""


@dataclasses.dataclass(frozen=True)
class Table(Study):
    """A table: every row is trained and measured with every seed."""

    metrics: Sequence[str] = ()
    """The metrics that are shown."""


@dataclasses.dataclass(frozen=True)
class ShareSweep(Study):
    """A figure of decoders on different shares of the candidates, as `ele sweep` draws it, for each row's model."""

    lines: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    """The lines of the sweep → options of their decoder."""


@dataclasses.dataclass(frozen=True)
class Paths(Study):
    """A figure of the trace of a decoder: its structures step by step, for a few test inputs of each row's model."""

    examples: int = 4
    """Test inputs, one row of pictures each."""
    pictures: int = 6
    """Steps that are shown, evenly spaced from the first to the last."""
