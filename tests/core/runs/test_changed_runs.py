"""Runs whose files were changed after the training: said in a sentence, with and without a key of the user's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ele_core import StructuredPredictor
from ele_core.cli import cli
from ele_core.errors import EleError, ModelError
from ele_core.files.archive import seal
from ele_core.files.signatures import SIGNATURE, sign, signed_files
from ele_core.model.files import UNSEALED
from ele_core.report.comparison import compare
from ele_core.report.learning_curves import curves
from ele_core.runs.folder import changed_files, seal_journal, stage_seconds, training_seconds
from ele_core.runs.run import Run


@pytest.fixture
def run(trained_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained_run, tmp_path / "run"))


@pytest.fixture
def other(trained_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained_run, tmp_path / "other"))


@pytest.fixture
def key(tmp_path: Path) -> Path:
    (tmp_path / "key").write_bytes(bytes(range(32)))
    return tmp_path / "key"


def ele(*arguments: object) -> str:
    result = CliRunner(env={"ELE_KEY": None}).invoke(cli, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, EleError | SystemExit), result.exception
    return result.output if result.exception is None else f"{result.output}{result.exception}"


# -- damaged times ------------------------------------------------------------------------------------------------

TIMES = {
    "no JSON": "{\n",
    "a number": "3\n",
    "a list": "[]\n",
    "no stage": '{"step": 1, "seconds": 1}\n',
    "no time": '{"stage": "embedding", "step": 1}\n',
    "a time in words": '{"stage": "embedding", "step": 1, "seconds": "soon"}\n',
    "no number": '{"stage": "embedding", "step": 1, "seconds": NaN}\n',
    "endless": '{"stage": "embedding", "step": 1, "seconds": 1e999}\n',
    "negative": '{"stage": "embedding", "step": 1, "seconds": -5}\n',
    "a truth": '{"stage": "embedding", "step": 1, "seconds": true}\n',
    "nothing": '{"stage": "embedding", "step": 1, "seconds": null}\n',
    "a step in words": '{"stage": "embedding", "step": "one", "seconds": 1}\n',
    "deep": "[" * 100_000 + "\n",
    "bytes": "\udcff\n",
}


@pytest.mark.parametrize("text", [pytest.param(text, id=name) for name, text in TIMES.items()])
def test_damaged_times_are_named_in_a_sentence(run: Path, text: str) -> None:
    (run / "times.jsonl").write_bytes(text.encode("utf-8", "surrogateescape"))
    for read in (training_seconds, stage_seconds, lambda folder: curves(folder, {})):
        with pytest.raises(ModelError, match=r"times.jsonl: damaged: "):
            read(run)


def test_the_line_in_which_a_training_was_killed_does_not_count(run: Path) -> None:
    whole = training_seconds(run)
    with (run / "times.jsonl").open("a") as stream:
        stream.write('{"stage": "regression", "st')
    assert training_seconds(run) == whole


def test_times_that_are_missing_are_unknown(run: Path) -> None:
    (run / "times.jsonl").unlink()
    assert training_seconds(run) is None
    assert stage_seconds(run) == {}


# -- what was changed ---------------------------------------------------------------------------------------------


def test_nothing_is_said_of_runs_as_they_were_trained(run: Path, other: Path) -> None:
    for folder in (run, other):
        Run(folder).evaluate(overrides=["decoder=candidates"])
    assert not [text for text in compare([run, other]).warnings if "changed" in text]
    assert not changed_files(run)


def test_a_missing_manifest_is_named(run: Path) -> None:
    (run / "manifest.json").unlink()
    assert changed_files(run) == ["manifest.json"]


@pytest.mark.parametrize(
    "name", ["metrics.jsonl", "times.jsonl", "log.txt", "data.json", "config.toml", "identity.json"]
)
def test_a_record_that_was_changed_after_the_training_is_named(run: Path, other: Path, name: str) -> None:
    (run / name).write_text((run / name).read_text() + "\n")
    (warning,) = [text for text in compare([run, other]).warnings if "changed" in text]
    assert warning == f"run: {name} changed after the training: what they say may not be true."


@pytest.mark.parametrize("name", ["data.json", "config.toml"])
@pytest.mark.parametrize("option", ["--again", "--quiet"])
def test_a_run_whose_rows_or_options_were_changed_is_not_measured(run: Path, name: str, option: str) -> None:
    Run(run).evaluate(limit=2, overrides=["decoder=candidates"])
    content = (run / name).read_text()
    data = json.loads(content) if name == "data.json" else {}
    changed = json.dumps({**data, "test": data["train"][:5], "train": data["test"]}) if data else f"{content}\n"
    (run / name).write_text(changed)
    said = ele("evaluate", run, "--limit", 2, "--decoder", "candidates", option)
    assert f"{run}: {name} changed after the training" in said
    assert "exact" not in said


def test_a_run_without_its_manifest_is_not_measured(run: Path) -> None:
    (run / "manifest.json").unlink()
    assert "manifest.json changed after the training" in ele("evaluate", run, "--limit", 2, "--decoder", "candidates")


@pytest.mark.parametrize("rows", [{"train": []}, {"test": [0, 0]}])
def test_rows_that_cannot_be_a_split_are_damage_also_with_a_manifest_to_match(run: Path, rows: dict[str, Any]) -> None:
    (run / "data.json").write_text(json.dumps({**json.loads((run / "data.json").read_text()), **rows}))
    seal_journal(run)
    said = ele("evaluate", run, "--limit", 2, "--decoder", "candidates", "--again")
    assert "data.json: damaged: there are no training rows, or a row is listed twice." in said


def test_an_evaluation_that_was_changed_is_named_and_not_shown(run: Path, other: Path) -> None:
    for folder in (run, other):
        Run(folder).evaluate(overrides=["decoder=candidates"])
    file = run / "predictions" / "test-candidates.json"
    content = json.loads(file.read_text())
    content["metrics"]["exact"] = 1.0
    file.write_text(json.dumps(content))
    comparison = compare([run, other])
    assert any(
        text.startswith("run: predictions/test-candidates.json was changed after it was measured, and is ignored")
        for text in comparison.warnings
    )
    (block,) = [block for block in comparison.blocks if block.title == "test: candidates"]
    assert all(line.values[0] is None for line in block.lines)


def test_an_evaluation_in_another_layout_is_the_same(run: Path, other: Path) -> None:
    Run(run).evaluate(overrides=["decoder=candidates"])
    file = run / "predictions" / "test-candidates.json"
    file.write_text(json.dumps(json.loads(file.read_text()), sort_keys=True))
    assert not [text for text in compare([run, other]).warnings if "changed" in text]


def test_a_table_of_predictions_that_was_changed_is_named(run: Path, other: Path) -> None:
    Run(run).evaluate(overrides=["decoder=candidates"])
    with (run / "predictions" / "test-candidates.csv").open("a") as stream:
        stream.write("\n")
    assert any("run: predictions/test-candidates.csv was changed" in text for text in compare([run, other]).warnings)


# -- a key of the user's ------------------------------------------------------------------------------------------


def tampered(run: Path) -> None:
    """Changes the card's neighbour, and writes the manifest anew."""
    file = run / "model" / "config.json"
    file.write_text(file.read_text().replace("\n", "\n\n", 1))
    seal(run / "model", unsealed=UNSEALED)


def test_a_signed_model_loads_with_its_key_until_it_is_changed(run: Path, key: Path) -> None:
    assert f"Signed: {run / 'model' / SIGNATURE}" in ele("sign", run, "--key", key)
    assert "decoder" in ele("--key", key, "evaluate", run, "--limit", 2, "--decoder", "candidates", "--json")
    tampered(run)
    said = ele("--key", key, "evaluate", run, "--limit", 2, "--decoder", "candidates", "--again")
    assert "this model was changed after training." in said
    assert "changed" not in ele("evaluate", run, "--limit", 2, "--decoder", "candidates", "--again"), "without a key"


def test_a_model_that_is_not_signed_or_with_another_key_is_refused(
    run: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ELE_KEY", str(key))
    with pytest.raises(ModelError, match=r"not signed, and a key is given\. Sign it with: ele sign"):
        StructuredPredictor.load(run)
    sign(run / "model", ["manifest.json"], b"another key of the right length")
    with pytest.raises(ModelError, match="signed with another key, or changed after it was signed"):
        StructuredPredictor.load(run)
    (run / "model" / SIGNATURE).write_text("[]")
    with pytest.raises(ModelError, match="not a signature"):
        StructuredPredictor.load(run)


def test_a_model_saved_with_a_key_is_signed(predictor, key: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("ELE_KEY", str(key))
    predictor.save(tmp_path / "saved")
    assert list(signed_files(tmp_path / "saved", key.read_bytes())) == ["manifest.json"]
    StructuredPredictor.load(tmp_path / "saved")


def test_what_was_changed_since_a_run_was_signed_is_named(run: Path, other: Path, key: Path) -> None:
    Run(run).evaluate(overrides=["decoder=candidates"])
    for folder in (run, other):
        ele("sign", folder, "--key", key)
    assert "changed" not in ele("--key", key, "compare", run, other)
    file = run / "predictions" / "test-candidates.json"
    file.write_text(file.read_text() + "\n")
    (run / "times.jsonl").unlink()
    said = ele("--key", key, "compare", run, other)
    assert "run: predictions/test-candidates.json and times.jsonl changed after the run was signed." in said


@pytest.mark.parametrize("content", [None, b"", b"short"])
def test_a_key_that_is_none_is_refused(run: Path, tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "key").write_bytes(content)
    said = ele("sign", run, "--key", tmp_path / "key")
    assert "the key cannot be read" in said if content is None else "a key has from 16 to" in said
    assert not (run / SIGNATURE).exists()
