"""Pairs of inputs and outputs: read, checked, split, packed and drawn in batches."""

from typing import TYPE_CHECKING

from ele_core.moved import old_names

if not TYPE_CHECKING:  # the names that 0.1.0 had here
    __getattr__ = old_names(
        __name__, ["ele_core.data.dataset", "ele_core.data.packing", "ele_core.data.batches", "ele_core.data.rejected"]
    )
