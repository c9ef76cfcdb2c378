"""Pairs of a file: the cells of both columns parsed; for a trained model also packed, in its spaces."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ele_core.config import RunConfig
from ele_core.data.dataset import DataSet
from ele_core.data.objects import Objects, parse_cells, parse_inputs, readers, refuse
from ele_core.data.truths import Truths, examples
from ele_core.errors import DataError
from ele_core.files.columns import Cell, cell_text, describe_columns
from ele_core.files.tables import FIRST, LAST, read_table
from ele_core.interfaces import InputSpace, OutputSpace
from ele_core.numerics.tensors import Tensors
from ele_core.runtime.context import Context


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
    x = parse_inputs(inputs, left)
    y = parse_cells(parse, right, context.monitor.progress(x.rows, description="reading pairs"))
    return dict(zip(x.rows, x.values, strict=True)), dataclasses.replace(y, rejected=[*x.rejected, *y.rejected])


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
    return x.batch[first], truths


def input_texts(file: str, config: RunConfig, inputs: InputSpace[Any]) -> list[str]:
    """The inputs of a file as texts; those that cannot be read are skipped."""
    wanted = columns_of(config)
    table = read_table(file, wanted, readers(config.registry))
    inputs.read_beside(file)
    found = parse_inputs(inputs, table.cells(table.places(wanted)[0]))
    return [inputs.format(value) for value in found.values]


def columns_of(config: RunConfig) -> list[str | int]:
    """The columns of inputs and outputs, by default the first and the last."""
    options = config.data
    return [(options and options.input) or FIRST, (options and options.output) or LAST]
