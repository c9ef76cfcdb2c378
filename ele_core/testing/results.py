"""Checks and their results, and running many checks on one component."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, TypeVar

from ele_core.errors import ConfigError
from ele_core.runtime.monitor import Monitor

Check = Callable[..., None]
"""A function of a component and its partners: returns if a law holds, raises if it does not."""
F = TypeVar("F", bound=Check)

Status = Literal["passed", "failed", "skipped", "expected failure", "unexpectedly passed"]
"""The result of a check. `failed` and `unexpectedly passed` need attention."""


class Broken(AssertionError):
    """A law that does not hold; the message says what is wrong."""


class NotApplicable(Exception):
    """A law that does not apply to a component; the message says why."""


@dataclasses.dataclass(frozen=True)
class CheckResult:
    """The result of one check: its name, its status, and why it has that status (empty if it passed)."""

    name: str
    status: Status
    explanation: str = ""
    error: BaseException | None = dataclasses.field(default=None, compare=False, repr=False)
    """The exception that the check raised, with its traceback; None if it raised none."""

    @property
    def ok(self) -> bool:
        """Whether the result needs no attention."""
        return self.status not in ("failed", "unexpectedly passed")

    @property
    def waits(self) -> bool:
        """Whether it was skipped because a check that it builds on did not pass."""
        return self.status == "skipped" and self.explanation.startswith(_WAITS.partition("{}")[0])

    def as_dict(self) -> dict[str, str]:
        """Plain values, for `ele check --json`."""
        return {"name": self.name, "status": self.status, "explanation": self.explanation}


def require(condition: object, explanation: str) -> None:
    """Raise `Broken` with `explanation` unless `condition` holds."""
    if not condition:
        raise Broken(explanation)


def after(*earlier: Check) -> Callable[[F], F]:
    """Decorate a check that builds on `earlier` ones: it is skipped if one of them failed."""

    def mark(check: F) -> F:
        _EARLIER[check] = earlier
        return check

    return mark


def laws_in(namespace: Mapping[str, Any], prefix: str = "check_") -> tuple[Check, ...]:
    """The checks that a module has defined so far, in order; call it with `globals()`."""
    own = namespace["__name__"]
    found = (value for name, value in namespace.items() if name.startswith(prefix))
    return tuple(value for value in found if value.__module__ == own)


def run_checks(
    checks: Sequence[Check],
    subject: Sequence[Any],
    expected_failures: Mapping[str, str] | None = None,
    monitor: Monitor | None = None,
) -> list[CheckResult]:
    """Run every check with the arguments `subject`, in order. `expected_failures`: name of a check → why it fails."""
    expected = expected_failures or {}
    refuse_unknown(checks, expected)
    outcomes: dict[Check, CheckResult] = {}
    shown = (monitor or Monitor()).progress(checks, description="checks")
    return [judged(outcome_of(check, subject, outcomes), expected) for check in shown]


def counts(results: Iterable[CheckResult]) -> dict[str, int]:
    """How many checks there are, how many ran, and how many have each status."""
    statuses = collections.Counter[str](result.status for result in results)
    total = sum(statuses.values())
    return {"checks": total, "ran": total - statuses["skipped"], **statuses}


def outcome_of(check: Check, subject: Sequence[Any], outcomes: dict[Check, CheckResult]) -> CheckResult:
    """Run a check after those that it builds on, and return its result; `outcomes` caches results."""
    if check not in outcomes:
        earlier = (outcome_of(before, subject, outcomes) for before in _EARLIER.get(check, ()))
        broken = next((each.name for each in earlier if each.status == "failed" or each.waits), None)
        waits = CheckResult(check.__name__, "skipped", _WAITS.format(broken))
        outcomes[check] = _run(check, subject) if broken is None else waits
    return outcomes[check]


def judged(result: CheckResult, expected: Mapping[str, str]) -> CheckResult:
    """The result, with its status changed if the check was expected to fail."""
    if result.name not in expected:
        return result
    reason = expected[result.name]
    if result.status == "failed":
        return dataclasses.replace(result, status="expected failure", explanation=reason)
    if result.status == "passed":
        explanation = f"passed, although it was expected to fail: {reason}"
        return dataclasses.replace(result, status="unexpectedly passed", explanation=explanation)
    return result


def refuse_unknown(checks: Iterable[Check], expected: Mapping[str, str]) -> None:
    """Refuse expected failures of checks that do not exist."""
    names = [check.__name__ for check in checks]
    for name in expected:
        if name not in names:
            close = get_close_matches(name, names, n=1)
            fix = f"Did you mean {close[0]}?" if close else f"The checks are {', '.join(names)}."
            raise ConfigError(f"no check is called {name!r}.", where="expected_failures", fix=fix)


_EARLIER: dict[Check, tuple[Check, ...]] = {}
_WAITS = "is run only after {} passes"


def _run(check: Check, subject: Sequence[Any]) -> CheckResult:
    name = check.__name__
    try:
        check(*subject)
    except NotApplicable as reason:
        return CheckResult(name, "skipped", str(reason))
    except Broken as error:
        return CheckResult(name, "failed", str(error), error)
    except Exception as error:  # a component of a plugin may raise anything
        return CheckResult(name, "failed", f"raised {type(error).__name__}: {error}", error)
    return CheckResult(name, "passed")
