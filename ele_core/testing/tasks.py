"""`check_task`: every law of a task. The checks load its data: configure a small size if it has such an option."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch

from ele_core import config as configuration
from ele_core.data.dataset import DataSet
from ele_core.errors import DataError
from ele_core.interfaces import Task
from ele_core.plugins import registry_of
from ele_core.runtime.context import Context
from ele_core.testing.common import COMMON, provider_of
from ele_core.testing.results import CheckResult, NotApplicable, after, require, run_checks
from ele_core.testing.samples import SEED


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
def check_task_is_seeded(task: Task) -> None:
    """The same seed gives the same pairs, the same split and the same fingerprint."""
    first, second = loaded(task), load(task)
    require(first.fingerprint == second.fingerprint, "two loads with the same seed have different fingerprints")
    parts = ("train", "validation", "test")
    same = all(torch.equal(getattr(first, part), getattr(second, part)) for part in parts)
    require(same, "two loads with the same seed split differently")


TASK_CHECKS = (
    check_task_defaults_are_a_configuration,
    check_task_references_have_a_source,
    check_task_splits_are_apart,
    check_task_is_seeded,
    *COMMON,
)


def check_task(task: Task, expected_failures: Mapping[str, str] | None = None) -> list[CheckResult]:
    """Run every check of a task. `expected_failures`: check → reason."""
    return run_checks(TASK_CHECKS, (task,), expected_failures)


def load(task: Task) -> DataSet:
    """Load the task's data in the space of its defaults; raise `NotApplicable` if that fails."""
    space: Any = registry_of(task).create("output", task.defaults()["output"], path="output")
    try:
        return task.load(space, Context(SEED))
    except DataError as error:
        raise NotApplicable(f"the data cannot be loaded: {error}") from error


@functools.lru_cache(maxsize=1)
def loaded(task: Task) -> DataSet:
    """The data of the task that is being checked, loaded once."""
    return load(task)
