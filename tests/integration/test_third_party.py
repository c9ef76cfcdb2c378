"""The example plugin under docs, installed as a user would install it and run in processes of its own."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.pages

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "ele-rankings"
TINY = [
    *("--set", "task.size=300", "--set", "surrogate.training.epochs=4", "--set", "regressor.training.epochs=30"),
    *("--set", "surrogate.training.batch_size=64", "--set", "regressor.training.learning_rate=0.005"),
    *("--set", "surrogate.dim=16", "--set", "surrogate.encoder.width=32"),
]

Ele = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the example, and nothing else."""
    folder = tmp_path_factory.mktemp("third-party")
    # setuptools writes beside the sources, which are not ours to touch.
    source = shutil.copytree(EXAMPLE, folder / "source", ignore=shutil.ignore_patterns("*.egg-info", "build", "__*"))
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "--no-index"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", folder / "site", source]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return folder / "site"


@pytest.fixture(scope="module")
def ele(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Ele:
    """`ele("train", …)` in one folder for this module, where the installed copy of the plugin comes first."""
    folder = tmp_path_factory.mktemp("work")

    def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-W", "error", "-m", "ele_core", *arguments]
        result = subprocess.run(
            command, input=stdin, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stderr
        return result

    return run


def test_the_plugin_is_listed_with_its_distribution_and_version(ele):
    listed = json.loads(ele("plugins", "--json").stdout)["plugins"]
    (rankings,) = (plugin for plugin in listed if plugin["name"] == "rankings")
    assert (rankings["distribution"], rankings["version"]) == ("ele-rankings", "0.1.0")
    assert rankings["status"] == "ok"
    assert {(record["kind"], record["name"]) for record in rankings["records"]} == {
        ("output", "ranking"),
        ("task", "sort-by-value"),
    }


def test_it_trains_evaluates_and_predicts_with_no_change_in_core(ele):
    trained = ele("train", "sort-by-value", *TINY, "-o", "run")
    assert "Next: ele evaluate run" in trained.stdout
    metrics = json.loads(ele("evaluate", "run", "--json").stdout)
    assert metrics["discordant"] < 0.3, "half the pairs would be in the wrong order by chance"
    descent = json.loads(ele("evaluate", "run", "--decoder", "pgd", "--limit", "5", "--oracle", "--json").stdout)
    assert 0 <= descent["exact"] <= 1
    rows = list(csv.DictReader(io.StringIO(ele("predict", "run", "-", stdin="0.9 0.1 0.5 0.3 0.7\n1 2\n").stdout)))
    assert sorted(rows[0]["prediction"].split(" > ")) == list("abcde")
    assert "2 numbers instead of 5" in rows[1]["status"]


def test_the_code_that_runs_is_the_installed_copy(installed):
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    program = "import ele_rankings; print(ele_rankings.__file__)"
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=installed, capture_output=True, text=True, check=True
    )
    assert Path(result.stdout.strip()).parent == installed


def test_it_keeps_every_law_of_its_kinds(ele):
    (space,) = json.loads(ele("check", "ranking", "--json").stdout)["components"]
    reasons = {r["name"]: r["explanation"] for r in space["results"] if r["status"] == "skipped"}
    assert reasons.keys() == {
        "check_properties_give_a_number_a_row",
        "check_constraints_judge_structures",
        "check_counterexamples_are_refused",
        "check_plugin_module_is_light",
    }
    assert "fine for a plugin of one file" in reasons["check_plugin_module_is_light"]
    assert space["counts"]["passed"] == space["counts"]["checks"] - len(reasons)
    assert "9 passed, 2 skipped" in ele("check", "sort-by-value", "--set", "size=100").stdout
