"""What `ele new-plugin` writes, and what it refuses, with nothing half-written."""

import ast
import importlib
import os
import subprocess
import sys
import tomllib

import pytest
from click.testing import CliRunner
from pages import ROOT

from ele_core.cli import cli
from ele_core.cli.plugins import new_plugin
from ele_core.errors import ConfigError, PluginError
from ele_core.runtime.context import Context
from ele_core.scaffold import COMPONENT, PARTS, SPACE_AND_TASK, check_name, name_forms, plugin_files, write_plugin


@pytest.mark.parametrize("kind", PARTS)
@pytest.mark.parametrize("name", ["colours", "traffic-lights", "a1-b2"])
def test_every_file_is_whole_and_names_the_plugin(name, kind):
    written = plugin_files(name, kind)
    module = name_forms(name)["module"]
    assert len(written) == len(SPACE_AND_TASK if kind == "output" else COMPONENT)
    assert not [path for path, text in written.items() if "{{" in text or "{%" in text]
    project = tomllib.loads(written["pyproject.toml"])
    assert project["project"]["name"] == f"ele-{name}"
    assert project["project"]["entry-points"]["ele"] == {name: f"{module}.plugin"}
    for path, text in written.items():
        if path.endswith(".py"):
            assert ast.get_docstring(ast.parse(text)), path


def test_the_command_offers_every_kind():
    (kind,) = (each for each in new_plugin.params if each.name == "kind")
    assert set(kind.type.choices) == set(PARTS)


@pytest.mark.parametrize("name", ["recipes", "traffic-lights"])
def test_the_text_fits_the_name(name):
    written = plugin_files(name)
    text = "\n".join(written.values()).lower()
    assert "colour" not in text
    assert "red " not in text
    words = name.replace("-", " ")
    assert f"replace by your {words}" in " ".join(written["README.md"].split())
    assert f"Replace them by your {words}." in written[f"src/{name_forms(name)['module']}/space.py"]


@pytest.mark.parametrize("name", ["", "Colours", "my colours", "1st", "a--b", "a-", "../x", "a_b", "é", "x" * 41])
def test_a_bad_name_is_one_sentence_with_a_good_one(name):
    with pytest.raises(ConfigError, match="lower-case letters, digits and single hyphens") as caught:
        check_name(name)
    good = caught.value.fix.split("'")[1]
    check_name(good)


@pytest.mark.parametrize("name", ["core", "graphs", "sequence", "number-words"])
def test_a_name_that_an_installed_plugin_has_is_refused_with_its_owner(name):
    with pytest.raises(PluginError, match=r"taken by the plugin \w+ \(explicit-loss-embedding "):
        check_name(name)


def test_a_package_that_can_be_imported_already_is_not_shadowed(tmp_path, monkeypatch):
    (tmp_path / "ele_shapes.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(PluginError, match="taken by the package ele_shapes"):
        check_name("shapes")


@pytest.mark.parametrize("kind", ["folder", "file", "broken link"])
def test_what_is_there_already_is_refused_and_left_as_it_was(tmp_path, kind):
    target = tmp_path / "ele-colours"
    {
        "folder": target.mkdir,
        "file": target.touch,
        "broken link": lambda: target.symlink_to(tmp_path / "nowhere"),
    }[kind]()
    with pytest.raises(ConfigError, match="not empty" if kind == "folder" else "there is a file of this name"):
        write_plugin("colours", target)
    assert list(tmp_path.iterdir()) == [target]
    assert not target.is_dir() or not list(target.iterdir())


def test_nothing_is_left_when_writing_fails(tmp_path, monkeypatch):
    monkeypatch.setattr("ele_core.scaffold.plugin_files", lambda *_: {"a": "text", "a/b": "a is no folder"})
    with pytest.raises(OSError, match="a"):
        write_plugin("colours", tmp_path / "new")
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_what_it_wrote_and_what_to_type_next(tmp_path):
    target = tmp_path / "mine"
    result = CliRunner().invoke(cli, ["new-plugin", "colours", "-o", str(target)], catch_exceptions=False)
    assert result.exit_code == 0
    for path in plugin_files("colours"):
        assert (target / path).is_file()
        assert path in result.output
    for command in (f"pip install -e {target}", "ele check colours", "ele train colours", f"pytest {target}"):
        assert command in result.output


# -- the code that is written -------------------------------------------------------------------------------------

LONG = "abcdefghij" * 4


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """The package of each kind, under a short and a long name."""
    folder = tmp_path_factory.mktemp("packages")
    for kind in PARTS:
        for name in (f"z{kind}", f"{LONG[: 39 - len(kind)]}-{kind}"):
            write_plugin(name, folder / name, kind)
    return folder


def test_the_code_is_formatted_whatever_the_name(packages):
    for command in (["format", "--check"], ["check", "--select", "E,F,I,W"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--no-cache", packages],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.pages
def test_the_code_and_its_tests_are_typed(packages, tmp_path):
    settings = tomllib.loads((packages / "zoutput" / "pyproject.toml").read_text())["tool"]["mypy"]
    assert settings["strict"]
    lines = ["[mypy]", "strict = true", f"plugins = {settings['plugins'][0]}", "untyped_calls_exclude = torch"]
    lines += ["[mypy-ele_core.*,ele_sequences.*,ele_graphs.*]", "follow_imports = silent", "ignore_errors = true"]
    (tmp_path / "mypy.ini").write_text("\n".join(lines))
    parts = [packages / f"z{kind}" for kind in PARTS]
    files = [str(path) for part in parts for path in (*part.glob("src/*/*.py"), *part.glob("tests/*.py"))]
    paths = os.pathsep.join([str(ROOT), *(str(part / "src") for part in parts)])
    options = ["--config-file", str(tmp_path / "mypy.ini"), "--cache-dir", str(tmp_path), "--explicit-package-bases"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *files],
        env={**os.environ, "MYPYPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_package_says_that_it_is_typed():
    for kind in PARTS:
        written = plugin_files("colours", kind)
        assert written["src/ele_colours/py.typed"] == ""
        assert tomllib.loads(written["pyproject.toml"])["tool"]["setuptools"]["package-data"] == {"*": ["py.typed"]}


SUBSETS = '''
"""Another space in place of the rows: sets of numbers."""

from dataclasses import dataclass

import torch
from ele_core import Box, ComponentConfig, OutputSpace, Tensors

SMALL = {"size": 6}


@dataclass(frozen=True, eq=False)
class Sets(Tensors):
    chosen: torch.Tensor


class ReplacedSpace(OutputSpace[frozenset, Sets]):
    """Sets of numbers."""

    Batch = Sets

    class Config(ComponentConfig):
        """The size."""

        size: int = 4
        """How many numbers there are."""

    @property
    def geometry(self):
        return {"chosen": Box(self.config.size)}

    def pack(self, objects):
        rows = [[i in chosen for i in range(self.config.size)] for chosen in objects]
        return Sets(torch.tensor(rows, dtype=torch.int8).reshape(len(rows), self.config.size))

    def unpack(self, batch):
        return [frozenset(i for i, bit in enumerate(row) if bit) for row in batch.chosen.tolist()]

    def augment(self, batch, generator):
        return batch

    @classmethod
    def parse(cls, text):
        return frozenset(map(int, text.split()))

    @classmethod
    def format(cls, obj):
        return " ".join(map(str, sorted(obj)))

    @classmethod
    def infer(cls, objects, options):
        return cls.Config(**options)

    def examples(self):
        return [frozenset({0}), frozenset({1, 2})]
'''


def test_a_space_that_is_replaced_does_not_break_its_task_and_tests(tmp_path, monkeypatch):
    write_plugin("replaced", tmp_path / "new")
    (tmp_path / "new" / "src" / "ele_replaced" / "space.py").write_text(SUBSETS)
    monkeypatch.syspath_prepend(tmp_path / "new" / "src")
    monkeypatch.syspath_prepend(tmp_path / "new" / "tests")
    tests, task = importlib.import_module("test_replaced"), importlib.import_module("ele_replaced.task")
    for name in ("test_examples_are_read_from_their_texts", "test_examples_are_drawn"):
        getattr(tests, name)()
    space = tests.small_space()
    assert task.ReplacedTask.defaults()["output"] == {"name": "replaced", "size": 6}
    data = tests.TestTask().task().load(space, Context(0))
    texts = [space.format(obj) for obj in space.unpack(data.outputs)]
    assert len(set(texts)) == len(data) > 50
    assert data.inputs[0] == task.describe(texts[0])


def test_what_features_are_for_is_said():
    assert (
        "`features(self, batch: Rows) -> SparseRows` counts the parts"
        in plugin_files("colours")["src/ele_colours/space.py"]
    )
