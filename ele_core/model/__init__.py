"""A model: build its components, train, evaluate and use them to predict, and save them as files."""

from typing import TYPE_CHECKING

from ele_core.moved import old_names

if not TYPE_CHECKING:  # the names that 0.1.0 had here
    __getattr__ = old_names(__name__, ["ele_core.model.model"])
