"""The list of mistakes that authors make: the checks find those that the record says they find."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mistakes import CORRECT, MISTAKES, checked

RECORD = json.loads((Path(__file__).parents[3] / "docs" / "results" / "mistakes.json").read_text("utf-8"))
FOUND = {each["name"]: bool(each["caught_by"]) for each in RECORD["mistakes"]}


def failed(cls):
    return [result for result in checked(cls) if not result.ok]


@pytest.mark.filterwarnings("ignore")  # a wrong component may warn
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_found_if_the_record_says_so(mistake):
    found = failed(mistake.cls)
    assert bool(found) == FOUND[mistake.name]
    assert all(result.explanation for result in found)


@pytest.mark.parametrize("cls", CORRECT, ids=lambda cls: cls.__name__)
def test_nothing_is_found_in_a_correct_component(cls):
    assert not [f"{result.name}: {result.explanation}" for result in failed(cls)]


def test_nine_of_ten_mistakes_of_a_long_list_are_found():
    assert [mistake.name for mistake in MISTAKES] == list(FOUND)
    assert len(FOUND) >= 150
    assert sum(FOUND.values()) >= 0.9 * len(FOUND)
