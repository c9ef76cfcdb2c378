"""A launcher that starts killed processes again, and machines that share no disk, end with the bytes of a calm run."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from commands import PATIENCE, assert_same, checkpoint, ele, ended, without_report

ELASTIC = (
    "-m",
    "torch.distributed.run",
    "--standalone",
    "--nproc-per-node",
    "2",
    "--max-restarts",
    "2",
    "-m",
    "ele_core",
)


@pytest.fixture(scope="module")
def of_two(config) -> Path:
    """The run of two processes that nobody killed."""
    run = config.parent / "calm"
    done = ele("train", config, "-o", run, "--processes", 2)
    assert done.returncode == 0, done.stderr
    return run


def worker(launcher: int, rank: int) -> int:
    """The process of this rank that torchrun has started."""
    for child in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        if f"RANK={rank}".encode() in Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
            return int(child)
    raise AssertionError("there is no such worker")


def learning(run: Path, stage: str) -> bool:
    """Whether a stage of the training has been evaluated, and was saved since."""
    journal = run / "metrics.jsonl"
    return checkpoint(run) > 2 and journal.is_file() and f'"stage": "{stage}"' in journal.read_text()


STAGES: dict[str, Callable[[Path], bool]] = {
    "begun": lambda run: (run / "identity.json").is_file(),
    "embedding": lambda run: learning(run, "embedding"),
    "regression": lambda run: learning(run, "regression"),
    "trained": lambda run: (run / "model").is_dir(),
}


@pytest.mark.parametrize(("stage", "rank"), [("begun", 1), ("embedding", 1), ("regression", 0), ("trained", 0)])
def test_a_killed_worker_is_replaced_and_no_byte_differs(config, of_two, tmp_path, stage, rank):
    run = tmp_path / "run"
    command = ["train", config, "-o", run, "--checkpoint-every", 0]
    process = subprocess.Popen(
        [sys.executable, *ELASTIC, *(map(str, command) if stage == "trained" else without_report(command))],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    deadline = time.monotonic() + PATIENCE
    while not STAGES[stage](run):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.002)
    os.kill(worker(process.pid, rank), signal.SIGKILL)
    code, words = ended(process)
    assert code == 0, words
    assert "-9" in words, "torchrun saw no kill"
    assert_same(of_two, run)
    assert not list((run / "checkpoints").glob("[0-9]*"))
    assert (run / "report.html").is_file() == (stage == "trained")


def test_a_launcher_that_starts_again_needs_a_name_for_the_run(config, tmp_path):
    done = ele("train", config, launcher=ELASTIC, cwd=tmp_path)
    assert done.returncode != 0
    assert "a training that is started again must find its run. Name the run folder: -o RUN." in done.stderr
    assert not (tmp_path / "runs").exists()


def test_machines_that_share_no_disk_train_continue_and_evaluate(config, of_two, tmp_path):
    machines = [tmp_path / "one", tmp_path / "other"]
    for machine in machines:
        machine.mkdir()
    together(machines, "train", config, "-o", "run")
    assert_same(of_two, machines[0] / "run")
    (machines[0] / "run" / "report.html").write_text("there is one")
    out = together(machines, "resume", "run")
    assert "Finished already" in out
    together(machines, "evaluate", "run", "--decoder", "candidates")
    assert (machines[0] / "run" / "predictions" / "test-candidates.csv").is_file()
    words = tmp_path / "words.txt"
    words.write_text("one\n\ntwo hundred\n")
    together(machines, "predict", "run", words, "--decoder", "candidates", "-o", "out.csv")
    assert len((machines[0] / "out.csv").read_text().splitlines()) == 4
    assert not list(machines[1].iterdir())


def together(machines: list[Path], *command: object) -> str:
    """Run a command in one process on each machine, as Kubernetes would; what the main one printed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": str(len(machines)), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "ele_core", *without_report(command)],
            text=True,
            cwd=machine,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **shared, "RANK": str(rank)},
        )
        for rank, machine in enumerate(machines)
    ]
    ends = [process.communicate(timeout=PATIENCE) for process in started]
    assert [process.returncode for process in started] == [0] * len(machines), ends
    return ends[0][0]
