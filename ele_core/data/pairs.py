"""Pairs of a file: the cells of both columns parsed, for a trained model also packed; and which cells are vectors."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch

from ele_core.config import RunConfig
from ele_core.data.dataset import DataSet
from ele_core.data.objects import Objects, parse_cells, parse_inputs, readers, reading, refuse
from ele_core.data.truths import Truths, examples
from ele_core.errors import DataError
from ele_core.files.columns import Cell, Column, Unreadable, cell_text, describe_columns, named_or
from ele_core.files.tables import FIRST, LAST, read_table
from ele_core.interfaces import InputSpace, OutputSpace
from ele_core.runtime.context import Context

LOOKED_AT = 1000
"""Maximum number of cells to look at, spread over the column."""


def parse_pairs(
    inputs: InputSpace[Any],
    parse: Callable[[str], Any],
    left: Sequence[Cell],
    right: Sequence[Cell],
    context: Context,
) -> tuple[dict[int, Any], Objects]:
    """Parse the cells of both columns; return the inputs by row, and the outputs of the rows in which both parse.

    The rejected rows of both columns are those of the outputs.
    """
    x = parse_inputs(inputs, left, context.monitor.progress(range(len(left)), description="reading inputs"))
    y = parse_cells(parse, right, context.monitor.progress(x.rows, description="reading pairs"))
    return dict(zip(x.rows, x.values, strict=True)), dataclasses.replace(y, rejected=[*x.rejected, *y.rejected])


def read_examples(
    file: str, config: RunConfig, space: OutputSpace[Any, Any], inputs: InputSpace[Any], context: Context
) -> tuple[list[Any], Truths]:
    """Read pairs of a file for a trained model: its inputs and their right outputs. Refuse rows that do not fit.

    The columns, and whether an input can have several right outputs, are those of `config.data`, if there is one.
    """
    options, wanted = config.data, columns_of(config)
    reading(file, context.monitor)
    table = read_table(file, wanted, readers(config.registry))
    context.monitor.message(describe_columns(table, wanted))
    left, right = table.read(wanted)
    inputs.read_beside(file)
    values, parsed = parse_pairs(inputs, space.texts.parse, left, right, context)
    y = parsed.pack(space.pack, lambda row: cell_text(right[row]))
    x = Objects(y.rows, [values[row] for row in y.rows], y.rejected).pack(inputs.pack, lambda row: cell_text(left[row]))
    refuse(x.located(table.lines).rejected, file, fix="Correct them, or remove them from the file.")
    if not len(x):
        raise DataError("there are no pairs.", where=file)
    every, nothing = torch.arange(len(x)), torch.arange(0)
    data = DataSet(x.values, y.batch, every, nothing, nothing, file, "")
    data = dataclasses.replace(data, any_truth=bool(options and options.any_truth))
    first, truths = examples(data, every, inputs.format)
    return data.inputs_at(first), truths


def input_texts(file: str, config: RunConfig, inputs: InputSpace[Any]) -> list[str]:
    """The inputs of a file as texts; those that cannot be read are skipped."""
    wanted = columns_of(config)
    table = read_table(file, wanted, readers(config.registry))
    inputs.read_beside(file)
    found = parse_inputs(inputs, table.read(wanted)[0])
    return [inputs.format(value) for value in found.values]


def columns_of(config: RunConfig) -> list[Column]:
    """The columns of inputs and outputs, by default the first and the last."""
    return [named_or(trained_column(config), FIRST), named_or(config.data.output if config.data else None, LAST)]


def trained_column(config: RunConfig) -> str | tuple[str, ...] | None:
    """The column of inputs that was named for the training, or the columns that its input space reads."""
    if config.data and config.data.input not in (None, ()):
        return config.data.input
    space: type[InputSpace[Any]] = config.registry.get("input", config.input.name)
    return tuple(config.input.options.get("columns", ())) or None if space.reads == "columns" else None


# -- cells that are vectors of numbers ----------------------------------------------------------------------------


def looks_like_vectors(cells: Sequence[Any]) -> Literal["binary", "numbers"] | None:
    """Whether cells are vectors of the same number of numbers, at least two: `binary` if all are 0 or 1; else None.

    Two bits as a text are no vector of bits, as `0 1` is also a list of two numbered features.
    A cell is a text such as `0.5 1 2` or `[0.5, 1, 2]`, or an array. Of a long column, a thousand cells are looked at.
    """
    vectors = [numbers(cell) for cell in sample(cells)]
    sizes = {0 if vector is None else len(vector) for vector in vectors}
    if len(sizes) != 1 or sizes & {0, 1}:
        return None
    values = np.stack([vector for vector in vectors if vector is not None])
    return "binary" if values.shape[1] > 2 and np.isin(values, (0, 1)).all() else "numbers"


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


LEAST_TIMES, NEAR, ALIKE = 32, 4, 0.25
"""A vector of at least so many numbers is a signal if numbers up to so many places apart are this much more alike (by
their correlation) than any two numbers."""


def looks_like_signals(cells: Sequence[Any]) -> str:
    """Why cells are series of numbers over time; empty if they are not. Of a long column, a thousand are looked at.

    They are if their lengths differ, if they have channels, or if neighbours are much more alike than other numbers.
    Whole numbers in texts of different lengths are not, as they may be words; nor are arrays that may be pictures.
    """
    looked_at = sample(cells)
    rows = [row for row in map(series, looked_at) if row is not None]
    if not rows or len(rows) < len(looked_at) or len({row.shape[1] for row in rows}) > 1:
        return ""
    arrays = getattr(looked_at[0], "ndim", 0) > 1
    bounded = all(row.min() >= 0 and row.max() <= 1 for row in rows)
    if arrays and (bounded or looked_at[0].dtype.kind != "f"):
        return ""
    if len({len(row) for row in rows}) > 1:
        texts = any(isinstance(cell, str) for cell in looked_at)
        whole = texts and all((row == np.round(row)).all() for row in rows)
        return "" if whole else "all are numbers, and their lengths differ"
    if rows[0].shape[1] > 1:
        return f"all are numbers of {rows[0].shape[1]} channels"
    near, other = likeness(np.stack(rows)[:, :, 0]) if len(rows[0]) >= LEAST_TIMES else (0.0, 0.0)
    return f"neighbours are alike (correlation {near:.2f}, of any two {other:.2f})" if near - other > ALIKE else ""


def likeness(matrix: np.typing.NDArray[np.float64]) -> tuple[float, float]:
    """The mean correlation of columns of `matrix` (N, D) at the best of a few small distances, and of any two."""
    centred = matrix - matrix.mean(axis=0)
    deviation = centred.std(axis=0)
    used = deviation > 1e-9 * np.abs(matrix).max(axis=0)
    if used.sum() <= NEAR:
        return 0.0, 0.0
    scaled = centred[:, used] / deviation[used]
    near = max(abs(float((scaled[:, apart:] * scaled[:, :-apart]).mean())) for apart in range(1, NEAR + 1))
    count = scaled.shape[1]
    return near, float((scaled.sum(axis=1) ** 2 - (scaled**2).sum(axis=1)).mean() / (count * (count - 1)))


def series(cell: Any) -> np.typing.NDArray[np.float64] | None:
    """The numbers of a cell over time (T, C), of two times at least; None if it is anything else."""
    if isinstance(cell, str) and cell.replace(" ", "").startswith("[["):
        try:
            cell = json.loads(cell)
        except (ValueError, RecursionError):
            return None
    found = numbers(cell)
    if found is None and not isinstance(cell, str):
        try:
            found = np.asarray(cell, dtype=np.float64)
        except (TypeError, ValueError):
            return None
    if found is None or found.ndim not in (1, 2) or len(found) < 2 or not found.size:
        return None
    return found[:, None] if found.ndim == 1 else found


def are_columns(cells: Sequence[Any]) -> bool:
    """Whether inputs are values of several columns, by name; unreadable rows of a file do not count."""
    rows = [cell for cell in sample(cells) if not isinstance(cell, Unreadable)]
    return bool(rows) and all(isinstance(row, Mapping) and row and all(isinstance(k, str) for k in row) for row in rows)


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
    """The numbers of a one-dimensional array or sequence, or one number; None if it is anything else."""
    try:
        found = np.atleast_1d(np.asarray(value))
    except (TypeError, ValueError):  # such as lists of different lengths
        return None
    return found.astype(np.float64) if found.ndim == 1 and found.dtype.kind in "fiub" else None
