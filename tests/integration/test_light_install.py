"""A plain install, without the packages of any extra: what works, and what says how to install the rest."""

from __future__ import annotations

import json
import re
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest

EXTRAS = ("rdkit", "numba", "matplotlib", "sklearn", "scipy", "tokenizers", "rich", "optuna", "tensorboard", "ot")
"""The modules that a plain install does not bring."""
CHEMISTRY = ("rdkit", "numba")
HIDE = """
from importlib.machinery import PathFinder

find_spec = PathFinder.find_spec
PathFinder.find_spec = staticmethod(lambda name, *rest: None if name in {names!r} else find_spec(name, *rest))
"""
INSTALL = "Install it with: pip install 'explicit-loss-embedding[{}]'"
TINY = [
    *("--set", "task.size=300", "--set", "task.test=30", "--set", "task.validation=30", "--set", "surrogate.dim=8"),
    *("--set", "surrogate.training.epochs=1", "--set", "regressor.training.epochs=1"),
    *("--set", "regressor.backbone.width=16", "--set", "surrogate.encoder.width=8"),
]


@pytest.fixture
def light(run_python, tmp_path):
    """Run Python in a separate process in which the modules of the extras cannot be imported."""
    folder = tmp_path / "hidden"

    def run(*arguments: str, hidden: tuple[str, ...] = EXTRAS, **options):
        import os

        folder.mkdir(exist_ok=True)
        (folder / "sitecustomize.py").write_text(HIDE.format(names=hidden))
        paths = [str(folder), str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
        return run_python(*arguments, environment={"PYTHONPATH": os.pathsep.join(filter(None, paths))}, **options)

    return run


def test_a_task_trains_is_measured_reported_swept_and_predicts(light, tmp_path):
    trained = light("-m", "ele_core", "train", "number-words", "-o", "run", *TINY)
    assert "Report: run/report.html" in trained.stdout
    measured = light("-m", "ele_core", "evaluate", "run", "--json")
    assert json.loads(measured.stdout)["examples"] == 30
    predicted = light("-m", "ele_core", "predict", "run", "-", stdin="forty-two\n")
    assert "forty-two," in predicted.stdout
    swept = light("-m", "ele_core", "sweep", "run", "--share", "1", "--limit", "3", "--decoder", "candidates")
    assert "candidates" in swept.stdout
    assert "no figure was drawn: the figure needs the package matplotlib" in swept.stderr
    assert INSTALL.format("figures") in swept.stderr
    assert (tmp_path / "run" / "sweep" / "sweep.json").exists()


def test_plugins_say_in_one_sentence_what_is_not_available(light):
    listed = light("-m", "ele_core", "plugins")
    assert "graphs (explicit-loss-embedding" in listed.stdout
    assert listed.stdout.count("Not available: it needs rdkit, which is not installed.") == 3
    records = json.loads(light("-m", "ele_core", "plugins", "--json").stdout)["plugins"]
    missing = {r["name"]: r["unavailable"] for plugin in records for r in plugin["records"] if r["unavailable"]}
    assert missing.keys() == {"molecule", "smiles", "smi2mol"}
    assert missing["molecule"] == f"needs rdkit, which is not installed. {INSTALL.format('molecules')}"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["train", "smi2mol"], ["the task 'smi2mol' needs rdkit", INSTALL.format("molecules")]),
        (["init", "molecule"], ["the output space 'molecule' needs rdkit", INSTALL.format("molecules")]),
        (["tune", "number-words"], ["tuning needs the package optuna", INSTALL.format("tune")]),
        (["train", "number-words", "--log", "tensorboard"], ["needs the package tensorboard"]),
        (
            ["train", "number-words", "--set", "input.pattern='''\\p{L}+'''"],
            ["the pattern '\\p{L}+' needs the package tokenizers", INSTALL.format("tokenizers")],
        ),
    ],
    ids=lambda value: " ".join(value[:2]),
)
def test_what_needs_an_extra_names_it_without_a_traceback(light, command, words):
    outcome = light("-m", "ele_core", *command, check=False)
    assert outcome.returncode in (1, 2)
    assert "Traceback" not in outcome.stderr
    for word in words:
        assert word in outcome.stderr


def test_graphs_are_compared_without_numba_with_a_warning(light):
    program = (
        "from types import SimpleNamespace as G; import torch\n"
        "from ele_graphs.ged import edit_distances\n"
        "a = G(nodes=torch.tensor([[1, 2, 0]]), edges=torch.zeros(1, 3, 3, dtype=torch.long))\n"
        "b = G(nodes=torch.tensor([[1, 1, 2]]), edges=torch.zeros(1, 3, 3, dtype=torch.long))\n"
        "print(edit_distances(a, b).tolist(), edit_distances(b, b).tolist())"
    )
    outcome = light("-c", program)
    assert outcome.stdout == "[1] [0]\n"
    assert outcome.stderr.count("numba is not installed") == 1
    assert INSTALL.format("graphs") in outcome.stderr


def test_the_command_line_prints_the_warning_as_one_line(light):
    program = "import sys; sys.argv = ['ele', 'plugins']; import ele_core.cli as c, warnings\n"
    program += "c.cli.commands['plugins'].callback = lambda **_: warnings.warn('slow', stacklevel=1)\nc.main()"
    assert light("-c", program).stderr == "Warning: slow\n"


def test_general_graphs_pass_their_checks_without_rdkit_and_numba(light):
    outcome = light("-m", "ele_core", "check", "padded-graph", "--json", hidden=CHEMISTRY)
    assert json.loads(outcome.stdout)["components"][0]["counts"].get("failed", 0) == 0


def test_checking_what_is_not_available_names_the_extra(light):
    outcome = light("-m", "ele_core", "check", "molecule", hidden=CHEMISTRY, check=False)
    assert outcome.returncode == 1
    assert outcome.stderr == (
        f"Error: the output space 'molecule' needs rdkit, which is not installed. {INSTALL.format('molecules')}\n"
    )


def test_importing_molecules_from_python_names_the_extra(light):
    outcome = light("-c", "from ele_graphs.molecules.reader import read", check=False)
    assert outcome.stderr.rstrip().endswith("Install it with: pip install 'explicit-loss-embedding[molecules]'")


def test_the_dependencies_are_those_of_a_plain_install():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    plain = {re.split(r"[>=<]", line)[0] for line in project["dependencies"]}
    heavy = {"rdkit", "numba", "matplotlib", "scikit-learn", "scipy", "tokenizers", "rich"}
    assert plain.isdisjoint(heavy)
    brought = {re.split(r"[>=<;]", line)[0] for lines in project["optional-dependencies"].values() for line in lines}
    assert heavy - {"rich"} <= brought
    assert requires("torch") is not None
