"""Locks between processes: a file that one process holds, and that the system releases when this process ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ele_core.errors import Locked
from ele_core.files.atomic import make_folder

AT_ONCE = 0.1
"""Seconds before a process is refused: long enough to try again if the holder removes the file in this moment."""


@contextmanager
def locked(file: Path, what: str, *, wait: bool = False) -> Iterator[None]:
    """Hold a lock on `file`, which the system releases when the process ends, however it ends.

    The file contains the process id of its holder and is removed at the end of the block. A second process that asks
    for the lock waits for it if `wait`; otherwise it is refused and told which process is doing `what`.
    """
    from filelock import FileLock, Timeout  # not needed to predict

    make_folder(file.parent)
    # The file is ours to write and to remove: no version since 3.30 truncates it, and each takes no lock on a removed
    # file. A soft lock would survive a kill.
    lock = FileLock(file, timeout=-1 if wait else AT_ONCE, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout:
        problem = f"another process ({holder(file)}) is {what} here."
        raise Locked(problem, where=str(file.parent), fix="Wait for it, or stop it first.") from None
    try:
        file.write_text(str(os.getpid()))
        yield
    finally:
        file.unlink(missing_ok=True)  # before the release: afterwards it may belong to another process
        lock.release()


def holder(file: Path) -> str:
    """The process id in a lock file; `unknown` if it cannot be read."""
    try:
        return file.read_text().strip() or "unknown"
    except OSError:
        return "unknown"
