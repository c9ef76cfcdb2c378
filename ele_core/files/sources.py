"""The bytes of a file, of a `.gz` file decompressed, or of standard input; hashed while they are read."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from ele_core.errors import DataError

BUFFER = 1 << 20
"""Bytes that are read at a time."""


class Hashed(io.RawIOBase):
    """A stream of bytes that computes the SHA-256 of everything that is read from it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.sha256 = hashlib.sha256()

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read as many bytes as fit."""
        block = self._stream.read(len(buffer))
        buffer[: len(block)] = block
        self.sha256.update(block)
        return len(block)


@contextmanager
def text_of(file: str, newline: str) -> Iterator[tuple[io.TextIOWrapper, Hashed]]:
    """A file as UTF-8 text, whose lines end at `newline` (as for `open`), and the bytes it is read from."""
    with bytes_of(file) as stream:
        hashed = Hashed(stream)
        try:
            yield io.TextIOWrapper(io.BufferedReader(hashed, BUFFER), encoding="utf-8-sig", newline=newline), hashed
        except UnicodeDecodeError:
            where = "" if file == "-" else f" (line {undecodable_line(file)})"
            raise DataError(f"not UTF-8 text{where}.", where=file, fix="Convert it to UTF-8.") from None


@contextmanager
def bytes_of(file: str) -> Iterator[BinaryIO]:
    """A file as a stream of bytes; one that cannot be read raises `DataError`, also while it is read."""
    try:
        if file == "-":
            yield sys.stdin.buffer
            return
        with gzip.open(file) if file.endswith(".gz") else Path(file).open("rb") as stream:
            yield stream  # type: ignore[misc]  # GzipFile reads bytes too
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or "not a whole gzip file"
        raise DataError(f"cannot be read: {reason}.", where=file, fix="Check the path.") from None


@contextmanager
def seekable_bytes_of(file: str) -> Iterator[tuple[BinaryIO, str]]:
    """A file as a seekable stream of bytes, and their SHA-256."""
    with bytes_of(file) as opened:
        stream = io.BytesIO(opened.read()) if file.endswith(".gz") or file == "-" else opened
        digest = hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]  # a stream of bytes
        stream.seek(0)
        yield stream, digest


def digest_of(file: str) -> str:
    """The SHA-256 of what is in a file, decompressed."""
    if file == "-":
        raise DataError("standard input cannot be used: the file is read twice.", where="-", fix="Give a file.")
    with bytes_of(file) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]  # a stream of bytes


def plain_bytes(file: Path, largest: int) -> bytes:
    """The bytes of a plain file of at most `largest` bytes; anything else, such as a pipe or device, is not opened."""
    status = file.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a plain file", str(file))
    if status.st_size > largest:
        raise OSError(errno.EFBIG, f"more than {largest:,} bytes", str(file))
    with file.open("rb") as stream:
        return stream.read(largest)


def undecodable_line(file: str) -> int:
    """The first line that is not UTF-8, counted from 1."""
    with bytes_of(file) as stream:
        raw = stream.read()
    try:
        raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return raw.count(b"\n", 0, error.start) + 1
    return 1
