"""Columns of a file, as most tests of readers look at them."""

from __future__ import annotations

from ele_core.files.tables import read_table


def read_columns(file, columns, readers=None):
    """The chosen columns of a file, each as a list of cells, and the SHA-256 of its contents."""
    table = read_table(file, columns, readers)
    return table.read(columns), table.digest
