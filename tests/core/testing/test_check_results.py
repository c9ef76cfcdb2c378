"""Statuses: what is expected to fail, what waits for another check, what has nothing to say."""

from __future__ import annotations

import pytest
from mistakes.of_spaces import KeysAreConstant, Plain, small

from ele_core.errors import ConfigError
from ele_core.testing import Broken, NotApplicable, after, check_output_space, counts, require, run_checks


def check_holds(_subject):
    """Always."""


def check_is_broken(_subject):
    """Never."""
    require(False, "because")


def check_crashes(_subject):
    """Raises what it likes."""
    raise ZeroDivisionError("one by zero")


def check_says_nothing(_subject):
    """Has no opinion."""
    raise NotApplicable("not today")


@after(check_is_broken)
def check_builds_on_what_is_broken(_subject):
    """Is not asked."""


@after(check_builds_on_what_is_broken)
def check_builds_on_that(_subject):
    """Is not asked either."""


@after(check_says_nothing)
def check_builds_on_a_skip(_subject):
    """Is asked."""


ALL = (
    check_holds,
    check_is_broken,
    check_crashes,
    check_says_nothing,
    check_builds_on_what_is_broken,
    check_builds_on_that,
    check_builds_on_a_skip,
)


def test_every_check_has_a_status_and_a_reason_where_it_did_not_pass():
    results = {result.name: result for result in run_checks(ALL, (None,))}
    assert {name: result.status for name, result in results.items()} == {
        "check_holds": "passed",
        "check_is_broken": "failed",
        "check_crashes": "failed",
        "check_says_nothing": "skipped",
        "check_builds_on_what_is_broken": "skipped",
        "check_builds_on_that": "skipped",
        "check_builds_on_a_skip": "passed",
    }
    assert results["check_is_broken"].explanation == "because"
    assert isinstance(results["check_is_broken"].error, Broken)
    assert results["check_crashes"].explanation == "raised ZeroDivisionError: one by zero"
    assert results["check_says_nothing"].explanation == "not today"
    assert results["check_builds_on_that"].explanation == "is run only after check_builds_on_what_is_broken passes"


def test_counts_tell_how_many_ran():
    numbers = counts(run_checks(ALL, (None,)))
    assert numbers == {"checks": 7, "ran": 4, "passed": 2, "failed": 2, "skipped": 3}


def test_an_expected_failure_is_no_failure_and_one_that_passes_is_reported():
    expected = {"check_is_broken": "known since May", "check_holds": "was broken once"}
    results = {result.name: result for result in run_checks(ALL[:2], (None,), expected)}
    assert results["check_is_broken"].status == "expected failure"
    assert results["check_is_broken"].explanation == "known since May"
    assert results["check_is_broken"].ok
    assert results["check_holds"].status == "unexpectedly passed"
    assert "was broken once" in results["check_holds"].explanation
    assert not results["check_holds"].ok


def test_expecting_a_check_that_does_not_exist_is_an_error():
    with pytest.raises(ConfigError, match="Did you mean check_keys_tell_structures_apart"):
        check_output_space(small(Plain), expected_failures={"check_keys_tell_structure_apart": "a typing error"})


def test_an_expected_failure_of_a_space_is_given_by_name():
    results = check_output_space(
        small(KeysAreConstant), expected_failures={"check_keys_tell_structures_apart": "keys are not written yet"}
    )
    assert all(result.ok for result in results)
    assert counts(results)["expected failure"] == 1


def test_every_public_name_exists_and_every_check_states_its_law():
    import ele_core.testing as kit

    assert sorted(kit.__all__) == kit.__all__
    for name in kit.__all__:
        assert getattr(kit, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        kit.nothing  # noqa: B018


def test_every_kind_has_one_runner_one_contract_and_a_suite_without_repetition():
    import ele_core.testing as kit
    from ele_core.testing import contracts

    suites = [getattr(contracts, name).checks for name in kit.__all__ if name.endswith("Contract")]
    assert len(suites) == 11
    assert all(len({check.__name__ for check in suite}) == len(suite) for suite in suites)
    runners = {"check_output_space", "check_encoder", "check_input_space", "check_backbone", "check_surrogate"}
    runners |= {
        "check_regressor",
        "check_proposer",
        "check_decoder",
        "check_task",
        "check_file_reader",
        "check_convex_set",
        "check_index",
    }
    assert runners == {name for name in kit.__all__ if name.startswith("check_")}
