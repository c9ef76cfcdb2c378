"""A plain install, without the packages of any extra: what works, and what says how to install the rest."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest
from ele_command import Outcome
from pages import ROOT

from ele_core.extras import how_to_install

pytestmark = pytest.mark.pages

EXTRAS = ("rdkit", "numba", "matplotlib", "sklearn", "scipy", "tokenizers", "rich", "optuna", "tensorboard", "ot")
"""The modules that a plain install does not bring."""
CHEMISTRY = ("rdkit", "numba")
HIDE = """
from importlib.machinery import PathFinder

find_spec = PathFinder.find_spec
PathFinder.find_spec = staticmethod(lambda name, *rest: None if name in {names!r} else find_spec(name, *rest))
"""
with contextlib.chdir("/"):  # the commands do not run in the clone
    INSTALL = how_to_install("{}")
TINY = [
    *("--set", "task.size=300", "--set", "task.test=30", "--set", "task.validation=30", "--set", "surrogate.dim=8"),
    *("--set", "surrogate.training.epochs=1", "--set", "regressor.training.epochs=1"),
    *("--set", "regressor.backbone.width=16", "--set", "surrogate.encoder.width=8"),
]


COMMANDS = {
    "train": ["train", "number-words", "-o", "run", *TINY],
    "evaluate": ["evaluate", "run", "--json"],
    "predict": ["predict", "run", "inputs.txt"],
    "sweep": ["sweep", "run", "--share", "1", "--limit", "3", "--decoder", "candidates"],
    "plugins": ["plugins"],
    "plugins as JSON": ["plugins", "--json"],
    "task": ["train", "smi2mol"],
    "space": ["init", "molecule"],
    "tune": ["tune", "number-words"],
    "log": ["train", "number-words", "--log", "tensorboard"],
    "pattern": ["train", "number-words", "--set", "input.pattern='''\\p{L}+'''"],
}
"""Commands that are run one after the other in one process, in which no package of an extra can be imported."""
ALL = """
import contextlib, io, json, sys
from ele_core.cli import main

outcomes = {}
for name, words in json.loads(sys.argv[1]).items():
    sys.argv = ["ele", *words]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as done:
            code = done.code
    outcomes[name] = [code, out.getvalue(), err.getvalue()]
print(json.dumps(outcomes))
"""


def start(folder: Path, *arguments: str, hidden: tuple[str, ...] = EXTRAS) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own in which some modules cannot be imported."""
    (folder / "sitecustomize.py").write_text(HIDE.format(names=hidden))
    paths = [str(folder), str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def outcomes(folder: Path, commands: dict[str, list[str]], hidden: tuple[str, ...]) -> dict[str, Outcome]:
    """Run commands of `ele` one after the other in one process in which some modules cannot be imported."""
    (folder / "inputs.txt").write_text("forty-two\n")
    done = start(folder, "-c", ALL, json.dumps(commands), hidden=hidden)
    assert done.returncode == 0, done.stderr
    return {name: Outcome(*outcome) for name, outcome in json.loads(done.stdout).items()}


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """The outcome of each of `COMMANDS`."""
    return outcomes(tmp_path_factory.mktemp("light"), COMMANDS, EXTRAS)


def test_a_task_trains_is_measured_reported_swept_and_predicts(light):
    assert "Report: run/report.html" in light["train"].out, light["train"].err
    assert json.loads(light["evaluate"].out)["examples"] == 30
    assert "forty-two," in light["predict"].out
    assert light["sweep"].code == 0
    assert "candidates" in light["sweep"].out
    assert "no figure was drawn: the figure needs the package matplotlib" in light["sweep"].err
    assert INSTALL.format("figures") in light["sweep"].err


def test_plugins_say_in_one_sentence_what_is_not_available(light):
    assert "graphs (explicit-loss-embedding" in light["plugins"].out
    assert light["plugins"].out.count("Not available: it needs rdkit, which is not installed.") == 7
    records = json.loads(light["plugins as JSON"].out)["plugins"]
    missing = {r["name"]: r["unavailable"] for plugin in records for r in plugin["records"] if r["unavailable"]}
    assert missing.keys() == {"molecule", "smiles", "fingerprint", "smi2mol", "moses", "fp2mol", "ms2mol"}
    assert missing["molecule"] == f"needs rdkit, which is not installed. {INSTALL.format('molecules')}"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("task", ["the task 'smi2mol' needs rdkit", INSTALL.format("molecules")]),
        ("space", ["the output space 'molecule' needs rdkit", INSTALL.format("molecules")]),
        ("tune", ["tuning needs the package optuna", INSTALL.format("tune")]),
        ("log", ["--log needs the package tensorboard", INSTALL.format("tensorboard")]),
        ("pattern", ["the pattern '\\p{L}+' needs the package tokenizers", INSTALL.format("tokenizers")]),
    ],
)
def test_what_needs_an_extra_names_it_without_a_traceback(light, name, words):
    assert light[name].code in (1, 2)
    assert "Traceback" not in light[name].err
    for word in words:
        assert word in light[name].err


def test_graphs_are_compared_without_numba_with_a_warning(tmp_path):
    program = (
        "from types import SimpleNamespace as G; import torch\n"
        "from ele_graphs.ged import edit_distances\n"
        "a = G(nodes=torch.tensor([[1, 2, 0]]), edges=torch.zeros(1, 3, 3, dtype=torch.long))\n"
        "b = G(nodes=torch.tensor([[1, 1, 2]]), edges=torch.zeros(1, 3, 3, dtype=torch.long))\n"
        "print(edit_distances(a, b).tolist(), edit_distances(b, b).tolist())"
    )
    outcome = start(tmp_path, "-c", program)
    assert outcome.stdout == "[1] [0]\n"
    assert outcome.stderr.count("numba is not installed") == 1
    assert INSTALL.format("graphs") in outcome.stderr


def test_the_command_line_prints_a_warning_as_one_line(tmp_path):
    program = "import sys; sys.argv = ['ele', 'plugins']; import ele_core.cli as c, warnings\n"
    program += "c.cli.commands['plugins'].callback = lambda **_: warnings.warn('slow', stacklevel=1)\nc.main()"
    assert start(tmp_path, "-c", program).stderr == "Warning: slow\n"


def test_without_chemistry_general_graphs_are_checked_and_molecules_name_the_extra(tmp_path):
    commands = {"graphs": ["check", "padded-graph", "--json"], "molecules": ["check", "molecule"]}
    checked = outcomes(tmp_path, commands, CHEMISTRY)
    assert json.loads(checked["graphs"].out)["components"][0]["counts"].get("failed", 0) == 0
    assert checked["graphs"].code == 0
    assert checked["molecules"].code == 1
    assert checked["molecules"].err == (
        f"Error: the output space 'molecule' needs rdkit, which is not installed. {INSTALL.format('molecules')}\n"
    )


def test_importing_molecules_from_python_names_the_extra(tmp_path):
    outcome = start(tmp_path, "-c", "from ele_graphs.molecules.reader import read")
    assert outcome.stderr.rstrip().endswith(INSTALL.format("molecules"))


def test_the_dependencies_are_those_of_a_plain_install():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    plain = {re.split(r"[>=<]", line)[0] for line in project["dependencies"]}
    heavy = {"rdkit", "numba", "matplotlib", "scikit-learn", "scipy", "tokenizers", "rich"}
    assert plain.isdisjoint(heavy)
    brought = {re.split(r"[>=<;]", line)[0] for lines in project["optional-dependencies"].values() for line in lines}
    assert heavy - {"rich"} <= brought
    assert requires("torch") is not None
