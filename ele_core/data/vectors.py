"""Whether the inputs of a file are vectors of numbers, which a space of texts would read as characters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import numpy as np

from ele_core.files.columns import Cell

LOOKED_AT = 1000
"""The most cells that are looked at, spread over the column."""


def looks_like_vectors(cells: Sequence[Cell]) -> Literal["binary", "numbers"] | None:
    """Whether cells are vectors of the same number of numbers, at least two: `binary` if all are 0 or 1; else None.

    A cell is a text such as `0.5 1 2` or `[0.5, 1, 2]`, or an array. Of a long column, a thousand cells are looked at.
    """
    step = max(1, len(cells) // LOOKED_AT)
    vectors = [numbers(cells[row]) for row in range(0, len(cells), step)]
    sizes = {0 if vector is None else len(vector) for vector in vectors}
    if len(sizes) != 1 or sizes & {0, 1}:
        return None
    values = np.stack([vector for vector in vectors if vector is not None])
    return "binary" if np.isin(values, (0, 1)).all() else "numbers"


def numbers(cell: Cell) -> np.typing.NDArray[np.float64] | None:
    """The numbers of a cell; None if it has anything else."""
    if not isinstance(cell, str):
        return np.asarray(cell, dtype=np.float64)
    words = re.split(r"\s*[,;]\s*|\s+", cell.strip().removeprefix("[").removesuffix("]").strip())
    try:
        return np.array([float(word) for word in words])
    except ValueError:
        return None
