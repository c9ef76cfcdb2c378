"""From a configuration to data: a task's own, or the user's file with labels and sizes inferred."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from pydantic import ValidationError

from ele_core.config import RunConfig, with_output
from ele_core.context import Context
from ele_core.data import DataSet, Rejected, accept, split
from ele_core.errors import ConfigError, DataError
from ele_core.interfaces import InputSpace, OutputSpace, Task
from ele_core.plugins import registry
from ele_core.rows import distinct, member
from ele_core.tables import FIRST, LAST, Unreadable, read_columns
from ele_core.tensors import Tensors

SHOWN = 100
"""Rejected rows that an error message lists; the rest are counted."""


@dataclasses.dataclass(frozen=True)
class Prepared:
    """All that training needs: the resolved configuration, both spaces, the pairs and their packed inputs."""

    config: RunConfig
    space: OutputSpace[Any, Any]
    inputs: InputSpace[Any]
    data: DataSet
    packed: Tensors


def prepare(config: RunConfig, context: Context) -> Prepared:
    """Load the data, settle the output space, fit the input space and pack every input."""
    inputs: InputSpace[Any] = registry().create("input", config.input, path="input")
    if config.data is not None:
        space, data = load_file(config, inputs, context)
    elif config.task is not None:
        space, data = load_task(config, context)
    else:
        fix = "Name a task ([task] name = …) or give a file ([data] file = …)."
        raise ConfigError("there is nothing to train on.", where="config", fix=fix)
    inputs.fit(data.inputs_at(data.train))
    data, packed = pack_inputs(inputs, data, config.data.on_error if config.data else "skip")
    return Prepared(with_output(config, space.config), space, inputs, data, packed)


def summary(prepared: Prepared) -> str:
    """One line on what will be trained on."""
    data = prepared.data
    extra = f", {len(data.extra):,} extra outputs" if data.extra is not None else ""
    left_out = f", {len(data.rejected):,} rows left out" if data.rejected else ""
    sizes = f"{len(data.train):,} training, {len(data.validation):,} validation, {len(data.test):,} test pairs"
    return f"{data.source}: {sizes}{extra}{left_out}"


def describe_data(prepared: Prepared) -> str:
    """A short account of the data: sizes, duplicates, what was left out and why, a few pairs."""
    data, space = prepared.data, prepared.space
    keys = space.keys(data.outputs)
    known = member(keys[data.test], of=keys[data.train])
    lines = [
        f"source       {data.source} (sha256 {data.fingerprint[:12]}…)",
        f"pairs        {len(data):,}, of them {len(data.train):,} training, {len(data.validation):,} validation, "
        f"{len(data.test):,} test",
        f"outputs      {len(distinct(keys)):,} different; {int(known.sum()):,} of the test outputs occur in training",
        f"extra        {len(data.extra) if data.extra is not None else 0:,} outputs without inputs",
        f"left out     {len(data.rejected):,} rows",
        *(f"  row {r.row + 1}: {r.text!r}: {r.reason}" for r in data.rejected[:SHOWN]),
    ]
    sizes = prepared.inputs.sizes(prepared.packed)
    if sizes is not None:
        lines.append(f"input sizes  {int(sizes.min())} to {int(sizes.max())}, mean {sizes.float().mean():.1f}")
    first = data.train[:3]
    for x, y in zip(data.inputs_at(first), space.unpack(data.outputs[first]), strict=True):
        lines.append(f"example      {prepared.inputs.format(x)} → {space.format(y)}")
    return "\n".join(lines)


def load_task(config: RunConfig, context: Context) -> tuple[OutputSpace[Any, Any], DataSet]:
    """The task's own pairs, packed by the configured space."""
    assert config.task is not None
    task: Task = registry().create("task", config.task, path="task")
    space: OutputSpace[Any, Any] = registry().create("output", config.output, path="output")
    return space, task.load(space, context)


def load_file(config: RunConfig, inputs: InputSpace[Any], context: Context) -> tuple[OutputSpace[Any, Any], DataSet]:
    """Pairs from a CSV, JSONL or .smi file; every row that does not parse or fit is listed with its reason."""
    options = config.data
    assert options is not None
    space_type: type[OutputSpace[Any, Any]] = registry().get("output", config.output.name)
    (left, right), fingerprint = read_columns(options.file, [options.input or FIRST, options.output or LAST])
    rejected: list[Rejected] = []
    rows = list(range(len(left)))
    shown = context.monitor.progress(rows, description="reading pairs")
    pairs = [
        (row, x, y)
        for row in shown
        if (x := parsed(inputs.parse, left, row, rejected)) is not None
        and (y := parsed(space_type.parse, right, row, rejected)) is not None
    ]
    if not pairs:
        refuse(rejected, options.file)
        raise DataError("no pairs.", where=options.file)
    space = inferred_space(space_type, [y for _, _, y in pairs], config.output.options)
    parts, accepted, refused = accept([y for _, _, y in pairs], space.pack)
    rejected += [Rejected(pairs[i][0], right[pairs[i][0]], reason) for i, reason in refused]
    if options.on_error == "raise" or not accepted:
        refuse(rejected, options.file)
    extra = load_extra(options.extra, space, context) if options.extra else None
    train, validation, test = split(len(accepted), options.validation, options.test, config.seed)
    data = DataSet(
        inputs=[pairs[i][1] for i in accepted],
        outputs=space.Batch.cat(parts),
        train=train,
        validation=validation,
        test=test,
        source=options.file,
        fingerprint=fingerprint,
        extra=extra,
        rejected=rejected,
        rows=[pairs[i][0] for i in accepted],
    )
    return space, data


def inferred_space(
    space_type: type[OutputSpace[Any, Any]], objects: Sequence[Any], options: Mapping[str, Any]
) -> OutputSpace[Any, Any]:
    """The space that holds all `objects`; `options` given by hand win."""
    try:
        return space_type(space_type.infer(objects, options))
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        what = f"no output space can be inferred from these outputs: {problems}."
        raise DataError(what, where="output", fix="Check the column of the outputs.") from None


def load_extra(file: str, space: OutputSpace[Any, Any], context: Context) -> Any:
    """Outputs alone, one a line or in the first column; those that do not parse or fit are counted and left out."""
    (texts,), _ = read_columns(file, [FIRST])
    rejected: list[Rejected] = []
    shown = context.monitor.progress(range(len(texts)), description="reading extra outputs")
    objects = [y for row in shown if (y := parsed(space.parse, texts, row, rejected)) is not None]
    parts, accepted, _ = accept(objects, space.pack)
    context.monitor.message(f"{file}: {len(accepted):,} extra outputs, {len(texts) - len(accepted):,} left out")
    return space.Batch.cat(parts) if parts else None


def pack_inputs(inputs: InputSpace[Any], data: DataSet, on_error: str) -> tuple[DataSet, Tensors]:
    """Every input packed; those that the input space refuses leave the data set, with their reasons."""
    parts, accepted, refused = accept(data.inputs, inputs.pack)
    rejected = [Rejected(data.source_row(row), inputs.format(data.inputs[row]), reason) for row, reason in refused]
    if (rejected and on_error == "raise") or not accepted:
        refuse(rejected, data.source)
    packed = type(parts[0]).cat(parts)
    return (data.keep(torch.tensor(accepted), rejected) if refused else data), packed


def parsed(parse: Callable[[str], Any], texts: Sequence[str], row: int, rejected: list[Rejected]) -> Any | None:
    """One parsed cell, or None with the reason added to `rejected`."""
    cell = texts[row]
    if isinstance(cell, Unreadable):
        rejected.append(Rejected(row, cell, cell.reason))
        return None
    try:
        return parse(cell)
    except DataError as error:
        rejected.append(Rejected(row, texts[row], error.reason))
        return None


def refuse(rejected: Sequence[Rejected], source: str) -> None:
    """Raise one error that lists the rejected rows, if there are any."""
    if not rejected:
        return
    ordered = sorted(rejected, key=lambda r: r.row)
    lines = [f"  row {r.row + 1}: {r.text!r}: {r.reason}" for r in ordered[:SHOWN]]
    if len(ordered) > SHOWN:
        lines.append(f"  … and {len(ordered) - SHOWN} more")
    what = f"{len(ordered)} rows cannot be used:\n" + "\n".join(lines) + "\n"
    raise DataError(what, where=source, fix="Mend them, or leave them out with --on-error skip.")
