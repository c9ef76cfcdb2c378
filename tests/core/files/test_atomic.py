"""Writing at once: the old or the new, never half of either, and nothing left behind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ele_core.errors import ModelError
from ele_core.files import atomic
from ele_core.files.atomic import new_folder, remove_unfinished, replace_folder, write_text


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_text_is_written_as_it_is_into_folders_made_for_it(tmp_path):
    file = tmp_path / "a" / "b" / "text.csv"
    write_text(file, "ψ,\r\n1\n")
    assert file.read_bytes() == "ψ,\r\n1\n".encode()
    assert names(file.parent) == ["text.csv"]
    assert file.stat().st_mode & 0o777 == 0o644


def test_a_text_that_cannot_be_written_leaves_the_old_one_and_nothing_else(tmp_path):
    file = tmp_path / "text.txt"
    write_text(file, "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(file, "new \ud800")
    assert file.read_text() == "old"
    assert names(tmp_path) == ["text.txt"]


def test_a_folder_takes_the_place_of_the_old_one_whole(tmp_path):
    folder = tmp_path / "model"
    for number in (1, 2):
        with replace_folder(folder) as fresh:
            (fresh / f"file-{number}").write_text("x")
            assert (folder / "file-1").exists() == (number == 2), "the old one stays until the end"
    assert names(folder) == ["file-2"]
    assert names(tmp_path) == ["model"]


def test_a_folder_that_fails_to_fill_leaves_the_old_one_and_nothing_else(tmp_path):
    folder = tmp_path / "model"
    with replace_folder(folder) as fresh:
        (fresh / "old").write_text("x")
    with pytest.raises(FileNotFoundError), replace_folder(folder) as fresh:
        (fresh / "new" / "file").write_text("x")
    assert names(folder) == ["old"]
    assert names(tmp_path) == ["model"]


def test_the_old_folder_comes_back_when_the_new_one_cannot_take_its_place(tmp_path, monkeypatch):
    folder = tmp_path / "model"
    with replace_folder(folder) as fresh:
        (fresh / "old").write_text("x")
    rename = Path.rename

    def fails_for_the_new_one(self: Path, target: Path) -> Path:
        if Path(target) == folder and not (self / "old").exists():
            raise OSError("no space left on device")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails_for_the_new_one)
    with pytest.raises(OSError, match="no space"), replace_folder(folder) as fresh:
        (fresh / "new").write_text("x")
    assert names(folder) == ["old"]
    assert names(tmp_path) == ["model"]


def test_a_new_folder_never_takes_the_place_of_a_file(tmp_path):
    (tmp_path / "file").write_text("kept")
    with pytest.raises(ModelError, match="there is a file of this name"), new_folder(tmp_path / "file") as fresh:
        (fresh / "new").write_text("lost")
    assert (tmp_path / "file").read_text() == "kept"


def test_a_new_folder_never_takes_the_place_of_another(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    with new_folder(folder) as fresh:
        (fresh / "one").write_text("1")
    with pytest.raises(ModelError, match="the folder is not empty"), new_folder(folder) as fresh:
        (fresh / "two").write_text("2")
    assert names(folder) == ["one"]
    assert names(tmp_path) == ["run"]


def test_only_what_a_killed_process_left_is_removed(tmp_path):
    left = [".000012.0123abcd-7-abcd_1x9", ".000013.ffffffff-12345-zzzzzzzz"]
    others = [".000012.old.abcd1234", "000012", ".hidden", ".git"]
    for name in (*left, *others):
        (tmp_path / name).mkdir()
    remove_unfinished(tmp_path, r"\d+")
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(others)


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_text(pipe, "a,b\n")
    assert os.read(reader, 100) == b"a,b\n"
    os.close(reader)
    assert pipe.is_fifo()
    assert names(tmp_path) == ["pipe"]


@pytest.mark.parametrize("name", ["device", "/dev/null"])
def test_a_device_is_written_to_and_not_replaced(tmp_path, monkeypatch, name):
    monkeypatch.setattr(atomic.tempfile, "mkstemp", lambda **_: pytest.fail("a file would take its place"))
    (tmp_path / "device").symlink_to("/dev/null")
    write_text(tmp_path / name, "a,b\n")
    assert (tmp_path / name).is_char_device()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no such device")
def test_a_full_device_is_said_to_be_full(monkeypatch):
    monkeypatch.setattr(atomic.tempfile, "mkstemp", lambda **_: pytest.fail("a file would take its place"))
    with pytest.raises(OSError, match="No space left") as caught:
        write_text(Path("/dev/full"), "a,b\n")
    assert caught.value.filename == "/dev/full"


def test_a_link_to_a_file_is_replaced_and_not_followed(tmp_path):
    (tmp_path / "target").write_text("kept")
    (tmp_path / "link").symlink_to("target")
    write_text(tmp_path / "link", "new")
    assert ((tmp_path / "target").read_text(), (tmp_path / "link").read_text()) == ("kept", "new")


def test_folders_are_not_flushed_where_the_system_cannot(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic.os, "open", lambda *_: pytest.fail("a folder was opened"))
    with pytest.raises(pytest.fail.Exception):
        atomic.sync_folder(tmp_path)
    monkeypatch.setattr(atomic.os, "name", "nt")
    atomic.sync_folder(tmp_path)
