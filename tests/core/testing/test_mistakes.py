"""The catalogue of mistakes that authors make: each is found by its law, and nothing in correct components."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mistakes import CORRECT, MISTAKES, ONE_LAW, checked, found_by
from mistakes.of_decoders import Tracing
from mistakes.of_learners import ClaimsInvariance, HasNoExamples, LearnedSurrogate, PlainEncoder, PlainRegressor
from mistakes.planted import RefusesMore

from ele_core.testing import check_encoder
from ele_graphs.graphs.networkx_space import PaddedGraphSpace

RECORD = json.loads((Path(__file__).parents[3] / "docs" / "results" / "mistakes.json").read_text("utf-8"))
FOUND = {each["name"]: each["caught_by"] for each in RECORD["mistakes"]}
every = pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)


def failed(cls):
    results = checked(cls)
    assert all(result.explanation for result in results if result.status != "passed")
    return {result.name: result.explanation for result in results if not result.ok}


@pytest.mark.filterwarnings("ignore")  # a wrong component may warn
@every
def test_a_mistake_is_found_by_its_law(mistake):
    if mistake.law is None:
        pytest.skip("no law finds it, as the complete run says")
    result = found_by(mistake.law, mistake.cls)
    assert result.status == "failed", result
    assert result.explanation


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@every
def test_all_checks_together_find_what_they_should(mistake):
    found = failed(mistake.cls)
    if mistake.kind == ONE_LAW:
        assert set(found) == {mistake.law}, found
    else:
        assert list(found) == FOUND[mistake.name]


@pytest.mark.parametrize(
    "cls",
    [*CORRECT, Tracing, LearnedSurrogate, PlainEncoder, PlainRegressor, RefusesMore],
    ids=lambda cls: cls.__name__,
)
def test_nothing_is_found_in_a_correct_component(cls):
    assert not failed(cls)


def test_nine_of_ten_mistakes_of_a_long_list_are_found():
    listed = [mistake for mistake in MISTAKES if mistake.kind != ONE_LAW]
    assert [mistake.name for mistake in listed] == list(FOUND)
    assert all(mistake.law in (FOUND[mistake.name] or [None]) for mistake in listed)
    assert len(listed) >= 150
    assert sum(map(bool, FOUND.values())) >= 0.9 * len(FOUND)
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES)


def test_an_encoder_that_claims_an_invariance_is_held_to_it():
    space = PaddedGraphSpace(PaddedGraphSpace.Config(node_labels=("a", "b"), max_nodes=4))
    results = check_encoder(ClaimsInvariance(None, space, 5), space)
    assert [result.name for result in results if not result.ok] == ["check_encoder_is_invariant"]


def test_missing_examples_are_asked_for_in_one_message():
    assert [*failed(HasNoExamples).values()] == [
        "HasNoExamples has no examples: write the method `examples`, which returns a few of them"
    ]


@pytest.mark.parametrize(
    ("law", "words"),
    [
        ("check_project_is_nearest", ["noise of scale 1:", "another point of the set is nearer, by", "The point ["]),
        ("check_project_is_feasible", ["project, field 'tokens', torch.float32", "The point is ["]),
    ],
)
def test_a_message_on_a_projection_shows_the_point_and_the_scale(law, words):
    found = [found_by(law, each.cls).explanation for each in MISTAKES if each.law == law]
    assert any(all(word in explanation for word in words) for explanation in found), found
