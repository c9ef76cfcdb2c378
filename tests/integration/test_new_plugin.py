"""The package that `ele new-plugin` writes, installed and used with no edit, in processes of its own."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.pages

NAME = "traffic-lights"

Python = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Python:
    """`python("-m", …)` in a folder and an environment of this module's own, where pip has installed the package."""
    folder = tmp_path_factory.mktemp("author")
    program = layered_environment(folder / "environment")

    def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        result = subprocess.run(
            [program, *arguments], input=stdin, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stdout + result.stderr
        return result

    run("-W", "error", "-m", "ele_core", "new-plugin", NAME)
    options = ["--quiet", "--no-build-isolation", "--disable-pip-version-check", "--no-index"]
    run("-m", "pip", "install", *options, "-e", f"ele-{NAME}")
    return run


def layered_environment(folder: Path) -> Path:
    """A virtual environment that sees all that is installed here, and into which more can be installed."""
    venv.create(folder, with_pip=False, symlinks=os.name != "nt")
    paths = {"base": str(folder), "platbase": str(folder)}
    below = sysconfig.get_paths()["purelib"]
    layer = Path(sysconfig.get_path("purelib", "venv", paths)) / "layer.pth"
    layer.write_text(f"import site; site.addsitedir({below!r})\n")
    return Path(sysconfig.get_path("scripts", "venv", paths)) / Path(sys.executable).name


def test_it_is_listed_under_its_name(python):
    listed = json.loads(python("-W", "error", "-m", "ele_core", "plugins", "--json").stdout)["plugins"]
    (plugin,) = (plugin for plugin in listed if plugin["name"] == NAME)
    assert (plugin["distribution"], plugin["status"]) == (f"ele-{NAME}", "ok")
    assert {(record["kind"], record["name"]) for record in plugin["records"]} == {("output", NAME), ("task", NAME)}


def test_its_own_tests_pass_warnings_being_errors(python):
    done = python("-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", f"ele-{NAME}")
    assert "passed" in done.stdout
    assert "failed" not in done.stdout


def test_it_keeps_the_contract_by_the_command(python):
    assert NAME in python("-m", "ele_core", "check", NAME).stdout


def test_it_trains_and_builds_rows_that_were_never_seen(python):
    trained = python("-W", "error", "-m", "ele_core", "train", NAME, "-o", "run")
    assert "Next: ele evaluate run" in trained.stdout
    metrics = json.loads(python("-m", "ele_core", "evaluate", "run", "--json").stdout)
    assert metrics["unseen"] == 1
    assert metrics["exact"] > 0.8
    words = "two a then one b then one c"
    (row,) = csv.DictReader(io.StringIO(python("-m", "ele_core", "predict", "run", "-", stdin=words + "\n").stdout))
    assert (row["prediction"], row["status"]) == ("a a b c", "ok")


def test_its_name_is_then_taken(python):
    program = f"from ele_core.scaffold import name_owner; print(name_owner({NAME!r}))"
    assert f"ele-{NAME} 0.1.0" in python("-c", program).stdout
