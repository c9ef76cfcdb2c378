"""What `ele new-plugin` writes, and what it refuses, with nothing half-written."""

import ast
import tomllib

import pytest
from click.testing import CliRunner

from ele_core.cli import cli
from ele_core.cli.plugins import KINDS
from ele_core.errors import ConfigError, PluginError
from ele_core.scaffold import COMPONENT, PARTS, SPACE_AND_TASK, check_name, name_forms, plugin_files, write_plugin


@pytest.mark.parametrize("kind", KINDS)
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
    assert set(KINDS) == set(PARTS)


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
    with pytest.raises(ConfigError, match="not empty"):
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
