"""`ele train --from MODEL`: a training that starts from a trained model, in a run folder of its own."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path

import pytest
from ele_command import fails
from safetensors.torch import load_file

from ele_core.runs.run import Run
from ele_sequences.number_words import draw, spell

TAKEN = "its output space and its loss, as they are"


def written(file: Path, rows: list[tuple[str, str]]) -> Path:
    file.write_text("".join(f"{x},{y}\n" for x, y in [("x", "y"), *rows]))
    return file


@pytest.fixture
def mine(tmp_path):
    """A file of pairs that the model of `trained_run` could have been trained on."""
    return written(tmp_path / "mine.csv", [(spell(number), str(number)) for number in draw(60, seed=7)])


@pytest.fixture
def started(ele, copy, mine, tmp_path):
    """A finished run that started from the run `copy`."""
    outcome = ele("train", mine, "--from", copy, "-o", "started", "--no-report")
    assert outcome.code == 0, outcome.err
    assert f"starting from {copy}: {TAKEN}, its input space, and its regressor, which is trained further" in outcome.err
    assert "recipe:" not in outcome.err
    return tmp_path / "started"


def weights(run: Path) -> bytes:
    return (run / "model" / "model.safetensors").read_bytes()


def test_the_loss_stays_and_the_regressor_goes_on(ele, copy, started):
    stages = {json.loads(line)["stage"] for line in (started / "metrics.jsonl").read_text().splitlines()}
    assert stages == {"regression"}
    before, after = (load_file(run / "model" / "model.safetensors") for run in (copy, started))
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        assert tensor.equal(after[name]) or not name.startswith("surrogate.")
    assert (started / "model" / "tokenizer.json").read_bytes() == (copy / "model" / "tokenizer.json").read_bytes()
    then, now = Run(copy).config, Run(started).config
    assert (then.output, then.input, then.surrogate) == (now.output, now.input, now.surrogate)
    assert (now.regressor.options["training"]["learning_rate"], now.start.name) == (2e-4, str(copy))
    assert ele("evaluate", started).code == 0


def test_the_report_names_the_model(ele, started, copy):
    assert ele("report", started, "-o", "page.html").code == 0
    assert str(copy) in (started.parent / "page.html").read_text()


def test_the_run_is_resumed_and_trained_again_to_the_same_weights(ele, started, tmp_path):
    before = weights(started)
    shutil.rmtree(started / "model")
    assert ele("resume", started, "--no-report").code == 0
    assert weights(started) == before
    again = ele("train", started / "config.toml", "-o", "again", "--no-report")
    assert again.code == 0, again.err
    assert weights(tmp_path / "again") == before


def test_a_model_that_is_gone_moved_or_changed_is_named(ele, started, copy, tmp_path, settings):
    before = weights(started)
    shutil.rmtree(started / "model")
    copy.rename(tmp_path / "moved")
    assert fails(ele("resume", started), 1, f"{copy}: the model to start from is not here", "--set start.name=FOLDER")
    assert ele("train", "number-words", "-o", copy, *settings, "--seed", "8", "--no-report").code == 0
    assert fails(ele("resume", started), 1, f"{copy}: the model to start from has changed", "Restore it")
    config = started / "config.toml"
    assert fails(ele("train", config, "-o", "new"), 1, "the model to start from has changed")
    assert not (tmp_path / "new").exists()
    moved = f"start.name={json.dumps(str(tmp_path / 'moved'))}"
    assert ele("resume", started, "--set", moved, "--no-report").code == 0
    assert weights(started) == before


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--from", "nowhere"], 2, ["nowhere: there is no such run folder"]),
        (["--from", "mine.csv"], 2, ["mine.csv: this is a file, not a run folder"]),
        (["--from", "."], 1, ["there is no model here"]),
        (["--set", "output.length=9"], 2, ["cannot start from this model: its output differs: output.length: 6 → 9"]),
        (["--output-space", "molecule"], 2, ["its output is 'sequence', not 'molecule'"]),
        (["--set", "surrogate.dim=9"], 2, ["its surrogate differs: surrogate.dim: 8 → 9", "Omit what differs"]),
        (["--set", "regressor.backbone.wdth=9"], 2, ["regressor.backbone.wdth: unknown option; did you mean 'width'?"]),
        (["--surrogate-from", "run"], 2, ["--from and --surrogate-from exclude each other"]),
    ],
)
def test_what_contradicts_the_model_is_refused_before_anything_is_written(ele, copy, mine, options, code, words):
    given = options if "--from" in options else ["--from", copy, *options]
    assert fails(ele("train", mine, "-o", "refused", *given), code, *words)
    assert not Path("refused").exists()


def test_rows_outside_the_space_of_the_model_are_listed(ele, copy, mine):
    mine.write_text(mine.read_text() + "one,1x\n")
    refused = ele("train", mine, "-o", "refused", "--from", copy)
    assert fails(refused, 1, "1 row cannot be used", "line 62", "The output space is that of the model to start from.")
    assert not Path("refused").exists()


def test_inputs_of_another_kind_take_the_loss_alone(ele, copy, tmp_path):
    rows = [(f"{number // 100} {number // 10 % 10} {number % 10}.5", str(number)) for number in range(100, 160)]
    quick = ["--set", "regressor=sketched-ridge", "--set", "decoder=candidates"]
    file = written(tmp_path / "vectors.csv", rows)
    outcome = ele("train", file, "--from", copy, "-o", "other", "--no-report", *quick)
    assert outcome.code == 0, outcome.err
    assert f"{TAKEN}; the inputs are of another kind, so the regressor is trained anew" in outcome.err
    config = tomllib.loads(Path("other/config.toml").read_text())
    assert (config["input"]["name"], config["start"]["name"]) == ("vector", str(copy))
    before, after = (load_file(run / "model" / "model.safetensors") for run in (copy, Path("other")))
    assert all(tensor.equal(after[name]) for name, tensor in before.items() if name.startswith("surrogate."))
