"""The README's Python runs as it stands there, and its commands exist."""

import re

import pytest
from pages import ROOT, blocks, ele_commands, run_python, wrong_with

from ele_core.cli import cli

README = ROOT / "README.md"


def test_the_readme_shows_python():
    assert blocks(README, "python"), "README.md has no ```python block: show how ELE is used"


@pytest.mark.pages
def test_python_of_the_readme_runs_in_order(tmp_path):
    done = run_python(README, tmp_path)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


def test_the_readme_names_commands_and_options_that_exist():
    found = list(ele_commands(README))
    assert found, "README.md has no ```console block with an `ele` command"
    wrong = [f"line {line}: {problem}" for line, words in found if (problem := wrong_with(cli, words))]
    assert not wrong, wrong


def test_the_readme_is_short_with_one_picture_and_one_table():
    text = README.read_text(encoding="utf-8")
    assert len(text.split()) <= 900, "README.md: move something to a page of docs, or drop a row of the table"
    assert len(re.findall(r"^!\[", text, re.MULTILINE)) == 1
    assert len(re.findall(r"^\| ---", text, re.MULTILINE)) == 1
