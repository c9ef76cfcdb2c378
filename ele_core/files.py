"""Writing files so that a crash leaves the old one or the new one, never half of either."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ele_core.errors import ModelError


def write_text(file: Path, text: str) -> None:
    """Write a text file at once: to a neighbour first, then renamed over."""
    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(0o644)
        temporary.replace(file)
        sync_folder(file.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def replace_folder(folder: Path) -> Iterator[Path]:
    """A fresh folder to fill, which takes the place of `folder` when the block ends well and all of it is on disk."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        yield temporary
        temporary.chmod(0o755)
        sync_tree(temporary)
        if folder.exists():
            old = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.old."))
            folder.rename(old / folder.name)
            try:
                temporary.rename(folder)
            except BaseException:
                (old / folder.name).rename(folder)
                raise
            finally:
                shutil.rmtree(old)
        else:
            temporary.rename(folder)
        sync_folder(folder.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def remove_unfinished(parent: Path, name: str = "") -> None:
    """Remove the fresh folders that a killed process left beside the one called `name`, or beside any."""
    for path in parent.glob(f".{name}*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)


def sync_tree(folder: Path) -> None:
    """Have every file under `folder`, and the folders themselves, on the disk before going on."""
    for file in folder.rglob("*"):
        if file.is_dir():
            sync_folder(file)
        else:
            with file.open("rb") as stream:
                os.fsync(stream.fileno())
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Have the names in `folder` on the disk: a rename is not safe before that."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def locked(file: Path, what: str) -> Iterator[None]:
    """Hold a lock on `file`, which the system lets go when the process ends, however it ends.

    A second process that asks for it is refused with `what` it would do.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            stream.seek(0)
            holder = stream.read().strip() or "unknown"
            problem = f"another process ({holder}) is {what} here."
            raise ModelError(problem, where=str(file.parent), fix="Wait for it, or stop it first.") from None
        stream.truncate(0)
        stream.write(str(os.getpid()))
        stream.flush()
        yield
