"""Constraints on the command line: `ele predict --constraint` and `ele evaluate --given`."""

from __future__ import annotations

import json

import pytest
from ele_command import fails, table

from ele_core.runs.run import Run

LINES = "twenty\none\n"
CSV = "name,digits\ntwenty,2\none,\nninety,3\n"


def test_a_constraint_holds_for_all_inputs(ele, copy):
    rows = table(ele("predict", copy, "-", "--constraint", "length=2", "--constraint", "prefix=4", stdin=LINES).out)
    assert all(len(row["prediction"]) == 2 and row["prediction"].startswith("4") for row in rows)


def test_a_constraint_is_taken_from_a_column_and_an_empty_cell_is_none(ele, copy, tmp_path):
    (tmp_path / "in.csv").write_text(CSV)
    free = table(ele("predict", copy, "in.csv").out)
    rows = table(ele("predict", copy, "in.csv", "--constraint", "length=@digits").out)
    assert [len(rows[place]["prediction"]) for place in (0, 2)] == [2, 3]
    assert rows[1]["prediction"] == free[1]["prediction"]


def test_a_row_without_a_structure_stays(ele, copy):
    rows = table(ele("predict", copy, "-", "--constraint", "contains=x", "--top-k", "2", stdin=LINES).out)
    assert [(row["input"], row["prediction"], row["energy"]) for row in rows] == [("twenty", "", ""), ("one", "", "")]
    assert {row["status"] for row in rows} == {"no structure satisfies the constraint"}
    lines = ele("predict", copy, "-", "--constraint", "contains=x", "--json", stdin=LINES).out.splitlines()
    assert [json.loads(line)["energy"] for line in lines] == [None, None]


@pytest.mark.parametrize(
    ("option", "code", "reason"),
    [
        ("formula=CO", 2, "there is no constraint 'formula': these outputs have length"),
        ("length=two", 2, "length: should be a valid integer"),
        ("length", 2, "'length' is not a constraint"),
        ("length=@name", 1, "no named columns"),
    ],
)
def test_wrong_constraints_are_told_in_a_sentence(ele, copy, option, code, reason):
    assert fails(ele("predict", copy, "-", "--constraint", option, stdin=LINES), code, reason)


def test_evaluation_with_a_part_of_the_truth_is_stored_apart(ele, copy):
    free = ele("evaluate", copy, "--decoder", "candidates", "--json")
    given = ele("evaluate", copy, "--decoder", "candidates", "--given", "length", "--json", "--record", "given.json")
    metrics = json.loads(given.out)
    assert metrics["answered"] == 1
    rows = table((copy / "predictions" / "test-candidates-given-length.csv").read_text())
    assert [len(row["prediction"]) for row in rows] == [len(row["truth"]) for row in rows]
    again = ele("evaluate", copy, "--decoder", "candidates", "--given", "length")
    assert "stored in" in again.err
    assert json.loads((copy.parent / "given.json").read_text())["given"] == ["length"]
    assert json.loads(ele("evaluate", copy, "--decoder", "candidates", "--json").out) == json.loads(free.out)


@pytest.mark.parametrize(
    ("name", "reason"), [("formula", "there is no constraint 'formula'"), ("prefix", "prefix: cannot be computed")]
)
def test_a_part_of_the_truth_that_cannot_be_given_is_refused(ele, copy, name, reason):
    assert fails(ele("evaluate", copy, "--given", name), 2, reason)


def test_a_run_takes_the_same_names(copy):
    found = Run(copy).evaluate(given=("length",), limit=5)
    assert found.given == ("length",)
    stored = Run(copy).stored("test", 5, oracle=False, given=("length",))
    assert stored is not None
    assert stored.settings["given"] == ["length"]
    assert stored.name.endswith("-given-length")
    assert Run(copy).stored("test", 5, oracle=False) is None
