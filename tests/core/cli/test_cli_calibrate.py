"""`ele calibrate`, and confidence and prediction sets in `ele predict` and `ele evaluate`."""

from __future__ import annotations

import csv
import io
import json
import shutil

import pytest
from click.testing import CliRunner

from ele_core.cli import cli
from ele_core.model.trust.judged import to_judge


def ele(*arguments: object, code: int = 0):
    result = CliRunner().invoke(cli, list(map(str, arguments)))
    if code == 0:
        assert result.exit_code == 0, (result.output, result.exception)
    return result


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    file = tmp_path_factory.mktemp("inputs") / "inputs.csv"
    file.write_text("text\nforty-two\nnine\none hundred and seven\n")
    return file


@pytest.fixture(scope="module")
def calibrated(trained_run, tmp_path_factory):
    """A run without calibration pairs, calibrated afterwards."""
    folder = tmp_path_factory.mktemp("calibrated") / "run"
    shutil.copytree(trained_run, folder)
    done = ele("calibrate", folder)
    assert "using its validation pairs" in done.stderr
    assert "calibrated on 20 pairs (validation split)" in done.stdout
    return folder


def test_a_run_without_a_calibration_says_how_to_add_one(trained_run, inputs):
    done = ele("predict", trained_run, inputs)
    assert "no calibration. Add one: ele calibrate" in done.stderr
    assert "confidence" not in rows(done.stdout)[0]
    refused = ele("predict", trained_run, inputs, "--coverage", "0.9", code=1)
    assert "no calibration" in str(refused.exception)


def test_folds_calibrate_with_training_pairs_that_their_models_did_not_see(trained_run, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    shutil.copytree(trained_run, folder)
    unseen = []

    def watch(model, inputs, context):
        known = {tuple(row.tolist()) for row in model.candidates.batch.tokens}
        unseen.append((len(inputs), known))
        return to_judge(model, inputs, context)

    monkeypatch.setattr("ele_core.runs.calibrate.to_judge", watch)
    done = ele("calibrate", folder, "--folds", "2", "--json")
    trained = len(json.loads((folder / "data.json").read_text())["train"])
    assert json.loads(done.stdout)["pairs"] == trained == sum(count for count, _ in unseen)
    assert json.loads(done.stdout)["source"] == "2 folds of the training split"
    assert len(unseen) == 2
    assert unseen[0][1].isdisjoint(unseen[1][1])  # what one learned from, the other predicts
    refused = ele("calibrate", folder, "--folds", "2", "--data", "pairs.csv", code=2)
    assert "give one of them" in refused.output


def test_predictions_of_a_calibrated_run_have_a_confidence(calibrated, inputs):
    found = rows(ele("predict", calibrated, inputs).stdout)
    assert len(found) == 3
    assert all(0 < float(row["confidence"]) < 1 for row in found)
    assert {"expected_edit_distance"} <= set(found[0])


def test_answers_below_the_least_confidence_keep_their_rows(calibrated, inputs):
    found = rows(ele("predict", calibrated, inputs, "--min-confidence", "0.9999").stdout)
    assert [row["prediction"] for row in found] == ["", "", ""]
    assert all("is below 0.9999" in row["status"] for row in found)


def test_a_coverage_that_is_too_high_is_refused_before_anything_is_written(calibrated, inputs, tmp_path):
    target = tmp_path / "sets.csv"
    refused = ele("predict", calibrated, inputs, "--coverage", "0.99", "-o", target, code=1)
    assert "needs at least 99 calibration pairs, and there are 20" in str(refused.exception)
    assert not target.exists()


def test_sets_are_lines_of_json_with_numbers(calibrated, inputs):
    done = ele("predict", calibrated, inputs, "--risk", "9", "--json")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(isinstance(each["confidence"], float) and each["set_size"] >= 1 for each in found)
    assert all(each["set"].split(" | ")[0] == each["prediction"] for each in found)


def test_an_evaluation_prints_what_confidence_is_worth_and_stores_it(calibrated):
    done = ele("evaluate", calibrated)
    assert "Confidence: area under the curve" in done.stdout
    (file,) = (calibrated / "predictions").glob("test-*.json")
    stored = json.loads(file.read_text())
    assert stored["trust"]["examples"] == 20
    again = json.loads(ele("evaluate", calibrated, "--json").stdout)
    assert again["trust"] == stored["trust"]
    by = ele("evaluate", calibrated, "--by", "length").stdout
    assert "expected_edit_distance" not in by


def test_pairs_of_a_file_calibrate_a_saved_model(calibrated, tmp_path):
    from ele_sequences.number_words import draw, spell

    model = tmp_path / "model"
    shutil.copytree(calibrated / "model", model)
    file = tmp_path / "pairs.csv"
    numbers = draw(30, seed=5)
    file.write_text("text,number\n" + "".join(f'"{spell(number)}",{number}\n' for number in numbers))
    found = json.loads(ele("calibrate", model, "--data", file, "--json").stdout)
    assert found["pairs"] == 30
    assert found["source"] == "pairs.csv"
    without = ele("calibrate", model, code=1)
    assert "a saved model has no data of its own" in str(without.exception)


@pytest.mark.parametrize(
    ("content", "reason"),
    [("text,number\n", "no pairs"), ("text,number\nforty-two,x\n", "1 row cannot be used"), (None, "missing.csv")],
)
def test_a_file_that_cannot_be_used_is_refused_and_the_model_stays(calibrated, tmp_path, content, reason):
    file = tmp_path / ("pairs.csv" if content is not None else "missing.csv")
    if content is not None:
        file.write_text(content)
    before = (calibrated / "model" / "manifest.json").read_text()
    refused = ele("calibrate", calibrated, "--data", file, code=1)
    assert reason in str(refused.exception)
    assert (calibrated / "model" / "manifest.json").read_text() == before


def test_pairs_set_aside_in_training_are_used_and_listed(settings, tmp_path):
    run = tmp_path / "run"
    ele("train", "number-words", "-o", run, "--no-report", *settings, "--set", "calibration.pairs=40")
    data = json.loads((run / "data.json").read_text())
    parts = [set(data[name]) for name in ("train", "validation", "calibration", "test")]
    assert len(parts[2]) == 40
    assert sum(map(len, parts)) == len(set.union(*parts)), "no pair is in two parts"
    assert json.loads((run / "model" / "calibration.json").read_text())["source"] == "calibration split"


def test_a_file_of_the_training_is_refused_and_one_with_some_of_its_inputs_is_warned_of(tmp_path):
    from ele_sequences.number_words import draw, spell

    pairs, mixed, new = tmp_path / "pairs.csv", tmp_path / "mixed.csv", tmp_path / "new.csv"
    lines = [f'"{spell(number)}",{number}\n' for number in draw(160, seed=5)]
    pairs.write_text("text,number\n" + "".join(lines[:120]))
    mixed.write_text("text,number\n" + "".join(lines[100:]))
    new.write_text("text,number\n" + "".join(lines[120:]))
    run = tmp_path / "run"
    simple = [f"--set={name}" for name in ("surrogate=parts", "regressor=sketched-ridge", "decoder=candidates")]
    ele("train", "--data", pairs, "--output-space", "sequence", "-o", run, "--no-report", "-q", *simple)
    data = json.loads((run / "data.json").read_text())
    seen = [*data["train"], *data["validation"]]
    pairs_seen = tmp_path / "seen.csv"
    pairs_seen.write_text("text,number\n" + "".join(lines[row] for row in seen))
    assert "were in the training" in str(ele("calibrate", run, "--data", pairs_seen, code=1).exception)
    assert "were in the training" in ele("calibrate", run, "--data", mixed).stderr
    done = ele("calibrate", run, "--data", new)
    assert "were in the training" not in done.stderr
    assert "column 'text'" in done.stderr
