"""Locks between processes: one file that the system lets go when its holder ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ele_core.errors import Locked
from ele_core.files.atomic import make_folder


@contextmanager
def locked(file: Path, what: str) -> Iterator[None]:
    """Hold a lock on `file`, which the system lets go when the process ends, however it ends.

    A second process that asks for it is refused, with `what` is being done.
    """
    import fcntl  # not on every system, and not needed to predict

    make_folder(file.parent)
    while True:
        with file.open("a+") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                stream.seek(0)
                holder = stream.read().strip() or "unknown"
                problem = f"another process ({holder}) is {what} here."
                raise Locked(problem, where=str(file.parent), fix="Wait for it, or stop it first.") from None
            if not still(file, stream.fileno()):
                continue  # the one who held it has removed the file since we opened it
            stream.truncate(0)
            stream.write(str(os.getpid()))
            stream.flush()
            try:
                yield
            finally:
                file.unlink(missing_ok=True)
            return


def still(file: Path, handle: int) -> bool:
    """Whether an open file is the one that has its name now."""
    try:
        return os.path.samestat(file.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False
