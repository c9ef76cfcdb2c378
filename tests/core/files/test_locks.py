"""Locks: one holder at a time, known by its process id, and free again however the holder ends."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from commands import PATIENCE

from ele_core.errors import Locked, ModelError
from ele_core.files.atomic import locked

HOLD = (
    "import sys, pathlib; from ele_core.files.atomic import locked\n"
    "with locked(pathlib.Path(sys.argv[1]), 'training'): print('held', flush=True); sys.stdin.read()"
)
"""Takes a lock, says so, and holds it until its input ends."""


def test_a_second_process_is_refused_a_lock_that_is_held_and_told_by_whom(tmp_path, run_python):
    file = tmp_path / "run" / "lock"
    with locked(file, "training"):
        refused = run_python("-c", HOLD, str(file), check=False)
        holder = file.read_text()
    assert refused.returncode != 0
    assert "held" not in refused.stdout
    assert not file.exists()
    assert f"{file.parent}: another process ({holder}) is training here." in refused.stderr
    assert run_python("-c", HOLD, str(file)).stdout == "held\n"


def test_a_lock_is_free_again_after_its_holder_was_killed(tmp_path):
    file = tmp_path / "lock"
    command = [sys.executable, "-c", HOLD, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(ModelError, match=rf"another process \({holder.pid}\) is training here.*stop it first"):
            locked(file, "training").__enter__()
        holder.kill()
    with locked(file, "training"):
        assert file.read_text() != str(holder.pid)


def test_a_lock_is_free_again_after_its_holder_failed(tmp_path):
    with pytest.raises(ZeroDivisionError), locked(tmp_path / "lock", "training"):
        raise ZeroDivisionError
    with locked(tmp_path / "lock", "training"), pytest.raises(ModelError), locked(tmp_path / "lock", "training"):
        pass


def test_who_is_refused_leaves_the_process_id_of_the_holder_in_place(tmp_path):
    file = tmp_path / "lock"
    with locked(file, "training"):
        for _ in range(2):
            with pytest.raises(Locked, match=rf"another process \({os.getpid()}\) is training here"):
                locked(file, "training").__enter__()
        assert file.read_text() == str(os.getpid())


def test_a_holder_without_a_name_is_unknown(tmp_path):
    with locked(tmp_path / "lock", "training"):
        (tmp_path / "lock").write_text("")
        with pytest.raises(Locked, match=r"another process \(unknown\)"):
            locked(tmp_path / "lock", "training").__enter__()


COUNT = (
    "import sys, pathlib; from ele_core.files.atomic import locked\n"
    "counter = pathlib.Path(sys.argv[1])\n"
    "for _ in range(40):\n"
    "    with locked(counter.with_suffix('.lock'), 'counting', wait=True):\n"
    "        counter.write_text(str(int(counter.read_text()) + 1))"
)
"""Reads a number and writes it back larger by one, often, one process at a time."""


def test_processes_that_wait_take_turns(tmp_path):
    counter = tmp_path / "counter"
    counter.write_text("0")
    processes = [subprocess.Popen([sys.executable, "-c", COUNT, str(counter)]) for _ in range(3)]
    assert [process.wait(timeout=PATIENCE) for process in processes] == [0, 0, 0]
    assert counter.read_text() == "120"
    assert [path.name for path in tmp_path.iterdir()] == ["counter"]


def test_who_waits_has_the_lock_once_it_is_free(tmp_path):
    file, events = tmp_path / "lock", []

    def second() -> None:
        with locked(file, "training", wait=True):
            events.append("second")

    with locked(file, "training"):
        waiting = threading.Thread(target=second)
        waiting.start()
        waiting.join(0.2)
        events.append("first")
    waiting.join(60)
    assert events == ["first", "second"]


READ_ONLY = (
    "import os, pathlib, sys, filelock; from ele_core.files.atomic import locked\n"
    "os.chdir(sys.argv[1]); os.geteuid() or os.setuid(65534)  # root may write everywhere\n"
    "try: locked(pathlib.Path('lock'), 'training').__enter__()\n"
    "except PermissionError: print('refused by the system')"
)


def test_a_lock_in_a_folder_that_cannot_be_written_is_an_error_of_the_system(tmp_path, run_python):
    folder = tmp_path / "run"
    folder.mkdir()
    folder.chmod(0o555)
    assert run_python("-c", READ_ONLY, str(folder)).stdout == "refused by the system\n"
    with pytest.raises(OSError, match=r"File exists|Not a directory"):
        locked(Path(__file__) / "lock", "training").__enter__()


def test_the_library_is_not_loaded_to_import_the_module(run_python):
    assert run_python("-c", "import sys, ele_core.files.atomic; print('filelock' in sys.modules)").stdout == "False\n"
