"""Atomic writes, by which a crash leaves the old file or the new one, never a part; and locks between processes."""

from __future__ import annotations

import errno
import os
import re
import shutil
import socket
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from ele_core.errors import Locked, ModelError

TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)
"""The error numbers of a rename to something that exists."""


def write_text(file: Path, text: str) -> None:
    """Write a text file atomically: write a temporary file beside it, then rename that."""
    write_bytes(file, text.encode("utf-8"))


def write_bytes(file: Path, content: bytes) -> None:
    """Write a file atomically, as `write_text`; what is no regular file, such as a pipe or a device, is written to."""
    with replacing(file) as stream:
        stream.write(content)


@contextmanager
def replacing(file: Path) -> Iterator[BinaryIO]:
    """A temporary file to write, which replaces `file` when the block has succeeded and everything is on disk."""
    with naming(file):
        if special(file):
            with file.open("wb") as stream:
                yield stream
            return
        make_folder(file.parent)
        remove_abandoned(file)
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=own_prefix(file))
        temporary = Path(name)
        try:
            with os.fdopen(handle, "wb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            temporary.chmod(0o644)
            temporary.replace(file)
            sync_folder(file.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


def special(file: Path) -> bool:
    """Whether something is there that a file must not replace: a device, a pipe, a socket, or a link to one."""
    system = file.absolute().parts[1:2] in (("dev",), ("proc",))  # with links to what a process has opened
    return file.exists() and not file.is_dir() and (system or not file.is_file())


@contextmanager
def naming(file: Path) -> Iterator[None]:
    """Name `file`, not a temporary one beside it, in the errors of the system that are raised in the block."""
    try:
        yield
    except OSError as error:
        named = "" if error.filename is None else Path(os.fsdecode(error.filename)).name
        if error.errno is None or (named and not named.startswith(f".{file.name}.")):
            raise
        raise OSError(error.errno, error.strerror, str(file)) from error


def own_prefix(file: Path) -> str:
    """How the names of this process's temporary files and folders beside `file` begin."""
    return f".{file.name}.{zlib.crc32(socket.gethostname().encode()):08x}-{os.getpid()}-"


def remove_abandoned(file: Path) -> None:
    """Remove temporary files and folders beside `file` that processes of this machine left when they were killed."""
    start = own_prefix(file).removesuffix(f"{os.getpid()}-")
    for path in file.absolute().parent.glob(".*"):
        found = (
            re.fullmatch(r"(\d+)-[a-z0-9_]{8}", path.name.removeprefix(start)) if path.name.startswith(start) else None
        )
        if found and not alive(int(found[1])):
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


def alive(process: int) -> bool:
    """Whether a process of this machine is running."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # the process of another user
        return True
    return True


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder to fill, renamed to `folder` when the block has succeeded and everything is on disk.

    Nothing is ever replaced: it is an error if something other than an empty folder is there by then.
    """
    with fresh_folder(folder) as temporary:
        yield temporary
        sync_tree(temporary)
        try:
            temporary.rename(folder)
        except OSError as error:
            if error.errno not in TAKEN:
                raise
            fix = "Choose another, or remove it." if folder.is_dir() else "Choose another."
            raise ModelError(occupied(folder), where=str(folder), fix=fix) from None
        sync_folder(folder.parent)


def occupied(folder: Path) -> str:
    """Why a new folder cannot be there: something is, which is not an empty folder."""
    return "the folder is not empty." if folder.is_dir() else "there is a file of this name."


@contextmanager
def replace_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder to fill, which replaces `folder` when the block has succeeded and everything is on disk.

    If the process is killed between the two renames, the old folder is left beside it, in `.NAME.old.…`.
    """
    with fresh_folder(folder) as temporary:
        yield temporary
        sync_tree(temporary)
        old = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}.old."))
        try:
            with suppress(FileNotFoundError):
                folder.rename(old / folder.name)
            temporary.rename(folder)
        except BaseException:
            if (old / folder.name).exists() and not folder.exists():
                (old / folder.name).rename(folder)
            raise
        finally:
            shutil.rmtree(old, ignore_errors=True)
        sync_folder(folder.parent)


@contextmanager
def fresh_folder(beside: Path) -> Iterator[Path]:
    """A temporary folder beside another, removed if the block fails; after a kill, by the next that is made there."""
    with naming(beside):
        make_folder(beside.parent)
        remove_abandoned(beside)
        temporary = Path(tempfile.mkdtemp(dir=beside.parent, prefix=own_prefix(beside)))
    try:
        temporary.chmod(0o755)
        yield temporary
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def remove_unfinished(parent: Path, name: str) -> None:
    """Remove temporary folders that a killed process left for folders with names that match the regex `name`."""
    for path in parent.glob(".*"):
        if (
            re.fullmatch(rf"\.{name}\.[0-9a-f]{{8}}-\d+-[a-z0-9_]{{8}}", path.name)
            and path.is_dir()
            and not path.is_symlink()
        ):
            shutil.rmtree(path, ignore_errors=True)


def make_folder(folder: Path) -> None:
    """Make a folder and its missing parents, and flush them to disk."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in missing:
        sync_folder(path.parent)


def sync_tree(folder: Path) -> None:
    """Flush every file under `folder`, and the folders themselves, to disk."""
    for file in folder.rglob("*"):
        if file.is_dir():
            sync_folder(file)
        else:
            with file.open("rb+") as stream:  # Windows flushes only what may be written
                os.fsync(stream.fileno())
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Flush the names in `folder` to disk: a rename is not safe before that. Windows cannot, and need not."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def free_folder(parent: Path, name: str) -> Path:
    """Make the first of NAME-1, NAME-2, … that does not exist, in one step: no other process can take it too."""
    number = 1
    while True:
        folder = parent / f"{name}-{number}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
        else:
            return folder


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
    # filelock ≥ 3.30 neither truncates the file nor locks an unlinked one. A soft lock would survive a kill.
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
