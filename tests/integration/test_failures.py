"""What goes wrong in a training or an evaluation: one sentence, a code, and nothing lost."""

from __future__ import annotations

import json
import math
import os
import resource
import shutil
import signal
import time
from pathlib import Path

import pytest
import torch
from commands import assert_same, checkpoint, ele, ended, here, last_checkpoint, start, wait_for_checkpoint
from safetensors.torch import load_file

from ele_core import StructuredPredictor
from ele_core import config as configuration
from ele_core.components.backbones.gru import GRUBackbone
from ele_core.errors import ModelError, TrainingError
from ele_core.runs.run import Run
from ele_core.runtime.monitor import Callback, Monitor

QUICK = {"epochs": 2, "evaluations": 2, "batch_size": 16}
WORDS = [f"word {number}" for number in range(60)]
NUMBERS = [str(number) for number in range(60)]


# -- a loss that is not a number ----------------------------------------------------------------------------------


def test_a_loss_that_is_not_a_number_stops_and_keeps_the_last_good_weights(config, undisturbed, tmp_path, monkeypatch):
    run = tmp_path / "run"
    forward, calls = GRUBackbone.forward, []

    def spoilt(self, batch):
        calls.append(self.training)
        return forward(self, batch) * (math.nan if sum(calls) == 7 else 1)

    with monkeypatch.context() as patched:
        patched.setattr(GRUBackbone, "forward", spoilt)
        with pytest.raises(TrainingError) as error:
            Run.start(configuration.load(config), run, Monitor())
    assert str(error.value).startswith("regression: the loss is nan at step 7. Try a smaller learning_rate")
    assert all(weights.isfinite().all() for weights in load_file(last_checkpoint(run) / "state.safetensors").values())
    slower = Path(shutil.copytree(run, tmp_path / "slower"))
    changes = ["regressor.training.learning_rate=1e-4"]
    assert Run.resume(slower, Monitor(), accept_changes=True, overrides=changes).model().candidates is not None
    Run.resume(run, Monitor())
    assert_same(undisturbed, run)


# -- the disk -----------------------------------------------------------------------------------------------------


def test_a_disk_without_room_is_named_and_the_last_checkpoint_is_intact(config, undisturbed, tmp_path):
    run = tmp_path / "run"
    process = start("train", config, "-o", run, "--checkpoint-every", 0)
    wait_for_checkpoint(run, 5, process)
    process.terminate()
    ended(process)
    number = checkpoint(run)

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))

    full = ele("resume", run, "--checkpoint-every", 0, preexec_fn=small_files)
    assert full.returncode == 1
    assert "the checkpoint could not be written" in full.stderr
    assert f"The last one, number {number}, is intact. Make room. Continue with: ele resume" in full.stderr
    assert checkpoint(run) == number
    assert [path.name for path in (run / "checkpoints").iterdir() if path.name.startswith(".")] == []
    assert here("resume", run).returncode == 0
    assert_same(undisturbed, run)


# -- a plugin that is gone ----------------------------------------------------------------------------------------


def test_a_run_whose_plugin_is_gone_says_which(undisturbed):
    done = ele("evaluate", undisturbed, env={**os.environ, "ELE_DISABLED_PLUGINS": "sequences"})
    assert done.returncode != 0
    assert "sequence" in done.stderr
    assert "The run was started with ele " in done.stderr
    assert "Traceback" not in done.stderr


# -- evaluations and predictions ----------------------------------------------------------------------------------


def stopped_after_a_block(undisturbed: Path, *command) -> tuple[int, str]:
    process = start(*command)
    while not list((undisturbed / "checkpoints").glob("*.lock")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    time.sleep(0.3)  # it listens by now, and is in its first block
    process.send_signal(signal.SIGTERM)
    return ended(process)


def test_an_evaluation_that_is_stopped_goes_on_when_it_is_asked_for_again(undisturbed, tmp_path):
    run = Path(shutil.copytree(undisturbed, tmp_path / "run"))
    command = ("evaluate", run, "--decoder", "pgd", "--set", "decoder.steps=60")
    assert here(*command).returncode == 0
    table = (run / "predictions" / "test-pgd.csv").read_text()
    (run / "predictions" / "test-pgd.csv").unlink()
    code, words = stopped_after_a_block(run, *command)
    assert code == 143
    assert "stopped during pgd, its state is kept. Continue with the same command." in words
    assert not (run / "predictions" / "test-pgd.csv").exists()
    again = here(*command)
    assert "continuing where the same command was stopped" in again.stderr
    assert (run / "predictions" / "test-pgd.csv").read_text() == table
    assert not (run / "checkpoints").exists()


def test_predictions_that_are_stopped_go_on_when_they_are_asked_for_again(undisturbed, tmp_path):
    run = Path(shutil.copytree(undisturbed, tmp_path / "run"))
    inputs, target = tmp_path / "inputs.txt", tmp_path / "predictions.csv"
    inputs.write_text("".join(f"one hundred {word}\n" for word in ("one", "two", "three", "four") * 50))
    command = ("predict", run, inputs, "-o", target, "--decoder", "pgd", "--set", "decoder.steps=60")
    code, words = stopped_after_a_block(run, *command)
    assert code == 143, words
    assert not target.exists()
    again = here(*command)
    assert again.returncode == 0, again.stderr
    assert "continuing where the same command was stopped" in again.stderr
    assert len(target.read_text().splitlines()) == 201


def test_what_was_decoded_is_not_lost_where_it_cannot_be_written(undisturbed, tmp_path):
    run = Path(shutil.copytree(undisturbed, tmp_path / "run"))
    inputs = tmp_path / "inputs.txt"
    inputs.write_text("one\ntwo\n")
    (tmp_path / "file").write_text("")
    command = ("predict", run, inputs, "--decoder", "pgd", "-o")
    failed = here(*command, tmp_path / "file" / "predictions.csv")
    assert failed.returncode == 1
    assert "Traceback" not in failed.stderr
    again = here(*command, tmp_path / "predictions.csv")
    assert "continuing where the same command was stopped" in again.stderr
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 3


def test_a_run_that_cannot_be_written_still_predicts(undisturbed, tmp_path):
    run = Path(shutil.copytree(undisturbed, tmp_path / "run"))
    (run / "checkpoints").write_text("a file where the folder should be")
    done = here("predict", run, "-", stdin="one\n")
    assert done.returncode == 0, done.stderr
    assert "continuing without checkpoints" in done.stderr
    assert len(done.stdout.splitlines()) == 2


# -- from Python --------------------------------------------------------------------------------------------------


class Crash(Exception):
    """The end of a process, without the process."""


def predictor() -> StructuredPredictor:
    return StructuredPredictor(
        "sequence",
        surrogate={"name": "contrastive", "dim": 8, "encoder": {"name": "flat", "width": 8}, "training": QUICK},
        regressor={"name": "neural", "backbone": {"name": "gru", "embedding": 4, "width": 4}, "training": QUICK},
    )


def weights(fitted: StructuredPredictor) -> dict[str, torch.Tensor]:
    model = fitted.model_
    return {**model.surrogate.state(), **{f"regressor {k}": v for k, v in model.regressor.state().items()}}


class Crashes(Callback):
    """Ends the training in its third evaluation."""

    def __init__(self) -> None:
        self.stages: list[str] = []

    def evaluation(self, stage, step, metrics, *, best=False):
        self.stages.append(stage)
        if len(self.stages) == 3:
            raise Crash


def test_fit_in_a_run_goes_on_after_a_crash_to_the_bit(tmp_path):
    expected = weights(predictor().fit(WORDS, NUMBERS))
    crashes = Crashes()
    with pytest.raises(Crash):
        predictor().set_params(callbacks=[crashes]).fit(WORDS, NUMBERS, run=tmp_path / "run", checkpoint_every=0)
    assert crashes.stages == ["embedding", "embedding", "regression"]
    found = weights(predictor().fit(WORDS, NUMBERS, run=tmp_path / "run"))
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    stages = [json.loads(line)["stage"] for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert stages == ["embedding", "embedding", "regression", "regression"]


def test_fit_takes_the_model_of_a_run_that_has_finished_and_refuses_another(tmp_path):
    run = tmp_path / "run"
    first = predictor().fit(WORDS, NUMBERS, run=run)
    again = predictor().fit(WORDS, NUMBERS, run=run)
    assert all(torch.equal(value, weights(again)[name]) for name, value in weights(first).items())
    assert again.predict(WORDS[:5]) == first.predict(WORDS[:5])
    with pytest.raises(ModelError, match=r"configuration has changed: seed: 0 → 1"):
        predictor().set_params(seed=1).fit(WORDS, NUMBERS, run=run)
    with pytest.raises(Exception, match="the data, or their split, have changed"):
        predictor().fit(WORDS, NUMBERS[::-1], run=run)


def test_a_run_from_python_cannot_be_resumed_without_its_data(tmp_path, monkeypatch):
    def crash(*_, **__):
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(Monitor, "evaluation", crash)
        with pytest.raises(Crash):
            predictor().fit(WORDS, NUMBERS, run=tmp_path / "run")
    with pytest.raises(ModelError, match="Call fit again with the same arguments"):
        Run.resume(tmp_path / "run", Monitor())
