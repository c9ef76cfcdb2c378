"""Read the pairs of a file for a model that is trained: in its spaces, without inferring anything."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ele_core.config import RunConfig
from ele_core.data.dataset import DataSet
from ele_core.data.packing import accept
from ele_core.data.readers import readers
from ele_core.data.rejected import Rejected, located, parsed, refuse
from ele_core.data.truths import Truths, examples
from ele_core.errors import DataError
from ele_core.files.columns import Cell, cell_text, describe_columns
from ele_core.files.tables import FIRST, LAST, read_table
from ele_core.interfaces import InputSpace, OutputSpace
from ele_core.numerics.tensors import Tensors
from ele_core.runtime.context import Context


def read_examples(
    file: str, config: RunConfig, space: OutputSpace[Any, Any], inputs: InputSpace[Any], context: Context
) -> tuple[Tensors, Truths]:
    """Read pairs of a file for a trained model: its packed inputs and their right outputs. Refuse rows that do not fit.

    The columns, and whether an input can have several right outputs, are those of `config.data`, if there is one.
    """
    options, wanted = config.data, columns_of(config)
    table = read_table(file, wanted, readers(config.registry))
    context.monitor.message(describe_columns(table, wanted))
    left, right = (table.cells(places) for places in table.places(wanted))
    inputs.read_beside(file)
    (rows, values, outputs), rejected = parse_pairs(inputs, space.parser(dict(space.config)), left, right, context)
    parts, accepted, refused = accept(outputs, space.pack)
    rejected += [Rejected(rows[i], cell_text(right[rows[i]]), reason) for i, reason in refused]
    values = [values[i] for i in accepted]
    batches, _, unpackable = accept(values, inputs.pack)
    rejected += [Rejected(rows[accepted[i]], inputs.format(values[i]), reason) for i, reason in unpackable]
    refuse(located(rejected, table.lines), file, fix="Correct them, or remove them from the file.")
    if not values:
        raise DataError("there are no pairs.", where=file)
    every = torch.arange(len(values))
    nothing = torch.arange(0)
    data = DataSet(values, space.Batch.cat(parts), every, nothing, nothing, file, "")
    data = dataclasses.replace(data, any_truth=bool(options and options.any_truth))
    first, truths = examples(data, every, inputs.format)
    return type(batches[0]).cat(batches)[first], truths


def read_inputs(file: str, config: RunConfig, inputs: InputSpace[Any]) -> list[str]:
    """The inputs of a file as texts; those that cannot be read are left out."""
    wanted = columns_of(config)
    table = read_table(file, wanted, readers(config.registry))
    cells = table.cells(table.places(wanted)[0])
    inputs.read_beside(file)
    vectors = inputs.takes_vectors or inputs.takes_arrays
    found = (parsed(inputs.parse, cells, row, [], vectors=vectors) for row in range(len(cells)))
    return [inputs.format(value) for value in found if value is not None]


def columns_of(config: RunConfig) -> list[str | int]:
    """The columns of inputs and outputs, by default the first and the last."""
    options = config.data
    return [(options and options.input) or FIRST, (options and options.output) or LAST]


def parse_pairs(
    inputs: InputSpace[Any],
    parse: Callable[[str], Any],
    left: Sequence[Cell],
    right: Sequence[Cell],
    context: Context,
) -> tuple[tuple[list[int], list[Any], list[Any]], list[Rejected]]:
    """Parse the cells of both columns; return the (rows, inputs, outputs) that parse, and the others."""
    rejected: list[Rejected] = []
    rows, values, outputs = [], [], []
    for row in context.monitor.progress(range(len(left)), description="reading pairs"):
        x = parsed(inputs.parse, left, row, rejected, vectors=inputs.takes_vectors or inputs.takes_arrays)
        y = None if x is None else parsed(parse, right, row, rejected)
        if y is not None:
            rows.append(row)
            values.append(x)
            outputs.append(y)
    return (rows, values, outputs), rejected
