"""What a check is, what comes of it, and running many of them on one component."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, TypeVar

from ele_core.errors import ConfigError
from ele_core.runtime.monitor import Monitor

Check = Callable[..., None]
"""A law as a function of a component and what it works on: returns when the law holds, raises when it does not."""
F = TypeVar("F", bound=Check)

Status = Literal["passed", "failed", "skipped", "expected failure", "unexpectedly passed"]
"""What became of a check. `failed` and `unexpectedly passed` are for somebody to look at."""


class Broken(AssertionError):
    """A law that does not hold; the message says by what it was seen."""


class NotApplicable(Exception):
    """A law that has nothing to say of a component; the message says why."""


@dataclasses.dataclass(frozen=True)
class CheckResult:
    """The outcome of one check: its name, its status, and why it has that status (empty where it passed)."""

    name: str
    status: Status
    explanation: str = ""
    error: BaseException | None = dataclasses.field(default=None, compare=False, repr=False)
    """What was raised where the check failed, with its traceback."""

    @property
    def ok(self) -> bool:
        """Whether nobody needs to look at it."""
        return self.status not in ("failed", "unexpectedly passed")

    @property
    def waits(self) -> bool:
        """Whether it was skipped because a law that it builds on does not hold."""
        return self.status == "skipped" and self.explanation.startswith(_WAITS.partition("{}")[0])

    def as_dict(self) -> dict[str, str]:
        """Plain values, for `ele check --json`."""
        return {"name": self.name, "status": self.status, "explanation": self.explanation}


def require(condition: object, explanation: str) -> None:
    """Raise `Broken` with `explanation` unless `condition` holds."""
    if not condition:
        raise Broken(explanation)


def after(*earlier: Check) -> Callable[[F], F]:
    """Marks a check that means nothing before the `earlier` ones hold: it is skipped where one of them failed."""

    def mark(check: F) -> F:
        _EARLIER[check] = earlier
        return check

    return mark


def run_checks(
    checks: Sequence[Check],
    subject: Sequence[Any],
    expected_failures: Mapping[str, str] | None = None,
    monitor: Monitor | None = None,
) -> list[CheckResult]:
    """Every check on `subject`, in order. `expected_failures`: the name of a check → why it is known to fail."""
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
    """What comes of a check, after the ones that it builds on; `outcomes` remembers those that ran already."""
    if check not in outcomes:
        earlier = (outcome_of(before, subject, outcomes) for before in _EARLIER.get(check, ()))
        broken = next((each.name for each in earlier if _unanswered(each)), None)
        outcomes[check] = _run(check, subject) if broken is None else _waiting(check, broken)
    return outcomes[check]


def judged(result: CheckResult, expected: Mapping[str, str]) -> CheckResult:
    """The result in the light of what was expected to fail."""
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
    """An expected failure of a check that does not exist would be believed for ever."""
    names = [check.__name__ for check in checks]
    for name in expected:
        if name not in names:
            close = get_close_matches(name, names, n=1)
            fix = f"Did you mean {close[0]}?" if close else f"The checks are {', '.join(names)}."
            raise ConfigError(f"no check is called {name!r}.", where="expected_failures", fix=fix)


_EARLIER: dict[Check, tuple[Check, ...]] = {}
_WAITS = "is asked when {} holds"


def _run(check: Check, subject: Sequence[Any]) -> CheckResult:
    name = check.__name__
    try:
        check(*subject)
    except NotApplicable as reason:
        return CheckResult(name, "skipped", str(reason))
    except Broken as error:
        return CheckResult(name, "failed", str(error), error)
    except Exception as error:  # the component is a third party's: anything can happen
        return CheckResult(name, "failed", f"raised {type(error).__name__}: {error}", error)
    return CheckResult(name, "passed")


def _waiting(check: Check, broken: str) -> CheckResult:
    return CheckResult(check.__name__, "skipped", _WAITS.format(broken))


def _unanswered(result: CheckResult) -> bool:
    """Failed, or not asked because something before it failed."""
    return result.status == "failed" or result.waits
