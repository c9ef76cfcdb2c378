"""Inputs and outputs as users have them: tables, series, arrays and tensors become lists; pairs are divided."""

from __future__ import annotations

import dataclasses
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ele_core.data.dataset import split
from ele_core.data.prepare import Pairs
from ele_core.data.truths import AnyOf, spread_out
from ele_core.errors import DataError, InvalidInput, InvalidObject, InvalidOutput, counted
from ele_core.numerics.sparse_vectors import SparseColumn

Role = Literal["input", "output"]
Held = float | tuple[Sequence[Any], Sequence[Any]]
"""What to validate on: a share or a number of the pairs, or other pairs `(X, y)`."""
ERRORS: dict[Role, type[InvalidObject]] = {"input": InvalidInput, "output": InvalidOutput}
SHOWN = 4
"""The number of columns that a message names."""


def as_list(values: Any, role: Role, where: str) -> list[Any]:
    """Return one item per example, by position; refuse what is not a list of examples, and missing values.

    `values` is any iterable, a pandas or polars Series or DataFrame, a numpy array, a torch tensor or a scipy sparse
    matrix. A table of one column is that column. A row of a numeric matrix is one vector. A row of any other table of
    inputs, or of a mapping from names to columns, is a mapping from names to values.
    """
    items = _items(values, role, where)
    fix = "Leave out such pairs, for example with dropna()."
    for index, item in enumerate(items):
        if is_missing(item):
            raise ERRORS[role](f"a missing value ({reprlib.repr(item)}).", index=index, fix=fix)
        if isinstance(item, dict) and (lost := [name for name, value in item.items() if is_missing(value)]):
            what = f"column {lost[0]!r}: a missing value ({reprlib.repr(item[lost[0]])})."
            raise ERRORS[role](what, index=index, fix=fix)
    return items


def as_pairs(inputs: Any, outputs: Any, where: str) -> tuple[list[Any], list[Any]]:
    """Return inputs and outputs as lists; refuse those that do not form pairs."""
    inputs, outputs = as_list(inputs, "input", where), as_list(outputs, "output", where)
    if len(inputs) != len(outputs):
        what = f"{counted(len(inputs), 'input')} but {counted(len(outputs), 'output')}."
        raise DataError(what, where=where, fix="Give one output for each input.")
    return inputs, outputs


def divided(inputs: Any, outputs: Any, extra: Any | None, validation: Held, seed: int) -> Pairs:
    """Return the pairs with the rows to train and to validate on; other pairs to validate on come last."""
    inputs, outputs = as_pairs(inputs, outputs, "fit")
    extra = None if extra is None else as_list(extra, "output", "extra_outputs")
    count = len(inputs)
    if count == 0:
        raise DataError("there are no pairs.", where="fit", fix="Give at least a few.")
    if isinstance(validation, float | int):
        train, held_out, _ = split(count, max(validation, 1 / count), 0, seed)
        return with_every_truth(Pairs(inputs, outputs, train, held_out, extra))
    own_inputs, own_outputs = as_pairs(*validation, "validation")
    rows = torch.arange(count), torch.arange(count, count + len(own_inputs))
    return with_every_truth(Pairs([*inputs, *own_inputs], [*outputs, *own_outputs], *rows, extra, count))


def with_every_truth(pairs: Pairs) -> Pairs:
    """Return a pair for each object of an `AnyOf`, in the part of the split that its input is in."""
    if not any(isinstance(output, AnyOf) for output in pairs.outputs):
        return pairs
    inputs, outputs, position = spread_out(pairs.inputs, pairs.outputs)
    train, validation = (torch.isin(position, part).nonzero().flatten() for part in (pairs.train, pairs.validation))
    return dataclasses.replace(
        pairs, inputs=inputs, outputs=outputs, train=train, validation=validation, position=position
    )


def is_missing(item: object) -> bool:
    """Whether an item is None, NaN, or pandas' NA or NaT."""
    if isinstance(item, float | np.floating):
        return bool(item != item)  # only NaN differs from itself
    return item is None or type(item).__name__ in ("NAType", "NaTType")


def _items(values: Any, role: Role, where: str) -> list[Any]:
    if isinstance(values, str | bytes):
        raise DataError("one text where a list is expected.", where=where, fix="Put the text into a list.")
    if role == "input" and isinstance(values, Mapping):
        return _rows({str(name): _items(own, role, f"{where}, column {name!r}") for name, own in values.items()}, where)
    if isinstance(values, Mapping | set | frozenset) or not (isinstance(values, Iterable) or hasattr(values, "shape")):
        raise DataError(f"got {type(values).__name__}, not a list of {role}s.", where=where)
    if hasattr(values, "columns") and hasattr(values, "to_numpy"):  # a DataFrame of pandas or polars
        return _table(values, role, where)
    if hasattr(values, "to_list"):  # a Series of pandas or polars, in the order of its rows
        return list(values.to_list())
    if isinstance(values, Tensor):
        dense = values.detach().cpu().to_dense()
        return _array((dense if dense.dtype.itemsize > 2 else dense.float()).numpy(), role, where)
    if hasattr(values, "tocsr") and role == "input" and values.ndim == 2:  # a sparse matrix of scipy
        rows = values.tocsr()
        return list(SparseColumn(rows.indptr, rows.indices, rows.data, rows.shape[1]))
    if hasattr(values, "toarray"):
        return _array(values.toarray(), role, where)
    return _array(np.asarray(values), role, where) if isinstance(values, np.ndarray) else list(values)


def _table(table: Any, role: Role, where: str) -> list[Any]:
    names = list(table.columns)
    if len(names) == 1:
        return list(table[names[0]].to_list())
    rows = table.to_numpy()
    if role == "input" and names and rows.dtype.kind in "fiub":
        return list(rows)
    if role == "input" and names:
        return _rows({str(name): table[name].to_list() for name in names}, where)
    shown = ", ".join(map(str, names[:SHOWN])) + (", …" if len(names) > SHOWN else "")
    what = f"a table of {counted(len(names), 'column')}{f' ({shown})' if names else ''};"
    such = f", such as y[{names[0]!r}]" if names else ""
    raise DataError(what, where=where, fix=f"give one column of {role}s{such}.")


def _rows(columns: Mapping[str, Sequence[Any]], where: str) -> list[dict[str, Any]]:
    """The rows of columns of equal length."""
    if len({len(column) for column in columns.values()}) > 1:
        lengths = ", ".join(f"{name!r} has {len(column):,}" for name, column in columns.items())
        raise DataError(f"columns of different lengths: {lengths}.", where=where, fix="Give one value per example.")
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _array(array: np.ndarray[Any, Any], role: Role, where: str) -> list[Any]:
    if array.ndim == 0:
        raise DataError("one number where a list is expected.", where=where, fix="Put it into a list.")
    vectors = role == "input" and array.dtype.kind in "fiub"
    if array.ndim == 2 and array.shape[1] == 1 and not vectors:
        array = array[:, 0]
    return list(array) if vectors and array.ndim > 1 else array.tolist()
