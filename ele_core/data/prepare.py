"""Load the data of a configuration: those of a task, or the user's file with labels and sizes inferred."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from ele_core.config import RunConfig, with_output
from ele_core.data.dataset import DataSet, fingerprint, split
from ele_core.data.packing import accept, pack_all
from ele_core.data.rejected import Rejected, parsed, refuse
from ele_core.errors import ConfigError, DataError, EleError, InvalidInput, InvalidOutput, counted
from ele_core.files.tables import FIRST, LAST, read_columns
from ele_core.interfaces import InputSpace, OutputSpace, Task
from ele_core.numerics.tensors import Tensors
from ele_core.runtime.context import Context


@dataclasses.dataclass(frozen=True)
class Prepared:
    """Everything that training needs: the resolved configuration, both spaces, the pairs and their packed inputs."""

    config: RunConfig
    space: OutputSpace[Any, Any]
    inputs: InputSpace[Any]
    data: DataSet
    packed: Tensors


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Pairs given to `fit`, with the rows to train and to validate on; `extra` are outputs without inputs."""

    inputs: Sequence[Any]
    outputs: Sequence[Any]
    train: Tensor
    validation: Tensor
    extra: Sequence[Any] | None = None
    given: int | None = None
    """How many of the pairs come before those that were given only to validate on; None: there are none of these."""

    def place(self, noun: str, index: int) -> str:
        """Return the name of the input or output at `index`; extra outputs are counted after the pairs."""
        if index >= len(self.outputs):
            return f"extra {noun} {index - len(self.outputs)}"
        own = len(self.outputs) if self.given is None else self.given
        return f"{noun} {index}" if index < own else f"validation {noun} {index - own}"


def prepare(
    config: RunConfig, context: Context, pairs: Pairs | None = None, fitted: InputSpace[Any] | None = None
) -> Prepared:
    """Load the data, create the output space, fit the input space and pack every input.

    The data are `pairs` if they are given, else those of the file or the task in the configuration. An input space that
    is `fitted` already, to data of another training, is used as it is.
    """
    inputs: InputSpace[Any] = fitted or config.registry.create("input", config.input, path="input")
    if pairs is not None:
        space, data = load_pairs(config, pairs, context)
    elif config.data is not None:
        space, data = load_file(config, inputs, context)
    elif config.task is not None:
        space, data = load_task(config, context)
    else:
        fix = "Name a task ([task] name = …) or give a file ([data] file = …)."
        raise ConfigError("there is nothing to train on.", where="config", fix=fix)
    if fitted is None:
        fit_by_position(inputs, data)
    if pairs is not None:
        packed = inputs.pack(data.inputs)  # the first invalid input raises with its position
        known = fingerprint(map(inputs.format, data.inputs), data.outputs)
        data = dataclasses.replace(data, fingerprint=known)
    else:
        data, packed = pack_inputs(inputs, data, config.data.on_error if config.data else "skip")
    return Prepared(with_output(config, space.config), space, inputs, data, packed)


def fit_by_position(inputs: InputSpace[Any], data: DataSet) -> None:
    """Fit the input space to the training inputs; an error names the position among all inputs."""
    try:
        inputs.fit(data.inputs_at(data.train))
    except InvalidInput as error:
        if error.where is not None:
            error.shift(int(data.train[error.index]) - error.index)
        raise


def load_pairs(config: RunConfig, pairs: Pairs, context: Context) -> tuple[OutputSpace[Any, Any], DataSet]:
    """Pack pairs in memory; the first output that is not in the space raises with its position.

    The positions of extra outputs are counted after those of the pairs.
    """
    space_type: type[OutputSpace[Any, Any]] = config.registry.get("output", config.output.name)
    extra = () if pairs.extra is None else pairs.extra
    space = inferred_space(space_type, [*pairs.outputs, *extra], config.output.options, config.output.name)
    data = DataSet(
        inputs=pairs.inputs,
        outputs=pack_all(space, pairs.outputs, context),
        train=pairs.train,
        validation=pairs.validation,
        test=torch.arange(0),
        source="fit",
        fingerprint="",
        extra=None if pairs.extra is None else pack_all(space, pairs.extra, context, first=len(pairs.outputs)),
    )
    return space, data


def load_task(config: RunConfig, context: Context) -> tuple[OutputSpace[Any, Any], DataSet]:
    """Load the pairs of the task, packed by the configured output space."""
    assert config.task is not None
    task: Task = config.registry.create("task", config.task, path="task")
    space: OutputSpace[Any, Any] = config.registry.create("output", config.output, path="output")
    return space, task.load(space, context)


def load_file(config: RunConfig, inputs: InputSpace[Any], context: Context) -> tuple[OutputSpace[Any, Any], DataSet]:
    """Load pairs from a CSV, JSONL or .smi file; every row that does not parse or fit is listed with its reason."""
    options = config.data
    assert options is not None
    space_type: type[OutputSpace[Any, Any]] = config.registry.get("output", config.output.name)
    (left, right), digest = read_columns(options.file, [options.input or FIRST, options.output or LAST])
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
        raise DataError("there are no pairs.", where=options.file)
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
        fingerprint=digest,
        extra=extra,
        rejected=rejected,
        rows=[pairs[i][0] for i in accepted],
    )
    return space, data


def inferred_space(
    space_type: type[OutputSpace[Any, Any]], objects: Sequence[Any], options: Mapping[str, Any], name: str = ""
) -> OutputSpace[Any, Any]:
    """Create an output space that holds all `objects`; given `options` take precedence. `name` is for messages."""
    try:
        return space_type(space_type.infer(objects, options))
    except ValidationError as error:
        each = [": ".join([*map(str, e["loc"]), e["msg"].removeprefix("Value error, ")]) for e in error.errors()]
        what = f"no output space can be inferred from these outputs: {'; '.join(each)}."
        raise DataError(what, where="output", fix="Check the column of the outputs.") from None
    except Exception as error:  # objects are checked when they are packed, which needs the space
        if isinstance(error, EleError) and error.where is not None:
            raise
        raise first_not_taken(space_type, objects, options, name) or error from None


def first_not_taken(
    space_type: type[OutputSpace[Any, Any]], objects: Sequence[Any], options: Mapping[str, Any], name: str
) -> InvalidOutput | None:
    """Return the error for the first object that the output space `name` does not take, with its position."""
    for index, obj in enumerate(objects):
        try:
            space_type.infer([obj], options)
        except ValidationError:
            continue  # too little to infer from, as one empty text
        except InvalidOutput as error:
            return InvalidOutput(error.what, index=index, fix=error.fix)
        except Exception:
            takes = f"; the output space {name!r} takes {space_type.takes}" if space_type.takes else ""
            return InvalidOutput(f"got {type(obj).__name__}{takes}.", index=index)
    return None


def load_extra(file: str, space: OutputSpace[Any, Any], context: Context) -> Any:
    """Load outputs, one per line or in the first column; those that do not parse or fit are counted and left out."""
    (texts,), _ = read_columns(file, [FIRST])
    rejected: list[Rejected] = []
    shown = context.monitor.progress(range(len(texts)), description="reading extra outputs")
    objects = [y for row in shown if (y := parsed(space.parse, texts, row, rejected)) is not None]
    parts, accepted, _ = accept(objects, space.pack)
    found = counted(len(accepted), "extra output")
    context.monitor.message(f"{file}: {found}, {len(texts) - len(accepted):,} left out")
    return space.Batch.cat(parts) if parts else None


def pack_inputs(inputs: InputSpace[Any], data: DataSet, on_error: str) -> tuple[DataSet, Tensors]:
    """Pack every input; those that the input space refuses are removed from the data set, with their reasons."""
    parts, accepted, refused = accept(data.inputs, inputs.pack)
    rejected = [Rejected(data.source_row(row), inputs.format(data.inputs[row]), reason) for row, reason in refused]
    if (rejected and on_error == "raise") or not accepted:
        refuse(rejected, data.source)
    packed = type(parts[0]).cat(parts)
    return (data.keep(torch.tensor(accepted), rejected) if refused else data), packed
