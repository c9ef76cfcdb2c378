"""The errors that ELE raises: each says what happened, where, and what to do next."""

from __future__ import annotations

import errno
import shlex
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The error numbers of the system if a disk is full, a quota used up, or a file larger than allowed."""
NOT_ALLOWED = (errno.EROFS, errno.EACCES, errno.EPERM)
"""The error numbers of the system if a file may not be read or written."""


class EleError(Exception):
    """Base class of every error that ELE raises on purpose.

    It says `what` happened, `where` (a file, a row, a configuration path), and the `fix`: what to do next.
    The command line prints it as one paragraph and exits with `exit_code`.
    """

    exit_code = 1

    def __init__(self, what: str, *, where: str | None = None, fix: str | None = None) -> None:
        self.what = what
        self.where = where
        self.fix = fix
        super().__init__(what)

    def __str__(self) -> str:
        prefix = f"{self.where}: " if self.where else ""
        return f"{prefix}{self.reason}"

    @property
    def reason(self) -> str:
        """What happened and what to do next, for a list that names the place itself."""
        if not self.fix:
            return self.what
        gap = "" if self.what.endswith("\n") else " " if self.what.endswith(tuple(".:;?!,")) else ". "
        return f"{self.what}{gap}{self.fix}"


class ConfigError(EleError):
    """A configuration that cannot be run; carries every problem found, not only the first."""

    exit_code = 2


class InvalidParameter(ConfigError, ValueError):
    """A name that is not a parameter of the estimator; scikit-learn expects a `ValueError`."""


class PluginError(EleError):
    """A plugin that cannot be used: broken import, misspelt hook, wrong record, duplicate name."""


class UnknownComponent(PluginError):
    """A name that no installed plugin provides."""

    exit_code = 2


class DataError(EleError):
    """Data that cannot be read: a missing file or column, or rows that do not parse."""


class InvalidObject(DataError):
    """An object that cannot be used; `index` is its position among the objects, and gives `where` by default."""

    noun = "object"

    def __init__(
        self, what: str, *, index: int | None = None, where: str | None = None, fix: str | None = None
    ) -> None:
        if where is None and index is not None:
            where = f"{self.noun} {index}"
        super().__init__(what, where=where, fix=fix)
        self.index = index or 0

    def shift(self, start: int) -> None:
        """Add `start` to the index, because the objects begin at position `start` of a longer sequence."""
        self.index += start
        self.where = f"{self.noun} {self.index}"


class InvalidOutput(InvalidObject):
    """An object that is not in the output space; `index` is its position in the sequence given to `pack`."""

    noun = "output"


class InvalidInput(InvalidObject):
    """An input that the input space does not accept; `index` is its position in the sequence given to `pack`."""

    noun = "input"


class ModelError(EleError):
    """A saved model or run that cannot be read, written or used."""


class Locked(ModelError):
    """A folder in which another process is working."""


class TrainingError(EleError):
    """A training that cannot continue, for example because the loss is not a number."""


class ProcessError(EleError):
    """A failure in a group of processes."""


class Interrupted(EleError):
    """Work that a signal stopped after its state was saved; `exit_code` is 128 + signal, as in a shell."""

    def __init__(self, what: str, *, signal: int, where: str | None = None, fix: str | None = None) -> None:
        super().__init__(what, where=where, fix=fix)
        self.exit_code = 128 + signal


def damaged(what: str, file: Path | None = None) -> ModelError:
    """The error for a saved model whose parts do not go together, or for one of its files."""
    where = None if file is None else str(file)
    return ModelError(what, where=where, fix="Get an intact copy, or train again.")


def counted(count: int, noun: str) -> str:
    """A count with its noun: `1 row`, `1,200 rows`."""
    return f"{count:,} {noun if count == 1 else noun + 's'}"


def command(*words: object) -> str:
    """A command of `ele` for a message, to be copied: words that a shell would split or change are quoted."""
    return shlex.join(["ele", *map(str, words)])


def closest(name: str, names: Iterable[str]) -> str:
    """The end of a message about an unknown name: `; did you mean 'NAME'?` if one of the `names` is close, else `.`."""
    close = get_close_matches(name, list(names), 1)
    return f"; did you mean '{close[0]}'?" if close else "."


def described(error: OSError) -> str:
    """The message for an error of the system: the file, what happened, and what to do next."""
    place = f"{error.filename}: " if error.filename else ""
    reason = (error.strerror or str(error) or type(error).__name__).rstrip(".").lower()
    if error.errno in NO_ROOM:
        return f"{place}cannot be written: {reason}. Make room, or choose another place to write to."
    if error.errno in NOT_ALLOWED:
        return f"{place}cannot be used: {reason}. Choose a place that you may write to, or change its permissions."
    return f"{place}{reason}."
