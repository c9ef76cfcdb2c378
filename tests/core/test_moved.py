"""Modules of 0.1.0 under their old names."""

import warnings
from importlib import import_module
from importlib.util import find_spec

import pytest

from ele_core.moved import MOVED, homes_of

PUBLIC = [
    ("ele_core.context", "Context"),
    ("ele_core.data", "DataSet"),
    ("ele_core.data", "pack_all"),
    ("ele_core.data", "Rejected"),
    ("ele_core.decoding.candidates", "CandidatesDecoder"),
    ("ele_core.files", "replace_folder"),
    ("ele_core.inputs.text", "TextInput"),
    ("ele_core.limits", "MOST_LAYERS"),
    ("ele_core.ranges", "Range"),
    ("ele_core.runs", "Run"),
    ("ele_core.sets", "Box"),
    ("ele_core.sparse", "SparseRows"),
    ("ele_core.study", "Table"),
    ("ele_core.surrogates.kernel", "SketchedKernelSurrogate"),
    ("ele_core.tensors", "Tensors"),
]
PRIVATE = [
    ("ele_core.display", "table", "ele_core.display.notebook"),
    ("ele_core.files", "locked", "ele_core.files.locks"),
    ("ele_core.inputs.pooling", "pool", "ele_core.components.backbones.pooling"),
    ("ele_core.model", "Model", "ele_core.model.model"),
    ("ele_core.plugins.options", "resolve", "ele_core.config.resolve"),
    ("ele_core.reproduction", "make_plan", "ele_core.experiments.reproduce"),
    ("ele_core.resuming", "changes", "ele_core.config.diff"),
]


@pytest.mark.parametrize(
    ("old", "name", "new"), [*((old, name, "ele_core") for old, name in PUBLIC), *PRIVATE], ids=lambda value: value
)
def test_an_old_import_gives_the_same_object_and_says_what_to_write(old, name, new):
    with pytest.warns(DeprecationWarning, match=f"^`{name}` has moved from {old}: write `from {new} import {name}`.$"):
        found = getattr(import_module(old), name)
    assert found is getattr(import_module(new), name)


@pytest.mark.parametrize("old", MOVED)
def test_every_old_module_can_be_imported_and_its_new_homes_are_there(old):
    module = import_module(f"ele_core.{old}")
    assert module.__name__ == f"ele_core.{old}"
    assert all(find_spec(home) for home in homes_of(module.__name__))


def test_the_warning_points_at_the_import():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        exec(compile("from ele_core.tensors import Tensors", "a plugin", "exec"), {})
    assert {warning.filename for warning in seen} == {"a plugin"}


def test_a_submodule_is_not_taken_for_an_old_name():
    with warnings.catch_warnings(action="error"):
        from ele_core.model import evaluate
        from ele_core.runs import training
    assert [evaluate.__name__, training.__name__] == ["ele_core.model.evaluate", "ele_core.runs.training"]


@pytest.mark.parametrize("module", ["ele_core.nothing", "ele_core.decoding.nothing", "ele_core.data.nothing"])
def test_what_never_was_there_is_not_found(module):
    with pytest.raises(ModuleNotFoundError, match=f"No module named '{module}'"):
        import_module(module)


@pytest.mark.parametrize("module", ["ele_core.context", "ele_core.data"])
def test_a_name_that_never_was_there_is_not_found(module):
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'nothing'"):
        import_module(module).nothing  # noqa: B018
