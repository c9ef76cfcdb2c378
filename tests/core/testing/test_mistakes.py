"""The list of mistakes that authors make, and what the checks find in it."""

from __future__ import annotations

import pytest
from mistakes import CORRECT, MISTAKES, checked


def failed(cls):
    return [f"{result.name}: {result.explanation}" for result in checked(cls) if not result.ok]


@pytest.mark.parametrize("cls", CORRECT, ids=lambda cls: cls.__name__)
def test_nothing_is_found_in_a_correct_component(cls):
    assert not failed(cls)


def test_the_list_is_long_and_names_each_mistake_once():
    names = [mistake.name for mistake in MISTAKES]
    assert len(names) >= 150
    assert len(set(names)) == len(names)
