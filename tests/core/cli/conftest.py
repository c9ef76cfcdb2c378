"""The `ele` command as a fixture, and a copy of a finished run."""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

import pytest
from ele_command import Ele, Outcome

from ele_core.cli import main


@pytest.fixture
def ele(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Ele:
    """`ele("train", …)` as a user types it, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path, stdin: str = "") -> Outcome:
        monkeypatch.setattr(sys, "argv", ["ele", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8"))
        capsys.readouterr()
        code: int | str | None = 0
        try:
            main()
        except SystemExit as done:
            code = done.code
        return Outcome(int(code or 0), *capsys.readouterr())

    return run


@pytest.fixture
def copy(trained_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained_run, tmp_path / "run"))
