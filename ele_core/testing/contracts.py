"""The same checks under pytest: one class a kind to subclass, one test a check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest

from ele_core.interfaces import OutputSpace
from ele_core.testing.output_spaces import OUTPUT_CHECKS
from ele_core.testing.results import Check, judged, outcome_of, refuse_unknown


def each(checks: Sequence[Check]) -> Any:
    """A test for each check, named after it."""
    return pytest.mark.parametrize("check", checks, ids=[check.__name__ for check in checks])


class Contract:
    """What the classes below share."""

    checks: ClassVar[Sequence[Check]] = ()
    """The laws of this kind."""
    expected_failures: ClassVar[Mapping[str, str]] = {}
    """The name of a check → why it is known to fail; one that passes all the same is a failure."""

    def subject(self) -> Sequence[Any]:
        """What the checks are called with."""
        raise NotImplementedError

    def holds(self, check: Check) -> None:
        """Run one check: fails with what it raised, is skipped with its reason, or fails as expected."""
        refuse_unknown(self.checks, self.expected_failures)
        result = judged(outcome_of(check, self.subject(), {}), self.expected_failures)
        if result.status == "skipped":
            pytest.skip(result.explanation)
        if result.status == "expected failure":
            pytest.xfail(result.explanation)
        if result.status == "unexpectedly passed":
            pytest.fail(result.explanation, pytrace=False)
        if result.error is not None:
            raise result.error


class OutputSpaceContract(Contract):
    """Every law of an output space::

    class TestColours(OutputSpaceContract):
        def space(self):
            return ColourSpace()
    """

    checks = OUTPUT_CHECKS

    def space(self) -> OutputSpace[Any, Any]:
        """The space to check; the one method to write."""
        raise NotImplementedError("write `def space(self)`, which returns the space to check")

    def subject(self) -> Sequence[Any]:
        return (self.space(),)

    @each(OUTPUT_CHECKS)
    def test_law(self, check: Check) -> None:
        """One law, by the name of its check."""
        self.holds(check)
