"""What a killed process leaves beside a file is removed by the next that writes it; errors name the file itself."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from ele_core.errors import described
from ele_core.files import atomic
from ele_core.files.atomic import new_folder, own_prefix, remove_abandoned, write_bytes


def gone(monkeypatch: pytest.MonkeyPatch, file: Path) -> str:
    """The prefix of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    with monkeypatch.context() as patched:
        patched.setattr(os, "getpid", lambda: process.pid)
        return own_prefix(file)


def test_what_a_dead_process_left_is_removed_and_what_others_write_stays(tmp_path, monkeypatch):
    file = tmp_path / "journal"
    dead = gone(monkeypatch, file)
    (tmp_path / f"{dead}abcd_123").write_text("half")
    (tmp_path / f"{dead}folder00").mkdir()
    mine, of_other_file = tmp_path / f"{own_prefix(file)}abcd_123", tmp_path / f".x{dead}abcd_123"
    elsewhere = tmp_path / ".journal.00000000-1-abcd_123"
    for kept in (mine, of_other_file, elsewhere):
        kept.write_text("")
    write_bytes(file, b"whole")
    assert {path.name for path in tmp_path.iterdir()} == {file.name, mine.name, of_other_file.name, elsewhere.name}
    remove_abandoned(tmp_path / "nothing")


@pytest.mark.parametrize("way", ["new_folder", "replace_folder"])
def test_a_folder_that_a_killed_process_began_is_removed_by_the_next(tmp_path, way):
    script = f"import os; from pathlib import Path; from ele_core.files.atomic import {way} as make\n"
    script += "with make(Path('cache')) as fresh: (fresh / 'half').touch(); os.kill(os.getpid(), 9)"
    for _ in range(2):
        subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=False)
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".cache.")
    with getattr(atomic, way)(tmp_path / "cache") as fresh:
        (fresh / "whole").touch()
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


def test_a_file_that_is_too_large_is_named_in_a_sentence(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large") as caught:
            write_bytes(tmp_path / "file", bytes(2000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []
    assert described(caught.value) == (
        f"{tmp_path / 'file'}: cannot be written: file too large. Make room, or choose another place to write to."
    )


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "/x: cannot be written: no space left on device. Make room"),
        (errno.EROFS, "/x: cannot be used: read-only file system. Choose a place that you may write to"),
        (errno.EACCES, "/x: cannot be used: permission denied. Choose a place"),
        (errno.EIO, "/x: input/output error."),
    ],
)
def test_errors_of_the_system_are_sentences(number, words):
    assert described(OSError(number, os.strerror(number), "/x")).startswith(words)
    assert "Errno" not in described(OSError(number, os.strerror(number)))


def test_the_place_that_is_in_the_way_is_named_and_not_a_temporary_one(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError) as caught, new_folder(tmp_path / "file" / "run"):
        pass
    assert caught.value.filename == str(tmp_path / "file")

    def refused(path, *_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    monkeypatch.setattr(os, "mkdir", refused)
    with pytest.raises(OSError, match="Read-only") as caught, new_folder(tmp_path / "run"):
        pass
    assert caught.value.filename == str(tmp_path / "run")
