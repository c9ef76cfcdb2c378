"""A run's folder: what is in it, what it refuses, and that it measures what it trained on."""

from __future__ import annotations

import csv
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from recording import Recorder

from ele_core import config as configuration
from ele_core.errors import ConfigError, DataError, EleError, ModelError
from ele_core.files.archive import digest
from ele_core.files.tables import as_csv
from ele_core.runs.run import Run
from ele_core.runtime.context import Context

QUICK = [
    "recipe=paper",
    "surrogate.dim=4",
    "surrogate.encoder={name='flat', width=4, layers=1}",
    "surrogate.training.epochs=1",
    "surrogate.training.evaluations=2",
    "regressor.backbone={name='gru', embedding=4, layers=1, width=4}",
    "regressor.training.epochs=1",
    "regressor.training.evaluations=2",
]


@pytest.fixture
def copy(trained_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained_run, tmp_path / "run"))


def own_data(folder: Path, count: int = 30) -> dict[str, Any]:
    file = folder / "pairs.csv"
    file.write_text("x,y\n" + "".join(f"word {n},{n}\n" for n in range(count)))
    return {"output": "sequence", "data": {"file": str(file)}}


def rows_of(file: Path) -> list[dict[str, str]]:
    with file.open() as stream:
        return list(csv.DictReader(stream))


def test_a_run_holds_its_configuration_data_metrics_and_model(trained_run):
    assert sorted(path.name for path in trained_run.iterdir() if path.name != "predictions") == [
        "config.toml",
        "data.json",
        "identity.json",
        "log.txt",
        "manifest.json",
        "metrics.jsonl",
        "model",
        "times.jsonl",
    ]
    data = json.loads((trained_run / "data.json").read_text())
    assert [len(data[part]) for part in ("train", "validation", "test")] == [160, 20, 20]
    assert len(data["fingerprint"]) == 64
    lines = [json.loads(line) for line in (trained_run / "metrics.jsonl").read_text().splitlines()]
    assert [line["stage"] for line in lines] == ["embedding"] * 3 + ["regression"] * 2
    assert configuration.load(trained_run / "config.toml").output.options["length"] == 6


def test_equal_runs_write_equal_metrics_data_and_models(tmp_path):
    config = configuration.load(own_data(tmp_path), QUICK)
    for name in ("a", "b"):
        Run.start(config, tmp_path / name, Recorder())
    for file in (
        "config.toml",
        "data.json",
        "metrics.jsonl",
        "model/model.safetensors",
        "model/candidates.safetensors",
    ):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file


def test_an_evaluation_writes_a_row_for_each_pair_in_order(copy):
    run = Run(copy)
    result = run.evaluate(monitor=Recorder())
    table = rows_of(copy / "predictions" / f"test-{run.config.decoder.name}.csv")
    prepared = run.data(Context())
    assert [row["input"] for row in table] == prepared.data.inputs_at(prepared.data.test)
    assert [row["truth"] for row in table] == prepared.space.unpack(prepared.data.outputs[prepared.data.test])
    assert sum(float(row["exact"]) for row in table) / len(table) == pytest.approx(result.metrics["exact"])
    assert [float(row["exact"]) for row in table] == [float(row["prediction"] == row["truth"]) for row in table]


def test_decoder_oracle_split_and_limit_have_files_of_their_own(copy):
    run = Run(copy)
    run.evaluate(overrides=["decoder=candidates"], oracle=True, split="validation", limit=7, monitor=Recorder())
    assert len(rows_of(copy / "predictions" / "validation-candidates-oracle.csv")) == 7


def test_candidates_never_hold_a_test_number(copy):
    metrics = Run(copy).evaluate(overrides=["decoder=candidates"], monitor=Recorder()).metrics
    assert (metrics["exact"], metrics["unseen"]) == (0.0, 1.0)


def test_what_training_settled_cannot_be_changed_afterwards(copy):
    run = Run(copy)
    assert run.model(["decoder.steps=3", "candidates.share=0.5"]).config.candidates.share == 0.5
    with pytest.raises(
        ConfigError, match=r"surrogate, regressor cannot change after training.*constraints, candidates"
    ):
        run.model(["surrogate.dim=9", "regressor.training.epochs=3", "decoder.steps=2"])


def test_what_a_run_was_trained_with_is_written_down(trained_run):
    trained = json.loads((trained_run / "identity.json").read_text())
    assert trained["config"] == [digest(trained_run / "config.toml")], "the configuration itself is stored once"
    assert trained["data"] == json.loads((trained_run / "data.json").read_text())["fingerprint"]
    assert trained["versions"]["torch"] == torch.__version__
    assert trained["processes"] == 1


def test_a_folder_without_a_configuration_is_no_run(copy):
    (copy / "config.toml").unlink()
    with pytest.raises(ModelError, match=r"run: there is no run here.*ele train"):
        Run(copy)
    with pytest.raises(ModelError, match=r"model: this is a model without the data and the records of its run\."):
        Run(copy / "model").evaluate()


def test_a_folder_without_a_model_is_a_run_that_has_not_finished(copy):
    shutil.rmtree(copy / "model")
    with pytest.raises(ModelError, match=rf"run: this run has not finished.*ele resume {copy}"):
        Run(copy)


def test_a_run_that_has_not_finished_is_not_started_anew_but_gone_on_with(copy):
    model = {file.name: file.read_bytes() for file in (copy / "model").iterdir()}
    metrics = (copy / "metrics.jsonl").read_bytes()
    config = Run(copy).config
    shutil.rmtree(copy / "model")
    with pytest.raises(ModelError, match=rf"there is an unfinished run.*ele resume {copy}"):
        Run.start(config, copy, Recorder())
    Run.resume(copy, Recorder())
    assert {file.name: file.read_bytes() for file in (copy / "model").iterdir()} == model
    assert (copy / "metrics.jsonl").read_bytes() == metrics
    assert not (copy / "checkpoints").exists()


def test_a_command_in_a_message_can_be_copied_whatever_the_folder_is_called(tmp_path):
    folder = tmp_path / "my run"
    folder.mkdir()
    (folder / "config.toml").touch()
    with pytest.raises(ModelError, match=rf"ele resume '{folder}'$"):
        Run(folder)


def test_a_run_that_has_finished_is_left_alone_when_it_is_resumed(copy):
    before = {file: file.stat().st_mtime_ns for file in copy.rglob("*")}
    recorder = Recorder()
    Run.resume(copy, recorder)
    assert "nothing to do" in recorder.messages[-1]
    assert {file: file.stat().st_mtime_ns for file in copy.rglob("*")} == before


def test_the_surrogate_of_another_run_is_taken_over_and_only_the_regressor_is_trained(copy, tmp_path):
    first = Run(copy)
    config = configuration.load(copy / "config.toml", ["seed=5", "regressor.training.epochs=1"])
    recorder = Recorder()
    second = Run.start(config, tmp_path / "second", recorder, surrogate_from=first)
    assert recorder.stages() == ["regression"]
    left, right = (run.model().surrogate.state() for run in (first, second))
    assert all(torch.equal(left[name], right[name]) for name in left)
    other = configuration.load(copy / "config.toml", ["surrogate.dim=9"])
    with pytest.raises(ConfigError, match=r"surrogate cannot be used.*surrogate\.dim: 8 → 9"):
        Run.start(other, tmp_path / "third", Recorder(), surrogate_from=first)
    assert not (tmp_path / "third").exists()


@pytest.mark.parametrize("content", ["{", '{"train": []}', '{"train": 3, "validation": [], "test": []}', "[]"])
def test_damaged_data_are_named(copy, content):
    (copy / "data.json").write_text(content)
    with pytest.raises(ModelError, match=r"data\.json: damaged"):
        Run(copy).data(Context())


def test_data_that_changed_since_the_training_are_refused(tmp_path):
    config = configuration.load(own_data(tmp_path), QUICK)
    run = Run.start(config, tmp_path / "run", Recorder())
    split = run.data(Context()).data.test
    assert torch.equal(split, run.data(Context(seed=9)).data.test)
    own_data(tmp_path, count=31)
    with pytest.raises(DataError, match=r"pairs\.csv has changed since the training"):
        Run(run.folder).evaluate(monitor=Recorder())


def test_a_folder_with_something_in_it_is_refused_and_left_alone(tmp_path):
    config = configuration.load(own_data(tmp_path), QUICK)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(ModelError, match=r"folder is not empty.*-o"):
        Run.start(config, tmp_path, Recorder())
    for file in (tmp_path / "pairs.csv", Path(os.devnull)):
        with pytest.raises(ModelError, match=r"there is a file of this name\. Choose another with -o\.$"):
            Run.start(config, file, Recorder())
    assert sorted(tmp_path.iterdir()) == before


def test_nothing_is_written_when_the_data_are_bad(tmp_path):
    source = own_data(tmp_path)
    Path(source["data"]["file"]).write_text("x,y\n,1\n,2\n")
    with pytest.raises(DataError, match="2 rows cannot be used"):
        Run.start(configuration.load(source, QUICK), tmp_path / "run", Recorder())
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.validation=0", "the validation set is empty.*set `validation` above 0"),
        ("regressor.backbone={name='mlp'}", "mlp"),
    ],
)
def test_nothing_is_written_when_the_training_cannot_begin(tmp_path, override, message):
    config = configuration.load(own_data(tmp_path), [*(o for o in QUICK if "backbone" not in o), override])
    with pytest.raises(EleError, match=message):
        Run.start(config, tmp_path / "run", Recorder())
    assert not (tmp_path / "run").exists()


def test_a_handful_of_pairs_is_enough_to_train_on(tmp_path):
    run = Run.start(configuration.load(own_data(tmp_path, count=6), QUICK), tmp_path / "run", Recorder())
    assert [len(part) for part in (run.data(Context()).data.validation, run.data(Context()).data.test)] == [1, 1]


def test_rows_left_out_are_written_down_with_their_reason(tmp_path):
    source = own_data(tmp_path)
    with Path(source["data"]["file"]).open("a") as stream:
        stream.write(",7\n")
    config = configuration.load(source, [*QUICK, "data.on_error=skip"])
    recorder = Recorder()
    Run.start(config, tmp_path / "run", recorder)
    data = json.loads((tmp_path / "run" / "data.json").read_text())
    assert data["rejected"] == [{"row": 30, "text": "", "reason": "the text is empty.", "line": 32}]
    assert "1 row left out" in recorder.messages[0]


def test_only_a_tasks_own_data_have_references(copy, tmp_path):
    assert list(Run(copy).references()) == []
    source = {**own_data(tmp_path), "task": "number-words"}
    run = Run.start(configuration.load(source, QUICK), tmp_path / "own", Recorder())
    assert list(run.references()) == []


def test_csv_quotes_what_needs_it_and_has_a_header_also_without_rows():
    assert as_csv([{"a": 'x,"y"', "b": "1\n2"}]) == 'a,b\n"x,""y""","1\n2"\n'
    assert as_csv([{"a": "x\ry", "b": "z"}]) == 'a,b\n"x\ry",z\n'
    assert as_csv([], ["a", "b"]) == "a,b\n"
