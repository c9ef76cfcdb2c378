"""A disk on which nothing more can be written: every command says so in one sentence."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import ele_core.cli

SMALL = [
    *("--set", "task.size=120", "--set", "task.validation=20", "--set", "task.test=20", "--set", "surrogate.dim=8"),
    *("--set", "surrogate.training.epochs=1", "--set", "regressor.training.epochs=1"),
]
COMMANDS = {
    "train": ["train", "number-words", "-o", "new", *SMALL],
    "evaluate": ["evaluate", "run", "--decoder", "candidates"],
    "predict": ["predict", "run", "inputs.txt", "--decoder", "candidates", "-o", "out.csv"],
    "record": ["evaluate", "run", "--decoder", "candidates", "--record", "record.json"],
    "report": ["report", "run"],
    "compare": ["compare", "run", "other", "-o", "page.html"],
    "sweep": ["sweep", "run", "--share", "1", "--decoder", "candidates"],
    "tune": ["tune", "number-words", "--space", "space.toml", "--trials", "1", *SMALL],
    "init": ["init", "number-words", "-o", "config.toml"],
    "new-plugin": ["new-plugin", "colours"],
    "sign": ["sign", "run", "--key", "key"],
}


@contextmanager
def full_disk() -> Iterator[None]:
    """In the block, no file can be longer than a few bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_is_one_sentence(
    name: str, trained_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("run", "other"):
        shutil.copytree(trained_run, folder, ignore=shutil.ignore_patterns("predictions"))
    (tmp_path / "inputs.txt").write_text("one\ntwo\n")
    (tmp_path / "key").write_bytes(bytes(32))
    (tmp_path / "space.toml").write_text('"regressor.backbone.width" = {choices = [8]}')
    monkeypatch.setattr(sys, "argv", ["ele", *COMMANDS[name]])
    with full_disk(), pytest.raises(SystemExit) as ended:
        ele_core.cli.run()
    words = capsys.readouterr().err
    assert ended.value.code == 1, words
    assert "Errno" not in words
    assert "Traceback" not in words
    assert words.splitlines()[-1].startswith("Error: ")
    assert "too large" in words.splitlines()[-1]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_standard_output_that_is_full_is_one_sentence() -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "ele_core", "plugins"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, "PYTHONUNBUFFERED": ""},
        )
    assert done.returncode == 1
    said = "Error: cannot be written: no space left on device. Make room, or choose another place to write to.\n"
    assert done.stderr == said
