"""Runs: start a training in a folder, resume it, evaluate it and record results."""

from typing import TYPE_CHECKING

from ele_core.moved import old_names

if not TYPE_CHECKING:  # the names that 0.1.0 had here
    __getattr__ = old_names(__name__, ["ele_core.runs.folder", "ele_core.runs.run"])
