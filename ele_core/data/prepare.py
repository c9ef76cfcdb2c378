"""Load the data of a configuration: those of a task, or the user's file with labels and sizes inferred."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Any, Protocol

import torch
from pydantic import ValidationError
from torch import Tensor

from ele_core.components.inputs.text import TextInput
from ele_core.config import (
    DataConfig,
    Facts,
    RunConfig,
    as_table,
    calibration_pairs,
    continued,
    merge,
    own_data,
    plan,
    resolve,
)
from ele_core.config.recipes import BARE, CALIBRATED_FROM
from ele_core.data.dataset import DataSet, fingerprint, split_examples
from ele_core.data.large import PairCells, key_of, read_cells, with_stored
from ele_core.data.objects import (
    Objects,
    located,
    pack_all,
    parse_cells,
    parse_inputs,
    readers,
    reading,
    refuse,
)
from ele_core.data.pairs import (
    are_arrays,
    are_columns,
    are_single_numbers,
    looks_like_signals,
    looks_like_vectors,
    parse_pairs,
    sample,
)
from ele_core.data.store import load_outputs
from ele_core.data.truths import Truths, examples, note_on_repeats, numbered
from ele_core.errors import ConfigError, DataError, EleError, InvalidInput, InvalidOutput, counted
from ele_core.files.columns import Cell, Column, Unreadable, cell_text, describe_columns, named_or, note_on_identifiers
from ele_core.files.tables import FIRST, LAST, Table
from ele_core.interfaces import InputSpace, OutputSpace
from ele_core.numerics.tensors import Tensors
from ele_core.plugins import Registry
from ele_core.runtime.context import Context
from ele_core.sources import Task
from ele_core.types import Choice

FEW_DIFFERENT = 20
"""Different rows up to which a file is split row by row: equal rows are then in several parts of the split."""
NO_CONFIDENCE = (
    f"no confidence: below {CALIBRATED_FROM:,} training pairs none are set aside to learn it. To learn it from all "
    "pairs after the training: `ele calibrate RUN --folds 3`; to set some aside: --set calibration.pairs=0.1"
)

OF_THE_MODEL = (
    "The output space is that of the model to start from. Correct the rows, leave them out with --on-error skip, or "
    "train without a model to start from."
)


@dataclasses.dataclass(frozen=True)
class Prepared:
    """Everything that training needs: the resolved configuration, both spaces, the pairs and their packed inputs."""

    config: RunConfig
    space: OutputSpace[Any, Any]
    inputs: InputSpace[Any]
    data: DataSet
    packed: Tensors

    def examples(self, split: str, limit: int | None = None) -> tuple[Tensor, Truths]:
        """The first pair of each example of a split, such as `test`, and their right outputs; at most `limit`."""
        return examples(self.data, getattr(self.data, split), self.inputs.format, limit)


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Pairs given to `fit`, with the rows to train and to validate on; `extra` are outputs without inputs."""

    inputs: Sequence[Any]
    outputs: Sequence[Any]
    train: Tensor
    validation: Tensor
    extra: Sequence[Any] | None = None
    given: int | None = None
    """How many inputs come before those that were given only to validate on; None: there are none of these."""
    position: Tensor | None = None
    """The position of each pair among the inputs that were given; None: pair i is at position i."""

    def place(self, noun: str, index: int) -> str:
        """Return the name of the input or output at `index`; extra outputs are counted after the pairs."""
        if index >= len(self.outputs):
            return f"extra {noun} {index - len(self.outputs)}"
        index = index if self.position is None else int(self.position[index])
        own = len(self.outputs) if self.given is None else self.given
        return f"{noun} {index}" if index < own else f"validation {noun} {index - own}"


class Trained(Protocol):
    """A trained model, as far as a training that starts from it reads its data with it."""

    config: RunConfig
    inputs: InputSpace[Any]


def prepare(config: RunConfig, context: Context, pairs: Pairs | None = None, start: Trained | None = None) -> Prepared:
    """Read the data, then plan the configuration of the training: what was given, and what suits the data.

    The data are `pairs` if they are given, else those of the file or the task in the configuration. A training that
    begins at the model `start` has its input space, as it was fitted, and its regressor, if that reads these inputs.
    """
    if pairs is not None:
        choice, inputs = reader(config, input_for(config, pairs.inputs), start, whole(pairs.inputs))
        space, data = load_pairs(config, pairs, context)
    elif config.data is not None:
        choice, inputs, space, data = load_file(config, start, context)
    elif config.task is not None:
        space, data = load_task(config, context)
        choice, inputs = reader(config, config.input, start, whole(data.inputs))
    else:
        fix = "Name a task ([task] name = …) or give a file ([data] file = …)."
        raise ConfigError("there is nothing to train on.", where="config", fix=fix)
    shared = start is not None and inputs is start.inputs
    aside = calibration_size(config, len(data.train))
    if aside:
        data = with_calibration(data, aside, inputs, context)
    elif own_data(config.given) and "pairs" not in config.given.get("calibration", {}):
        data = dataclasses.replace(data, notes=[*data.notes, NO_CONFIDENCE])
    if pairs is not None:
        if not shared:
            fit_by_position(inputs, data)
        packed = inputs.pack(data.inputs)  # the first invalid input raises with its position
        known = fingerprint(map(inputs.format, data.inputs), data.outputs)
        data = dataclasses.replace(data, fingerprint=known)
    else:
        take, large = pack_inputs if shared else fit_inputs, data.keys is not None
        data, packed = take(inputs, data, config.data.on_error if config.data and not large else "skip")
        if large:
            data = with_stored(config, choice, inputs, space, data, packed, context)
    facts, given = Facts(choice, inputs, space, data.training_pairs, aside), config.given
    if start is not None and shared and "recipe" not in given:
        given = merge(taken_from(start.config, facts.pairs, given), given)
    return Prepared(plan(given, facts, config.registry), space, inputs, data, packed)


def taken_from(start: RunConfig, pairs: int, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sections of a model for a training that goes on from its regressor: how it regresses and decodes."""
    chosen = "name" in as_table(given.get("decoder", {}))
    selection = {} if chosen else {"selection": as_table(start.selection)}
    return {"regressor": continued(start.regressor, pairs), "decoder": as_table(start.decoder), **selection}


def reader(
    config: RunConfig, choice: Choice, start: Trained | None, parsed: Callable[[InputSpace[Any]], Objects]
) -> tuple[Choice, InputSpace[Any]]:
    """Return what reads the inputs: the input space of the model to start from if it knows most of them, else another.

    `parsed` gives some inputs as an input space parses them. Options that differ from the model's make it another.
    """
    if start is not None and choice.name == start.config.input.name:
        wanted = merge(as_table(start.config.input), as_table(config.given.get("input", {})))
        if resolve("input", wanted, "input", config.registry)[1] == start.inputs.config:
            some = parsed(start.inputs)
            known = some.pack(start.inputs.pack, lambda _: "").values
            if 2 * start.inputs.unlike_training(known).count("") > len(some) + len(some.rejected):
                return start.config.input, start.inputs
    return choice, input_space(config, choice)


def whole(values: Sequence[Any]) -> Callable[[InputSpace[Any]], Objects]:
    """Return some values for any input space, which need not be parsed."""
    some = sample(values)
    return lambda _: Objects(range(len(some)), some)


def calibration_size(config: RunConfig, pairs: int) -> float:
    """Return how many training pairs to set aside for the calibration: as given, or by the number of own pairs."""
    if own_data(config.given) and "pairs" not in config.given.get("calibration", {}):
        return calibration_pairs(pairs)
    return config.calibration.pairs


def with_calibration(data: DataSet, size: float, inputs: InputSpace[Any], context: Context) -> DataSet:
    """Set training pairs aside for the calibration.

    Equal pairs stay together, and the pairs of one input if any truth is right.
    """
    if data.any_truth:
        example = numbered(map(inputs.format, data.inputs_at(data.train)))
    else:
        example = numbered((data.train if data.alike is None else data.alike[data.train]).tolist())
    return data.set_aside(size, example, context.generator("calibration"))


def input_space(config: RunConfig, choice: Choice) -> InputSpace[Any]:
    """Create the input space of a configuration, or another."""
    inputs: InputSpace[Any] = config.registry.create("input", choice, path="input")
    return inputs


def input_for(config: RunConfig, values: Sequence[Any]) -> Choice:
    """Return the input space for these values: one for columns, signals, vectors or arrays if all are such.

    If the user chose one, it is that; for columns, the user may choose those of some of them.
    """
    chosen = "input" in config.given or config.task is not None
    joint = [name for name, space in config.registry.usable("input").items() if space.reads == "columns"]
    if are_columns(values) and joint and (config.input.name in joint or not chosen):
        return columns_for(config, joint[0], values)
    if chosen:
        return config.input
    better = better_input(config.registry, values)
    return Choice(name=better) if better else config.input


def better_input(registry: Registry, values: Sequence[Any]) -> str:
    """Return the name of the input space for values that are signals, vectors or arrays; empty if they are not."""
    better: list[str] = []
    if looks_like_signals(values) and looks_like_vectors(values) != "binary":
        better = [name for name, space in registry.usable("input").items() if space.reads == "signals by default"]
    if better:
        return better[0]
    if are_arrays(values):
        better = [name for name, space in registry.usable("input").items() if space.reads == "arrays"]
    elif (found := looks_like_vectors(values)) is not None:
        better = (for_bits(registry) if found == "binary" else []) or for_vectors(registry)
    return better[0] if better else ""


def columns_for(config: RunConfig, name: str, values: Sequence[Any]) -> Choice:
    """Return the input space for several columns, with one for each: as given, else as its values are."""
    rows = [row for row in sample(values) if isinstance(row, Mapping)]
    given = dict(config.input.options.get("columns", {})) if config.input.name == name else {}
    if unknown := [column for column in given if column not in rows[0]]:
        what = f"no column is called '{unknown[0]}'. Columns: {', '.join(rows[0])}."
        raise ConfigError(what, where="input.columns")
    found = {}
    for column in rows[0]:
        own = [row[column] for row in rows if column in row]
        numbers = for_vectors(config.registry) if are_single_numbers(own) else []
        found[column] = {"name": better_input(config.registry, own) or (numbers or [BARE["input"]])[0]}
    return Choice.model_validate({"name": name, "columns": {**found, **given}})


def for_vectors(registry: Registry) -> list[str]:
    """Return the names of the input spaces that read vectors unless the user chooses another."""
    spaces = registry.usable("input").items()
    return [name for name, space in spaces if space.reads == "vectors by default"]


def for_bits(registry: Registry) -> list[str]:
    """Return the names of the input spaces that read vectors of 0 and 1 unless the user chooses another."""
    return [name for name, space in registry.usable("input").items() if space.reads == "bits by default"]


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
    outputs = pack_all(space, pairs.outputs, context)
    lost = space.show.dropped_note(pairs.outputs)
    data = DataSet(
        inputs=pairs.inputs,
        outputs=outputs,
        train=pairs.train,
        validation=pairs.validation,
        test=torch.arange(0),
        source="fit",
        fingerprint="",
        extra=None if pairs.extra is None else pack_all(space, pairs.extra, context, first=len(pairs.outputs)),
        any_truth=pairs.position is not None,
        notes=[lost] if lost else [],
    )
    return space, data


def load_task(config: RunConfig, context: Context) -> tuple[OutputSpace[Any, Any], DataSet]:
    """Load the pairs of the task, packed by the configured output space."""
    assert config.task is not None
    task: Task = config.registry.create("task", config.task, path="task")
    space: OutputSpace[Any, Any] = config.registry.create("output", config.output, path="output")
    return space, task.load(space, context)


def refuse_the_answer(table: Table, wanted: Sequence[Column]) -> None:
    """Refuse several columns as input if the output is one of them: nothing would be left to learn."""
    inputs, outputs = table.places(wanted)
    if len(inputs) > 1 and (both := {*inputs} & {*outputs}):
        what = f"the column '{table.names[min(both)]}' is the output, and also among the inputs."
        raise DataError(what, where=table.file, fix="Leave it out of --input, or name another with --output.")


def load_file(
    config: RunConfig, start: Trained | None, context: Context
) -> tuple[Choice, InputSpace[Any], OutputSpace[Any, Any], DataSet]:
    """Load pairs from the user's file; every row that does not parse or fit is listed with its reason.

    Also return which input space reads them.
    """
    options = config.data
    assert options is not None
    wanted: list[Column] = [named_or(options.input, FIRST), named_or(options.output, LAST)]
    reading(options.file, context.monitor)
    cells = read_cells(options.file, wanted, options.in_memory, readers(config.registry), context.monitor)
    table, left, right, large = cells.table, cells.left, cells.right, cells.numbers is not None
    if left is right and len(left) and not isinstance(left[0], str):
        fix = "Save both in one file: numpy.savez(file, input=…, output=…)."
        raise DataError("one array, but pairs need inputs and outputs.", where=options.file, fix=fix)
    refuse_the_answer(table, wanted)

    def some(space: InputSpace[Any]) -> Objects:
        space.read_beside(str(options.file))
        return parse_inputs(space, sample(left))

    choice, inputs = reader(config, input_for(config, left), start, some)
    if isinstance(options.input, tuple) and inputs.reads != "columns":
        what = f"the input space '{choice.name}' reads one column, and {len(options.input)} are given."
        fix = f"Join them, as in --input {','.join(options.input)}, or read each by itself: --set input=columns."
        raise ConfigError(what, where="data.input", fix=fix)
    inputs.read_beside(options.file)
    space, read, parsed = read_pairs(config, inputs, cells, context)
    outputs = parsed.pack(space.pack, lambda row: cell_text(right[row]))
    rejected = outputs.located(cells.lines, cells.numbers).rejected
    if (options.on_error == "raise" and not large) or not len(outputs):  # bad rows of a large file are found later
        hint = swapped(space.texts.parse, left, right) or ("" if start is None else OF_THE_MODEL)
        refuse(rejected, options.file, skipping=options.on_error == "skip", fix=hint)
    extra = None
    if options.extra:
        fatal = options.on_error == "raise"
        extra = load_outputs(options.extra, space, config.output.name, context, config.registry, fatal=fatal)
    values = [read[row] for row in outputs.rows]
    texts = [cell_text(right[row]) for row in outputs.rows]
    written = map(inputs.format, values) if options.any_truth else repeat(None)
    keys = list(map(key_of, (left[row] for row in outputs.rows), texts, written))
    alike = numbered(keys)
    repeats = "" if options.any_truth else note_on_copies(alike)
    if not options.any_truth and int(alike.max()) < FEW_DIFFERENT:
        alike = torch.arange(len(values))
    held = held_out(options, int(alike.max()) + 1)
    train, validation, test = split_examples(alike, held, options.test, config.seed)
    lost = space.show.dropped_note(outputs.values)
    warning = numbers_as_text(inputs, left, config.registry)
    if options.any_truth is None:
        repeats = "\n".join(filter(None, [repeats, note_on_repeats(values, texts)]))
    as_read = read_as(choice, config.input, left, config.registry)
    columns = describe_columns(table, wanted), note_on_identifiers(table, wanted)
    notes = *columns, as_read, warning, repeats, described(space), lost
    data = DataSet(
        inputs=values,
        outputs=outputs.batch,
        train=train,
        validation=validation,
        test=test,
        source=options.file,
        fingerprint=with_contents(table.digest, inputs.contents(values)),
        extra=extra,
        rejected=rejected,
        rows=outputs.rows if cells.numbers is None else [cells.numbers[row] for row in outputs.rows],
        lines=cells.lines,
        notes=[note for note in notes if note],
        any_truth=bool(options.any_truth),
        alike=alike,
        keys=torch.tensor(keys) if large else None,
    )
    return choice, inputs, space, data


def note_on_copies(alike: Tensor) -> str:
    """A line for the user if rows occur several times; else empty."""
    different = int(alike.max()) + 1
    if different == len(alike):
        return ""
    what = f"note: {counted(len(alike) - different, 'row')} equal to an earlier one"
    if different <= FEW_DIFFERENT:
        return f"{what}, and only {different} different: equal rows are trained and tested on, so results are too good"
    return f"{what}; equal rows stay in the same part of the split"


def swapped(parse: Callable[[str], Any], left: Sequence[Cell], right: Sequence[Cell]) -> str:
    """What to do if most outputs cannot be read, but the inputs can be read as outputs; else empty."""
    inputs, outputs = (parse_cells(parse, sample(cells)) for cells in (left, right))
    if inputs.rejected or len(outputs) >= len(outputs.rejected):
        return ""
    return (
        "The column of the inputs can be read as outputs: are the two swapped? Choose them with --input and --output."
    )


def with_contents(digest: str, contents: str) -> str:
    """The fingerprint of a file, and of the contents of other files that it names."""
    return hashlib.sha256(f"{digest} {contents}".encode()).hexdigest() if contents else digest


def held_out(options: DataConfig, pairs: int) -> float:
    """How many pairs to validate on, as a share or a number."""
    if options.validation is not None:
        return options.validation
    return max(1, round(max(0.05 * pairs, min(100, 0.2 * pairs))))


def read_pairs(
    config: RunConfig, inputs: InputSpace[Any], cells: PairCells, context: Context
) -> tuple[OutputSpace[Any, Any], dict[int, Any], Objects]:
    """Parse the cells of both columns; return the output space, the inputs by row, and the outputs."""
    left, right = cells.left, cells.right
    space_type: type[OutputSpace[Any, Any]] = config.registry.get("output", config.output.name)
    texts = [cell_text(cell) for cell in right if not isinstance(cell, Unreadable)]
    options = {**space_type.Texts.infer(texts, config.output.options), **config.output.options}
    values, outputs = parse_pairs(inputs, space_type.Texts(space_type, options).parse, left, right, context)
    if not len(outputs):
        assert config.data is not None
        hint = swapped(space_type.Texts(space_type, options).parse, left, right)
        rejected = outputs.located(cells.lines, cells.numbers).rejected
        refuse(rejected, config.data.file, skipping=config.data.on_error == "skip", fix=hint)
        raise DataError("there are no pairs.", where=config.data.file)
    return inferred_space(space_type, outputs.values, options), values, outputs


def described(space: OutputSpace[Any, Any]) -> str:
    """A line on the output space, if it says anything of itself."""
    return f"output: {said}" if (said := space.show.describe()) else ""


def read_as(chosen: Choice, given: Choice, values: Sequence[Cell], registry: Registry) -> str:
    """A line on the input space, if it was chosen because of the data."""
    if columns := chosen.options.get("columns"):
        each = ", ".join(f"'{column}' as {as_table(own)['name']}" for column, own in columns.items())
        return f"input: {each}; otherwise, as in --set input.columns.{next(iter(columns))}={BARE['input']}"
    if chosen.name == given.name:
        return ""
    kind = looks_like_vectors(values)
    if kind != "binary" and (why := looks_like_signals(values)):
        other = [given.name] if kind is None else for_vectors(registry)
        return f"input: read as '{chosen.name}', because {why}; otherwise: --set input={other[0]}"
    what = {"binary": "vectors of 0 and 1", "numbers": "vectors of numbers", None: "arrays of numbers"}[kind]
    return f"input: read as '{chosen.name}', because all are {what}; otherwise: --set input={given.name}"


def numbers_as_text(inputs: InputSpace[Any], cells: Sequence[Cell], registry: Registry) -> str:
    """A warning if numbers or vectors of numbers are read as texts, with the input space that reads them."""
    if not isinstance(inputs, TextInput):
        return ""
    what = "vectors of numbers" if looks_like_vectors(cells) else "numbers" if are_single_numbers(cells) else ""
    better = (for_bits(registry) if looks_like_vectors(cells) == "binary" else []) or for_vectors(registry)
    advice = f". To read them as vectors: --set input={better[0]}" if better else "."
    return f"warning: the inputs are {what}, but are read as text{advice}" if what else ""


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


def fit_inputs(inputs: InputSpace[Any], data: DataSet, on_error: str) -> tuple[DataSet, Tensors]:
    """Fit the input space on the training inputs and pack every input; those that it refuses are omitted.

    If it already refuses to fit one, it is fitted on those before, which tells all inputs that cannot be packed, and
    then on what is left.
    """
    train = data.inputs_at(data.train)
    try:
        inputs.fit(train)
    except InvalidInput as error:
        if not error.index:
            raise
        inputs.fit(train[: error.index])
        data, _ = pack_inputs(inputs, data, on_error)
        inputs.fit(data.inputs_at(data.train))
    return pack_inputs(inputs, data, on_error)


def pack_inputs(inputs: InputSpace[Any], data: DataSet, on_error: str) -> tuple[DataSet, Tensors]:
    """Pack every input; those that the input space refuses are removed from the data set, with their reasons."""
    found = Objects(range(len(data)), data.inputs).pack(inputs.pack, lambda row: inputs.format(data.inputs[row]))
    rejected = located(
        (dataclasses.replace(each, row=data.source_row(each.row)) for each in found.rejected), data.lines
    )
    if (rejected and on_error == "raise") or not len(found):
        refuse(rejected, data.source, skipping=on_error == "skip")
    return (data.keep(torch.tensor(found.rows), rejected) if rejected else data), found.batch
