"""Whether the inputs of a file are vectors of numbers, which a space of texts would read as characters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

LOOKED_AT = 1000
"""Maximum number of cells to look at, spread over the column."""


def looks_like_vectors(cells: Sequence[Any]) -> Literal["binary", "numbers"] | None:
    """Whether cells are vectors of the same number of numbers, at least two: `binary` if all are 0 or 1; else None.

    A cell is a text such as `0.5 1 2` or `[0.5, 1, 2]`, or an array. Of a long column, a thousand cells are looked at.
    """
    vectors = [numbers(cell) for cell in sample(cells)]
    sizes = {0 if vector is None else len(vector) for vector in vectors}
    if len(sizes) != 1 or sizes & {0, 1}:
        return None
    values = np.stack([vector for vector in vectors if vector is not None])
    return "binary" if np.isin(values, (0, 1)).all() else "numbers"


def are_single_numbers(cells: Sequence[Any]) -> bool:
    """Whether every cell is one number, such as `305` or `0.5`; of a long column, a thousand cells are looked at."""
    found = [numbers(cell) for cell in sample(cells)]
    return bool(found) and all(each is not None and len(each) == 1 for each in found)


def are_arrays(cells: Sequence[Any]) -> bool:
    """Whether all cells are arrays of numbers of two or more dimensions, such as pictures."""
    looked_at = sample(cells)
    return bool(looked_at) and all(
        getattr(cell, "ndim", 0) > 1 and getattr(getattr(cell, "dtype", None), "kind", "") in "fiub"
        for cell in looked_at
    )


def sample(cells: Sequence[Any]) -> list[Any]:
    """Every so many cells of a column, about `LOOKED_AT` of them."""
    return [cells[row] for row in range(0, len(cells), max(1, len(cells) // LOOKED_AT))]


def numbers(cell: Any) -> np.typing.NDArray[np.float64] | None:
    """The numbers of a cell; None if it has anything else."""
    if not isinstance(cell, str):
        return array(cell)
    words = re.split(r"\s*[,;]\s*|\s+", cell.strip().removeprefix("[").removesuffix("]").strip())
    try:
        return np.array([float(word) for word in words])
    except ValueError:
        return None


def array(value: Any) -> np.typing.NDArray[np.float64] | None:
    """The numbers of a one-dimensional array or sequence; None if it is anything else."""
    try:
        found = np.asarray(value)
    except (TypeError, ValueError):  # such as lists of different lengths
        return None
    return found.astype(np.float64) if found.ndim == 1 and found.dtype.kind in "fiub" else None
