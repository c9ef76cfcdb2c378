"""Evaluations as TensorBoard event files."""

from __future__ import annotations

import builtins
import json
import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner

from ele_core.cli import cli
from ele_core.errors import ConfigError
from ele_core.extras import pip_install
from ele_core.runtime.tensorboard import FOLDER, TensorBoard

installed = pytest.mark.skipif(
    find_spec("tensorboard") is None, reason="pip install 'explicit-loss-embedding[tensorboard]'"
)


def scalars(run: Path) -> dict[tuple[str, int], list[float]]:
    """Every value that TensorBoard finds for a name and a step."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(run / FOLDER)).Reload()
    found: dict[tuple[str, int], list[float]] = {}
    for name in events.Tags()["scalars"]:
        for event in events.Scalars(name):
            found.setdefault((name, event.step), []).append(event.value)
    return found


def expected(run: Path) -> dict[tuple[str, int], list[float]]:
    """The same from metrics.jsonl."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {
        (f"{line['stage']}/{name}", line["step"]): [pytest.approx(value, rel=1e-6)]
        for line in lines
        for name, value in line.items()
        if name not in ("stage", "step", "best")
    }


@installed
def test_event_files_hold_the_numbers_of_the_metrics_file(settings, tmp_path):
    run = tmp_path / "run"
    command = ["train", "number-words", "-o", str(run), "--no-report", "--log", "tensorboard", *settings]
    result = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert result.exit_code == 0
    assert scalars(run) == expected(run)


@installed
def test_a_resumed_run_has_no_step_twice(trained_run, tmp_path):
    run = Path(shutil.copytree(trained_run, tmp_path / "run"))
    shutil.rmtree(run / "model")
    early = TensorBoard()
    early.start(run, [])
    early.evaluation("embedding", 1, {"loss": 1.0})
    early.evaluation("embedding", 99, {"loss": 1.0})  # after the checkpoint that the run goes on from
    early.end()
    command = ["resume", str(run), "--no-report", "--log", "tensorboard"]
    assert CliRunner().invoke(cli, command, catch_exceptions=False).exit_code == 0
    assert scalars(run) == expected(run)


@installed
def test_lines_written_before_a_stop_are_there_after_it(tmp_path):
    board = TensorBoard()
    board.start(tmp_path, [{"stage": "embedding", "step": 5, "best": True, "loss": 0.5}])
    board.evaluation("embedding", 10, {"loss": 0.25}, best=True)
    board.end()
    assert scalars(tmp_path) == {("embedding/loss", 5): [0.5], ("embedding/loss", 10): [0.25]}


def test_a_missing_package_is_said_before_anything_is_written(monkeypatch, settings, tmp_path):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.partition(".")[0] == "tensorboard":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    for module in [name for name in sys.modules if name.startswith("torch.utils.tensorboard")]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.raises(ConfigError, match=re.escape(pip_install("tensorboard"))):
        TensorBoard()
    command = ["train", "number-words", "-o", str(tmp_path / "run"), "--log", "tensorboard", *settings]
    assert isinstance(CliRunner().invoke(cli, command).exception, ConfigError)
    assert not (tmp_path / "run").exists()


@installed
def test_without_a_run_every_training_writes_into_a_folder_of_its_own_and_removes_nothing(tmp_path):
    theirs = tmp_path / "events.out.tfevents.theirs"
    theirs.write_text("")
    for value in (0.5, 0.25):
        board = TensorBoard(tmp_path)
        board.start(None, [])
        board.evaluation("embedding", 1, {"loss": value})
        board.end()
    assert theirs.exists()
    assert [len(list((tmp_path / f"fit-{number}").iterdir())) for number in (1, 2)] == [1, 1]
