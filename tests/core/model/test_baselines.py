"""Predictions without a model, by hand: copying and the most frequent output; and the sentence about a model behind."""

from __future__ import annotations

import json

import pytest
import torch
from click.testing import CliRunner

from ele_core import config as configuration
from ele_core.cli import cli
from ele_core.data.prepare import Pairs, prepare
from ele_core.data.truths import examples
from ele_core.model.evaluate import COPYING, FREQUENT, baselines, behind, most_frequent, worse
from ele_core.runtime.context import Context
from ele_core.types import Metric
from ele_sequences.space import SequenceSpace

INPUTS = ["kitten", "dog", "house", "mitten", "dot", "zzzz"]
OUTPUTS = ["aa", "b", "aa", "ab", "b", "abc"]
SPACE = SequenceSpace(SequenceSpace.Config(alphabet=tuple("abc"), length=3))


def test_copying_and_the_most_frequent_output_have_the_values_found_by_hand():
    pairs = Pairs(INPUTS, OUTPUTS, torch.tensor([0, 1, 2]), torch.tensor([3, 4, 5]))
    prepared = prepare(configuration.load({"output": "sequence", "input": "text"}), Context(), pairs)
    found = baselines(prepared, *examples(prepared.data, torch.tensor([3, 4]), str), Context())
    assert found[COPYING] == {"exact": 0.5, "edit_distance": 0.5}, "mitten → aa instead of ab, dot → b"
    assert found[FREQUENT] == {"exact": 0.0, "edit_distance": 1.5}, "aa instead of ab and b"


def test_the_first_of_the_most_frequent_keys_is_found():
    assert most_frequent(torch.tensor([[5, 0], [3, 1], [3, 2], [3, 1]])) == 1
    assert most_frequent(torch.tensor([[5, 0]])) == 0


def test_a_model_behind_copying_is_told_what_to_try():
    found = {COPYING: {"exact": 0.5, "edit_distance": 1.25}}
    told = behind(SPACE, {"exact": 0.9, "edit_distance": 2.0}, found)
    assert told.startswith(f"This model is behind {COPYING} (edit_distance 2 against 1.25). Try more pairs")
    assert behind(SPACE, {"exact": 0.0, "edit_distance": 1.25}, found) == "", "not worse"
    assert behind(SPACE, {"exact": 0.0}, found) == ""
    assert behind(SPACE, {"edit_distance": 2.0}, {}) == ""


@pytest.mark.parametrize(("direction", "expected"), [("min", True), ("max", False)])
def test_worse_depends_on_the_direction(direction, expected):
    metric = Metric("m", direction, lambda predicted, _: predicted)
    assert worse(metric, 2.0, 1.0) is expected
    assert worse(metric, 1.0, 2.0) is not expected
    assert not worse(metric, 1.0, 1.0)


def test_evaluate_prints_and_stores_them(trained_run, tmp_path):
    import shutil

    run = shutil.copytree(trained_run, tmp_path / "run")
    first = CliRunner().invoke(cli, ["evaluate", str(run), "--limit", "9"], catch_exceptions=False)
    assert f"Without a model:\n  {COPYING}: exact " in first.output
    again = CliRunner().invoke(cli, ["evaluate", str(run), "--limit", "9", "--json"], catch_exceptions=False)
    found = json.loads(again.stdout)["baselines"]
    assert set(found) == {COPYING, FREQUENT}
    assert f"{COPYING}: exact {found[COPYING]['exact']:.4g}" in first.output
