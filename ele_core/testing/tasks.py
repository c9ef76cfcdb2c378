"""`check_task` and `check_file_reader`. The checks load data: configure a small size if there is such an option."""

from __future__ import annotations

import functools
import io
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ele_core import config as configuration
from ele_core.config import RunConfig
from ele_core.data.dataset import DataSet
from ele_core.errors import DataError
from ele_core.files.archive import brief
from ele_core.interfaces import InputSpace
from ele_core.plugins import registry_of
from ele_core.runtime.context import Context
from ele_core.sources import FileReader, Task
from ele_core.testing.common import COMMON, provider_of
from ele_core.testing.results import Broken, CheckResult, NotApplicable, after, laws_in, require, run_checks
from ele_core.testing.samples import SEED, Space, described, require_inside, require_own_randomness

SOME = 256
"""Pairs that are looked at one by one."""


def check_task_defaults_are_a_configuration(task: Task) -> None:
    """The sections of `defaults` make a valid configuration: their components exist and accept their options."""
    _, record = provider_of(task)
    sections = {"task": {"name": record.name, **task.config.model_dump(mode="json")}}
    configuration.load(sections, registry=registry_of(task))


def check_task_references_have_a_source(task: Task) -> None:
    """Every published result (`references`) has a name, values and a source."""
    if not task.references:
        raise NotApplicable("the task has no published results")
    bare = [each.name for each in task.references if not (each.name and each.values and each.source)]
    require(not bare, f"references without name, values or source: {', '.join(bare)}")


@after(check_task_defaults_are_a_configuration)
def check_task_splits_are_apart(task: Task) -> None:
    """There is an output for each input, and no pair is in two of training, validation and test."""
    data = loaded(task)
    require(len(data.inputs) == len(data.outputs), f"{len(data.inputs)} inputs and {len(data.outputs)} outputs")
    rows = torch.cat([data.train, data.validation, data.test])
    require(len(data.train) and len(data.validation), "the training or the validation pairs are empty")
    require(bool(((rows >= 0) & (rows < len(data.inputs))).all()), "the split has indices of pairs that do not exist")
    require(len(torch.unique(rows)) == len(rows), "a pair is in two parts of the split, or twice in one")


@after(check_task_splits_are_apart)
def check_task_pairs_are_on_one_side(task: Task) -> None:
    """No pair of an input and an output is on two sides of the split, although it is in the data twice."""
    data, space, inputs = loaded(task), output_of(task), input_of(task)
    keys = space.keys(data.outputs[:]).tolist()
    seen: dict[tuple[Any, ...], str] = {}
    for part in ("train", "validation", "test"):
        for row in getattr(data, part).tolist():
            text = written(inputs, data.inputs[row])
            other = seen.setdefault((text, *keys[row]), part)
            if other != part:
                pair = f"{brief(text, 80)!r} → {described(space, data.outputs, row)}"
                raise Broken(f"the pair {pair} is in `{other}` and again in `{part}`: drop duplicates before the split")


@after(check_task_splits_are_apart)
def check_task_data_fit_its_spaces(task: Task) -> None:
    """The outputs are structures of the space that `load` is given; the input space of `defaults` packs the inputs."""
    data, space = loaded(task), output_of(task)
    some = data.train[:SOME]
    require_inside(space, data.outputs[some], "the outputs of the data")
    inputs = input_of(task)
    inputs.fit(data.inputs_at(data.train))
    for part in ("train", "validation", "test"):
        inputs.pack(data.inputs_at(getattr(data, part)[:SOME]))


@after(check_task_splits_are_apart)
def check_task_fingerprint_is_of_the_data(task: Task) -> None:
    """The fingerprint is not empty, and data from another seed, if they differ, have another one."""
    data, other = loaded(task), load(task, SEED + 1)
    require(data.fingerprint, "the fingerprint is empty: use `fingerprint(inputs, outputs)`")
    inputs, space = input_of(task), output_of(task)
    texts = [[written(inputs, value) for value in each.inputs] for each in (data, other)]
    same = texts[0] == texts[1] and torch.equal(space.keys(data.outputs[:]), space.keys(other.outputs[:]))
    if same:
        raise NotApplicable("another seed gives the same data: nothing is known of the fingerprint")
    require(
        data.fingerprint != other.fingerprint,
        "other data have the same fingerprint: hash inputs and outputs, as `fingerprint(inputs, outputs)` does",
    )


@after(check_task_splits_are_apart)
def check_task_is_seeded(task: Task) -> None:
    """The same seed gives the same pairs, split and fingerprint, and `load` draws nothing from a global generator."""
    made: list[DataSet] = []
    require_own_randomness("`load`", lambda: made.append(load(task)))
    first, second = loaded(task), made[0]
    require(first.fingerprint == second.fingerprint, "two loads with the same seed have different fingerprints")
    parts = ("train", "validation", "test")
    same = all(torch.equal(getattr(first, part), getattr(second, part)) for part in parts)
    require(same, "two loads with the same seed split differently")


TASK_CHECKS = (*laws_in(globals(), "check_task_"), *COMMON)


def check_task(task: Task, expected_failures: Mapping[str, str] | None = None) -> list[CheckResult]:
    """Run every check of a task. `expected_failures`: check → reason."""
    return run_checks(TASK_CHECKS, (task,), expected_failures)


def output_of(task: Task) -> Space:
    """The output space of the task's defaults."""
    section = task.defaults_for(task.config.model_dump(mode="json"))["output"]
    return registry_of(task).create("output", section, path="output")  # type: ignore[no-any-return]


def input_of(task: Task) -> InputSpace[Any]:
    """The input space of the task's defaults."""
    section = task.defaults_for(task.config.model_dump(mode="json")).get(
        "input", RunConfig.model_fields["input"].default
    )
    return registry_of(task).create("input", section, path="input")  # type: ignore[no-any-return]


def written(inputs: InputSpace[Any], value: Any) -> str:
    """An input as text; as Python shows it if the input space cannot write it."""
    try:
        return inputs.format(value)
    except Exception:  # another check says so
        return repr(value)


def load(task: Task, seed: int = SEED) -> DataSet:
    """Load the task's data in the space of its defaults; raise `NotApplicable` if that fails."""
    try:
        return task.load(output_of(task), Context(seed))
    except DataError as error:
        raise NotApplicable(f"the data cannot be loaded: {error}") from error


@functools.lru_cache(maxsize=1)
def loaded(task: Task) -> DataSet:
    """The data of the task that is being checked, loaded once."""
    return load(task)


FOREIGN = (b"", b"\x00\xff\xfe not a file of this kind \x80", b"plain text\nin two lines\n")
"""Contents that belong to no format."""


def check_reader_is_named_by_a_suffix(reader: FileReader) -> None:
    """The name of the reader is a suffix with its dot, in lower case, such as `.sdf`."""
    _, record = provider_of(reader)
    suffix = record.name.startswith(".") and record.name == record.name.lower() and record.name.count(".") == 1
    require(suffix, f"the name '{record.name}' is not a suffix such as '.sdf'")


def check_reader_gives_columns(reader: FileReader) -> None:
    """`read` gives at least one column, all of the same length, with a text as the name of each."""
    for columns in tables(reader):
        require(columns, "there are no columns")
        require(all(isinstance(name, str) for name in columns), f"not all names are texts: {list(columns)}")
        lengths = {name: len(column) for name, column in columns.items()}
        require(len(set(lengths.values())) == 1, f"the columns differ in length: {lengths}")


@after(check_reader_gives_columns)
def check_reader_is_repeatable(reader: FileReader) -> None:
    """Reading the same bytes twice gives the same columns."""
    pairs = zip(tables(reader), tables(reader), strict=True)
    require(all(repr(dict(one)) == repr(dict(two)) for one, two in pairs), "two readings of a file differ")


def check_reader_refuses_politely(reader: FileReader) -> None:
    """Of bytes that are no such file `read` raises `DataError`, and no other error."""
    for content in FOREIGN:
        try:
            reader.read(io.BytesIO(content))
        except DataError:
            continue
        except Exception as error:
            what = f"{content!r} raises {type(error).__name__} ({error}), not DataError"
            raise Broken(what) from error


def tables(reader: FileReader) -> list[Mapping[str, Sequence[Any]]]:
    """The columns of each example."""
    examples = reader.examples()
    if not examples:
        raise NotApplicable("the reader has no examples")
    return [reader.read(io.BytesIO(content)) for content in examples]


READER_CHECKS = (*laws_in(globals(), "check_reader_"), *COMMON)


def check_file_reader(reader: FileReader, expected_failures: Mapping[str, str] | None = None) -> list[CheckResult]:
    """Run every check of a file reader. `expected_failures`: check → reason."""
    return run_checks(READER_CHECKS, (reader,), expected_failures)
