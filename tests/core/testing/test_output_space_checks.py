"""Each broken output space is caught by exactly the check that should catch it."""

from __future__ import annotations

import pytest
from broken_spaces import CAUGHT_BY, Plain, small

from ele_core.testing import check_output_space
from ele_core.testing.results import counts


def failed(results):
    assert all(result.explanation for result in results if result.status == "skipped")
    return {result.name for result in results if result.status == "failed"}


@pytest.mark.parametrize("cls", CAUGHT_BY, ids=lambda cls: cls.__name__)
def test_a_broken_space_is_caught_by_its_check_alone(cls):
    results = check_output_space(small(cls))
    assert failed(results) == {CAUGHT_BY[cls]}, [f"{r.name}: {r.explanation}" for r in results if not r.ok]


def test_a_space_that_is_not_broken_passes_every_check_that_runs():
    results = check_output_space(small(Plain))
    assert not failed(results)
    assert counts(results)["passed"] >= 35
