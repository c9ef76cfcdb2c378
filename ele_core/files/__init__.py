"""Files: atomic writes, locks, sealed archives, tables of rows and columns."""

from typing import TYPE_CHECKING

from ele_core.moved import old_names

if not TYPE_CHECKING:  # the names that 0.1.0 had here
    __getattr__ = old_names(__name__, ["ele_core.files.atomic", "ele_core.files.locks"])
