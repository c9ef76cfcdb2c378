"""The file readers that plugins bring, by suffix."""

from __future__ import annotations

from ele_core.files.tables import Reader, Readers
from ele_core.interfaces import FileReader
from ele_core.plugins import Registry


def readers(registry: Registry) -> Readers:
    """Return a function that gives the reader of a suffix, or None if no plugin brings one."""

    def reader_of(suffix: str) -> Reader | None:
        if suffix not in registry.names("reader"):
            return None
        reader: FileReader = registry.create("reader", suffix)
        return reader.read

    return reader_of
