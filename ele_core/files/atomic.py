"""Writing files so that a crash leaves the old one or the new one, never half of either."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ele_core.errors import ModelError

TAKEN = (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)
"""What the system answers to a rename over something that is there."""


def write_text(file: Path, text: str) -> None:
    """Write a text file at once: to a neighbour first, then renamed over."""
    write_bytes(file, text.encode("utf-8"))


def write_bytes(file: Path, content: bytes) -> None:
    """The same for any file."""
    make_folder(file.parent)
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(0o644)
        temporary.replace(file)
        sync_folder(file.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """A fresh folder to fill, which gets its name when the block ends well and all of it is on disk.

    Nothing is ever replaced: where there is something by then, other than an empty folder, that is an error.
    """
    with fresh_folder(folder) as temporary:
        yield temporary
        sync_tree(temporary)
        try:
            temporary.rename(folder)
        except OSError as error:
            if error.errno not in TAKEN:
                raise
            fix = "Choose another, or remove it."
            raise ModelError("there is something there already.", where=str(folder), fix=fix) from None
        sync_folder(folder.parent)


@contextmanager
def replace_folder(folder: Path) -> Iterator[Path]:
    """A fresh folder to fill, which takes the place of `folder` when the block ends well and all of it is on disk.

    Killed between two renames, the old one stays beside its place, as `.NAME.old.…`.
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
    """A folder beside another, removed if the block fails."""
    make_folder(beside.parent)
    temporary = Path(tempfile.mkdtemp(dir=beside.parent, prefix=f".{beside.name}."))
    try:
        temporary.chmod(0o755)
        yield temporary
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def remove_unfinished(parent: Path, name: str) -> None:
    """Remove what a killed process left of folders whose name is as the regular expression `name` says."""
    for path in parent.glob(".*"):
        if re.fullmatch(rf"\.{name}\.[a-z0-9_]{{8}}", path.name) and path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)


def make_folder(folder: Path) -> None:
    """Make a folder and what is missing above it, on the disk."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in missing:
        sync_folder(path.parent)


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


def free_folder(parent: Path, name: str) -> Path:
    """The first of NAME-1, NAME-2, … that does not exist, made at once so that no other process takes it."""
    number = 1
    while True:
        folder = parent / f"{name}-{number}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            number += 1
        else:
            return folder
