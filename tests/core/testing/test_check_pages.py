"""What the page on checking a plugin shows is what happens."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ele_core.cli import cli
from ele_core.testing.choosing import SUITES

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "how-to" / "check-a-plugin.md"
sys.path.insert(0, str(ROOT / "tests" / "project"))

from pages import blocks, run_python  # noqa: E402  # a helper of the neighbouring folder


def shown(text):
    """Without the spaces that rich puts at the ends of lines."""
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def test_the_output_of_the_command_is_the_one_on_the_page():
    command = blocks(PAGE, "console")[0].code.removeprefix("$ ele ")
    result = CliRunner().invoke(cli, shlex.split(command), env={"COLUMNS": "100"}, catch_exceptions=False)
    assert result.exit_code == 0
    assert shown(result.stdout) == shown(blocks(PAGE, "text")[0].code)


@pytest.mark.pages
def test_the_python_of_the_page_runs_and_prints_what_it_shows(tmp_path):
    done = run_python(PAGE, tmp_path)
    assert done.returncode == 0, done.stderr
    assert shown(done.stdout) == shown(blocks(PAGE, "text")[1].code)


def test_the_reference_has_a_section_for_every_kind():
    page = (ROOT / "docs" / "reference" / "testing.md").read_text(encoding="utf-8")
    assert all(f"```{{laws}} {kind}\n" in page for kind in (*SUITES, "every"))
    assert all(check.__doc__ for checks in SUITES.values() for check in checks)
