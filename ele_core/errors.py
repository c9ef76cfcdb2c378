"""One error tree: each error says what happened, where, and what to do next."""

from __future__ import annotations


class EleError(Exception):
    """Base of every error that ELE raises on purpose.

    `what` happened, `where` (a file, a row, a configuration path), and the `fix`: what to do next.
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
        """What happened and what to do next, for a list that says where itself."""
        if not self.fix:
            return self.what
        gap = "" if self.what.endswith("\n") else " " if self.what.endswith(tuple(".:;?!,")) else ". "
        return f"{self.what}{gap}{self.fix}"


class ConfigError(EleError):
    """A configuration that cannot be run; carries every problem found, not only the first."""

    exit_code = 2


class PluginError(EleError):
    """A plugin that cannot be used: broken import, misspelt hook, wrong record, duplicate name."""


class UnknownComponent(PluginError):
    """A name that no installed plugin provides."""

    exit_code = 2


class DataError(EleError):
    """Data that cannot be read: a missing file or column, or rows that do not parse."""


class InvalidObject(DataError):
    """One of several objects cannot be used; `index` is its place among them, and `where` unless that is given."""

    noun = "object"

    def __init__(
        self, what: str, *, index: int | None = None, where: str | None = None, fix: str | None = None
    ) -> None:
        if where is None and index is not None:
            where = f"{self.noun} {index}"
        super().__init__(what, where=where, fix=fix)
        self.index = index or 0

    def shift(self, start: int) -> None:
        """Count from the beginning of a longer sequence, in which the objects begin at `start`."""
        self.index += start
        self.where = f"{self.noun} {self.index}"


class InvalidOutput(InvalidObject):
    """An object that is not in the output space; `index` is its place in the sequence given to `pack`."""

    noun = "output"


class InvalidInput(InvalidObject):
    """An input that the input space does not take; `index` is its place in the sequence given to `pack`."""

    noun = "input"


class ModelError(EleError):
    """A saved model or run that cannot be read, written or used."""


class Locked(ModelError):
    """A folder in which another process is at work."""


class TrainingError(EleError):
    """A training that cannot go on, such as a loss that is not a number."""


class ProcessError(EleError):
    """A group of processes that has come apart."""


class Interrupted(EleError):
    """Work that was asked to stop and has kept its state; `exit_code` is the shell's for the signal."""

    def __init__(self, what: str, *, signal: int, where: str | None = None, fix: str | None = None) -> None:
        super().__init__(what, where=where, fix=fix)
        self.exit_code = 128 + signal


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """A count with its noun: `1 row`, `1,200 rows`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
