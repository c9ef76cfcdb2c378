"""Several right outputs for one input: grouping, the nearest of them, and the ways to give them."""

from __future__ import annotations

import csv

import pytest
import torch

from ele_core import AnyOf, StructuredPredictor
from ele_core import config as configuration
from ele_core.data.prepare import Pairs, prepare
from ele_core.data.truths import Truths, examples, note_on_repeats, numbered
from ele_core.errors import DataError, InvalidOutput
from ele_core.predictor.values import divided
from ele_core.report import evaluate_for_report, write_report
from ele_core.report.measured import Wanted
from ele_core.runs.run import Run
from ele_core.runtime.context import Context
from ele_core.runtime.distributed import Processes
from ele_core.runtime.monitor import Monitor

QUICK = {"epochs": 1, "evaluations": 1}
SMALL = {
    "surrogate": {"name": "parts", "dim": 64},
    "regressor": {"name": "neural", "backbone": {"name": "gru", "layers": 1, "width": 8}, "training": QUICK},
    "decoder": {"name": "candidates"},
}


def test_the_best_value_and_the_nearest_truth_of_each_example():
    truths = Truths(torch.arange(5) * 10, torch.tensor([0, 0, 1, 2, 2]))
    values = torch.tensor([3.0, 1.0, 7.0, 2.0, 2.0])
    assert len(truths) == 3
    assert truths.best(values, "min").tolist() == [1, 7, 2]
    assert truths.best(values, "max").tolist() == [3, 7, 2]
    assert truths.outputs[truths.nearest(values, "min")].tolist() == [10, 20, 30], "of equal ones the first"
    assert truths.first.tolist() == [0, 20, 30]
    part = truths.part(1, 3)
    assert part.outputs.tolist() == [20, 30, 40]
    assert part.example.tolist() == [0, 1, 1]


def dataset(any_truth):
    given = [AnyOf("a", "ab"), "b", AnyOf("c", "cc", "a")] if any_truth else ["a", "b", "c"]
    predictor = StructuredPredictor("sequence", **SMALL)
    predictor.fit(["x", "y", "z"], given, validation=1)
    return predictor


def test_equal_inputs_of_a_split_are_one_example_only_if_any_truth_is_right():
    pairs = Pairs(["u", "v", "u", "w"], ["a", "b", "c", "a"], torch.tensor([3]), torch.tensor([0, 1, 2]))
    prepared = prepare(configuration.load({"output": "sequence", "input": "text"}), Context(), pairs)
    rows = torch.tensor([0, 1, 2])
    first, truths = examples(prepared.data, rows, str)
    assert first.tolist() == [0, 1, 2]
    assert not truths.several
    joined = prepared.data.__class__(**{**vars(prepared.data), "any_truth": True})
    first, truths = examples(joined, rows, str)
    assert first.tolist() == [0, 1]
    assert prepared.space.unpack(truths.outputs) == ["a", "c", "b"]
    assert truths.example.tolist() == [0, 0, 1]
    first, truths = examples(joined, rows, str, limit=1)
    assert first.tolist() == [0]
    assert (len(truths), len(truths.outputs)) == (1, 2)


def test_an_estimator_takes_several_right_objects_and_measures_the_nearest():
    predictor = dataset(any_truth=True)
    assert len(predictor.model_.candidates) >= 3
    predicted = predictor.predict(["x"])[0]
    wrong = "b" if predicted != "b" else "c"
    assert predictor.score(["x"], [AnyOf(wrong, predicted)]) == 1.0
    assert predictor.score(["x"], [wrong]) == 0.0
    result = predictor.evaluate(["x", "y"], [AnyOf(wrong, predicted), wrong])
    assert result.values["edit_distance"][0] == 0
    assert result.metrics["examples"] == 2
    rows = result.rows(predictor.model_, ["x", "y"])
    assert (rows[0]["truth"], rows[0]["other_truths"]) == (predicted, wrong)
    assert rows[1]["other_truths"] == ""


def test_every_truth_is_trained_on_and_none_of_an_input_is_on_both_sides():
    texts = [f"w{number}" for number in range(40)]
    given = [AnyOf("a", "b") for _ in texts]
    pairs = divided(texts, given, None, 0.25, seed=3)
    assert len(pairs.inputs) == 80
    sides = [{pairs.inputs[row] for row in part.tolist()} for part in (pairs.train, pairs.validation)]
    assert not sides[0] & sides[1]
    assert len(pairs.validation) == 20


def test_an_error_names_the_position_of_the_input_that_was_given():
    with pytest.raises(InvalidOutput, match="output 2"):
        StructuredPredictor("sequence", **SMALL).fit(["x", "y", "z"], [AnyOf("a", "b"), "a", AnyOf("b", 17)])
    with pytest.raises(DataError, match="at least one"):
        AnyOf()


def test_numbers_of_equal_texts_are_equal():
    assert numbered(["b", "a", "b", "c"]).tolist() == [0, 1, 0, 2]


def test_repeated_inputs_are_pointed_out_only_if_their_outputs_differ():
    assert note_on_repeats(["a", "a", "b"], ["x", "x", "y"]) == ""
    assert note_on_repeats(["a", "a", "b"], ["x", "z", "y"]).startswith("note: 1 input with different outputs")
    assert note_on_repeats([[1.0], [1.0]], ["x", "y"]) == ""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "words.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["word", "sound"])
        for number in range(30):
            writer.writerows([[f"w{number}", "ab"], [f"w{number}", "cd"]])
    return path


def test_rows_of_a_file_with_equal_inputs_stay_together_and_count_once(file, tmp_path):
    config = {"output": "sequence", **SMALL, "data": {"file": str(file), "any_truth": True, "test": 0.2}}
    run = Run.start(configuration.load(config), tmp_path / "run")
    data = run.data(Context()).data
    sides = [{data.inputs[row] for row in part.tolist()} for part in (data.train, data.validation, data.test)]
    assert sum(map(len, sides)) == 30, "no input is in two parts"
    result = run.evaluate()
    assert result.metrics["examples"] == 6, "a fifth of 30 words, not of 60 rows"
    assert result.metrics["exact"] == 1.0, "every candidate is one of the two truths"
    assert result.baselines["copying the nearest input's output"]["exact"] == 1.0
    rows = list(csv.DictReader((run.folder / "predictions" / "test-candidates.csv").read_text("utf-8").splitlines()))
    assert {rows[0]["truth"], rows[0]["other_truths"]} == {"ab", "cd"}
    assert run.evaluate(limit=2).metrics["examples"] == 2


def test_without_the_option_every_row_counts_and_a_note_says_so(file):
    config = {"output": "sequence", **SMALL, "data": {"file": str(file), "test": 0.2}}
    prepared = prepare(configuration.load(config), Context())
    assert any("30 inputs with different outputs" in note for note in prepared.data.notes)
    assert len(prepared.data.test) == 12


def test_the_report_shows_the_other_truths(file, tmp_path):
    config = {"output": "sequence", **SMALL, "data": {"file": str(file), "any_truth": True, "test": 0.2}}
    run = Run.start(configuration.load(config), tmp_path / "run")
    wanted = Wanted()
    evaluate_for_report(run, wanted, Monitor(), Processes())
    page = write_report(run, wanted, Monitor(), tmp_path / "report.html")
    assert '"other_truths"' in page.read_text("utf-8")
