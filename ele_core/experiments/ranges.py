"""Ranges of options to tune over: choices, or numbers between two bounds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Self

from ele_core.errors import ConfigError

WORDS = ("choices", "low", "high", "log", "step")


@dataclasses.dataclass(frozen=True)
class Range:
    """The values that an option may take: one of `choices`, or a number from `low` to `high`, whole if both are."""

    choices: Sequence[Any] = ()
    low: float = 0
    high: float = 0
    log: bool = False
    """Draw evenly on a logarithmic scale."""
    step: float | None = None
    """Draw only `low` plus multiples of this; None: any number."""

    @classmethod
    def read(cls, table: Any, where: str) -> Self:
        """Read a range from a TOML table: `{choices = [32, 64]}` or `{low = 1e-4, high = 1e-2, log = true}`."""
        if not isinstance(table, Mapping) or set(table) - set(WORDS):
            fix = "Write {choices = […]} or {low = …, high = …, log = true, step = …}."
            raise ConfigError("is not a range.", where=where, fix=fix)
        if "choices" in table and len(table) > 1:
            raise ConfigError("`choices` cannot be combined with `low`, `high`, `log` or `step`.", where=where)
        found = cls(**table)
        if reason := found.problem():
            raise ConfigError(reason, where=where)
        return found

    def problem(self) -> str | None:
        """Why no value can be drawn; None if one can."""
        if isinstance(self.choices, str) or not isinstance(self.choices, Sequence):
            return "`choices` should be a list."
        if not self.choices and self.low == self.high:
            return "there is nothing to choose from: give `choices`, or `low` below `high`."
        if self.choices:
            scalars = all(isinstance(value, (bool, int, float, str)) for value in self.choices)
            return None if scalars else "each choice should be a number, a text, true or false."
        bounds = (self.low, self.high)
        if not all(isinstance(n, (int, float)) and not isinstance(n, bool) and math.isfinite(n) for n in bounds):
            return "`low` and `high` should be numbers."
        if self.low >= self.high:
            return "`low` should be below `high`."
        if not isinstance(self.log, bool) or (self.log and (self.low <= 0 or self.step is not None)):
            return "`log` should be true or false; true needs a `low` above 0 and no `step`."
        if self.step is not None and not (isinstance(self.step, (int, float)) and 0 < self.step <= self.high):
            return "`step` should be a number above 0 and at most `high`."
        return None

    @property
    def whole(self) -> bool:
        """Whether all values are whole numbers."""
        return all(isinstance(n, int) for n in (self.low, self.high, self.step or 1))

    @property
    def first(self) -> Any:
        """One of the values: the first choice, or `low`."""
        return self.choices[0] if self.choices else self.low

    def as_table(self) -> dict[str, Any]:
        """The range as a table that `read` reads back."""
        if self.choices:
            return {"choices": list(self.choices)}
        step = {} if self.step is None else {"step": self.step}
        return {"low": self.low, "high": self.high, "log": self.log, **step}


def read_ranges(tables: Mapping[str, Any], path: str = "") -> dict[str, Range]:
    """Read ranges by option, from a table with dotted keys, nested tables, or both."""
    found: dict[str, Range] = {}
    for name, value in tables.items():
        here = f"{path}.{name}" if path else name
        if isinstance(value, Mapping) and value and not set(value) & set(WORDS):
            found |= read_ranges(value, here)
        else:
            found[here] = Range.read(value, here)
    return found
