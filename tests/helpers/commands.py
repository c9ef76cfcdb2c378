"""Run `ele` in separate processes, to kill, stop and resume them; and the configuration of a small run for that."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import time
import warnings
from pathlib import Path
from unittest import mock

CONFIG = """
seed = 3
task = {name = "number-words", size = 2400, validation = 200, test = 200}
[surrogate]
name = "contrastive"
dim = 16
encoder = {name = "sequence", width = 16, layers = 1}
mining = {group = 8, refresh = 2}
soft_points = 0.1
chunk = 100
training = {epochs = 4, batch_size = 256, evaluations = 5, average = 0.9}
[regressor]
name = "neural"
backbone = {name = "gru", embedding = 8, layers = 2, width = 16, dropout = 0.1}
training = {epochs = 3, batch_size = 200, evaluations = 6, patience = 4}
"""
PATIENCE = 3600
"""Seconds after which a process hangs: far more than a test takes on a busy machine."""
SAME = ("metrics.jsonl", "model/model.safetensors", "model/candidates.safetensors", "model/tokenizer.json")
"""The files of a run that must be equal, byte for byte."""


def without_report(arguments) -> list[str]:
    """The words of a command, with `--no-report` for trainings: these tests need no report."""
    return [*map(str, arguments), *(["--no-report"] if arguments[0] in ("train", "resume") else [])]


def ele(*arguments, launcher=(), **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *(launcher or ("-m", "ele_core")), *without_report(arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE, **options)


def here(*arguments, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """The same in this process, for commands that nobody kills: a process of their own imports torch first."""
    from ele_core.cli import main

    words, code = without_report(arguments), 0
    out, err = io.StringIO(), io.StringIO()
    given = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    patched = mock.patch.multiple(sys, argv=["ele", *words], stdin=given)
    with patched, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("default")
        try:
            main()
        except SystemExit as done:
            code = int(done.code or 0)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def start(*arguments, **options) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "ele_core", *without_report(arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, start_new_session=True, **pipes, **options)


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for the process; its exit code and standard error."""
    _, words = process.communicate(timeout=PATIENCE)
    return process.returncode, words


def checkpoint(run: Path) -> int:
    """The number of the last checkpoint."""
    return max((int(path.name) for path in (run / "checkpoints").glob("[0-9]*")), default=0)


def last_checkpoint(run: Path) -> Path:
    """The folder of the last checkpoint."""
    return run / "checkpoints" / f"{checkpoint(run):06d}"


def wait_for_checkpoint(run: Path, number: int, process: subprocess.Popen[str]) -> None:
    """Wait until the run has written checkpoint `number`, or has ended."""
    deadline = time.monotonic() + PATIENCE
    while checkpoint(run) < number and process.poll() is None:
        assert time.monotonic() < deadline, "no checkpoint was written"
        time.sleep(0.002)


def assert_same(one: Path, other: Path) -> None:
    for name in SAME:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
