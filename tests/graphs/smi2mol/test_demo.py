"""The demo, at a size that takes seconds."""

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec

import click
import pytest
from click.testing import CliRunner
from commands import PATIENCE

from ele_core import ConfigError, Run
from ele_core.errors import Interrupted
from ele_graphs.smi2mol import demo as module
from ele_graphs.smi2mol.demo import demo, trained

TINY = (
    "task.size=120",
    "surrogate.encoder.width=8",
    "surrogate.dim=16",
    "regressor.backbone.width=8",
    "regressor.training.epochs=1",
    "regressor.training.evaluations=1",
)


@pytest.mark.skipif(
    find_spec("qm9pack") is None, reason="the demo trains on QM9: pip install explicit-loss-embedding[qm9]"
)
def test_the_demo_trains_predicts_and_draws(tmp_path):
    overrides = [word for option in TINY for word in ("--set", option)]
    record = tmp_path / "demo.json"
    arguments = ["--folder", str(tmp_path), "--record", str(record), *overrides]
    result = CliRunner().invoke(demo, arguments, catch_exceptions=False)
    assert result.exit_code == 0
    assert all(f"{decoder}: ged_with_edges" in result.output for decoder in ("candidates", "search"))
    folder = tmp_path / "run-1"
    assert len(list((folder / "pictures").glob("*-truth.svg"))) == 10
    assert (folder / "pictures" / "all.svg").read_text().count("<svg") == 21
    assert (folder / "model" / "model.safetensors").exists()
    found = json.loads(record.read_text("utf-8"))
    assert (found["sizes"]["train"], found["sizes"]["test"]) == (84, 24)
    assert [(each["decoder"], each["metrics"]["examples"]) for each in found["decoders"]] == [
        ("candidates", 24),
        ("search", 24),
    ]
    assert found["command"].startswith("python -m ele_graphs.smi2mol.demo")
    assert found["training_cpu_seconds"] > 0


NEEDS_QM9 = pytest.mark.skipif(find_spec("qm9pack") is None, reason="the demo trains on QM9")


@pytest.mark.parametrize(
    ("raised", "code", "text"),
    [
        (
            Interrupted("stopped during embedding.", signal=15),
            143,
            "stopped during embedding. Continue with: make demo",
        ),
        (Interrupted("stopped during pgd.", signal=2), 130, "stopped during pgd. Continue with: make demo"),
        (KeyboardInterrupt(), 130, "stopped. Continue with: make demo"),
        (ConfigError("wrong.", where="seed"), 2, "seed: wrong."),
        (click.UsageError("No such option"), 2, "No such option"),
    ],
)
def test_the_demo_ends_with_one_sentence(monkeypatch, capsys, raised, code, text):
    def stopped(**_):
        raise raised

    monkeypatch.setattr(module, "demo", stopped)
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as ended:
            module.main()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended.value.code == code
    assert capsys.readouterr().err.rstrip().endswith(f"Error: {text}")


@pytest.mark.slow
@NEEDS_QM9
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_demo_says_how_to_continue_without_a_traceback(tmp_path, stop):
    command = [sys.executable, "-m", "ele_graphs.smi2mol.demo", "--folder", str(tmp_path), "--set", "task.size=2000"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    wait_for(tmp_path / "run-1" / "metrics.jsonl", process)
    process.send_signal(stop)
    _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + stop
    assert err.rstrip().endswith("its state is kept. Continue with: make demo")
    assert "Traceback" not in err
    assert (tmp_path / "run-1" / "checkpoints").is_dir()


def test_a_demo_that_was_stopped_continues_in_its_folder(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(Run, "resume", lambda folder, _: calls.append(("resume", folder)))
    monkeypatch.setattr(Run, "start", lambda _, folder, __: calls.append(("start", folder)))
    for name in ("run-1", "run-2"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.toml").touch()
    trained(tmp_path, [])
    trained(tmp_path, ["seed=1"])
    trained(tmp_path, [], new=True)
    (tmp_path / "run-2" / "report.html").touch()
    trained(tmp_path, [])
    first, second = tmp_path / "run-2", tmp_path / "run-3"
    assert calls == [("resume", first), ("start", second), ("start", second), ("start", second)]


def wait_for(file, process):
    """Wait until a file exists; the process must not end before."""
    for _ in range(3000):
        if file.exists():
            return
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.1)
    raise AssertionError(f"{file} was not written")
