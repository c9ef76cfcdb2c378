"""The direction of imports, and what may be imported when."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "rdkit", "sklearn", "numba", "networkx", "tokenizers", "scipy")


def test_the_contracts_between_packages_and_layers_hold():
    program = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run(
        [program, "--no-cache", "--config", ROOT / "pyproject.toml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "0 broken" in result.stdout


def test_there_is_a_contract_for_each_promise():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    core = next(c for c in contracts if c.get("source_modules") == ["ele_core"])
    assert {"ele_graphs", "ele_sequences", "rdkit"} <= set(core["forbidden_modules"])
    assert any(c["type"] == "independence" and set(c["modules"]) == {"ele_graphs", "ele_sequences"} for c in contracts)
    layers = [layer for c in contracts for layer in c.get("layers", [])]
    placed = {name.strip() for layer in layers for name in re.split(r"[|:]", layer)}
    modules = {
        path.stem for path in (ROOT / "ele_core").iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()
    }
    assert placed == modules - {"__init__", "__main__", "plugin"}


@pytest.mark.parametrize(
    "module", ["ele_core", "ele_core.plugin", "ele_graphs.plugin", "ele_sequences.plugin", "ele_core.cli"]
)
def test_a_module_that_is_read_to_list_plugins_imports_nothing_heavy(run_python, module):
    program = f"import sys, {module}; print(*sorted(set({HEAVY}) & set(sys.modules)))"
    assert run_python("-W", "error", "-c", program).stdout.strip() == ""


def test_every_public_name_can_be_imported_and_is_documented():
    import ele_core

    assert sorted(ele_core.__all__) == ele_core.__all__
    assert dir(ele_core) == ele_core.__all__
    for name in ele_core.__all__:
        value = getattr(ele_core, name)
        assert isinstance(value, str) or value.__doc__, name
    with pytest.raises(AttributeError, match="No ele_core attribute nothing"):
        ele_core.nothing  # noqa: B018


def test_the_version_is_the_one_of_the_package():
    import ele_core

    assert ele_core.__version__ == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_a_module_says_what_it_is_for():
    for package in ("ele_core", "ele_graphs", "ele_sequences"):
        for file in (ROOT / package).rglob("*.py"):
            assert file.read_text().startswith('"""'), file
