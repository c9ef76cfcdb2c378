"""The public surface: docs, scaffold and examples import public names, our own plugins also documented internals."""

import ast
import importlib
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from pages import ROOT, blocks

import ele_core
import ele_core.testing

PUBLIC = {
    "ele_core": {*ele_core.__all__, "__version__"},
    "ele_core.testing": set(ele_core.testing.__all__),
}
IMPORT = re.compile(r"^\s*((?:from|import) ele_core\b(?:[^\n(]*\([^)]*\)|.*))$", re.MULTILINE)
DIRECTIVE = re.compile(r"^\.\. (?:auto|py:)\w+:: (?:ele_core\.)?([\w.]+)$", re.MULTILINE)
API = ROOT / "docs" / "reference" / "api.md"
UPGRADE = ROOT / "docs" / "reference" / "upgrade.md"
MOST_NAMES = 63

PLUGINS = [*ROOT.glob("ele_graphs/**/*.py"), *ROOT.glob("ele_sequences/**/*.py")]
EXAMPLES = [*ROOT.glob("docs/examples/**/*.py"), *ROOT.glob("docs/notebooks/*.py")]
NOTEBOOKS = sorted(ROOT.glob("docs/**/*.ipynb"))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]
TEMPLATES = sorted(ROOT.glob("ele_core/scaffold/templates/*.jinja"))
CORE = sorted(ROOT.glob("ele_core/**/*.py"))


def private_imports(code: str) -> list[str]:
    """What a program imports from `ele_core` that is not public, also inside functions and for types."""
    found = []
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and re.match(r"ele_core\b", node.module or ""):
            public = PUBLIC.get(node.module, ())
            found += [f"{node.module}.{alias.name}" for alias in node.names if alias.name not in public]
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if re.match(r"ele_core\.(?!testing$)", alias.name)]
    return found


def programs(file: Path) -> Iterator[str]:
    """The Python of a module, a page or a notebook; of a template the imports, of a docstring those of its examples."""
    if file.suffix == ".md":
        yield from (block.code for block in blocks(file, "python"))
    elif file.suffix == ".ipynb":
        cells = nbformat.read(file, as_version=4).cells
        yield from (cell.source for cell in cells if cell.cell_type == "code")
    elif file.suffix == ".jinja":
        yield from IMPORT.findall(file.read_text(encoding="utf-8"))
    elif file in CORE:
        nodes = ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        documented = ast.Module | ast.ClassDef | ast.FunctionDef
        docstrings = [ast.get_docstring(node) or "" for node in nodes if isinstance(node, documented)]
        yield from (line for docstring in docstrings for line in IMPORT.findall(docstring))
    else:
        yield file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "files",
    [EXAMPLES, NOTEBOOKS, PAGES, TEMPLATES, CORE],
    ids=["examples", "notebooks", "pages", "scaffold", "docstrings"],
)
def test_only_public_names_are_imported(files):
    found = {str(file.relative_to(ROOT)): list(programs(file)) for file in files}
    assert any("ele_core" in code for codes in found.values() for code in codes), "nothing was looked at"
    private = [(file, name) for file, codes in found.items() for code in codes for name in private_imports(code)]
    assert not private, "export them in ele_core/__init__.pyi, or do without"


@pytest.mark.parametrize(
    ("code", "private"),
    [
        ("from ele_core import Task, split\nfrom ele_core.testing import check_task", []),
        ("import ele_core.testing\nimport ele_corelike\nfrom ele_graphs.rgcn import DEEP", []),
        ("from ele_core.data.dataset import DataSet", ["ele_core.data.dataset.DataSet"]),
        ("def late():\n    from ele_core import Task, config", ["ele_core.config"]),
        ("from ele_core.testing import samples", ["ele_core.testing.samples"]),
        ("import ele_core.runs", ["ele_core.runs"]),
    ],
)
def test_a_private_import_is_seen(code, private):
    assert private_imports(code) == private


def documented() -> list[str]:
    """The names on the API page: public ones bare, internals with their module."""
    return [name for name in DIRECTIVE.findall(API.read_text(encoding="utf-8")) if name != "ele_core"]


def test_our_plugins_import_public_names_and_documented_internals():
    internal = {f"ele_core.{name}" for name in documented() if "." in name}
    found = [(file.name, name) for file in PLUGINS for name in private_imports(file.read_text(encoding="utf-8"))]
    assert found
    assert not [each for each in found if each[1] not in internal], "document them in docs/reference/api.md"


def test_the_api_page_lists_every_public_name_once_and_internals_with_their_module():
    names = documented()
    assert len(names) == len(set(names))
    assert sorted(name for name in names if "." not in name) == sorted(PUBLIC["ele_core"])


def test_there_are_few_public_names():
    assert len(ele_core.__all__) <= MOST_NAMES


def test_a_wheel_carries_the_lists_of_public_names():
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["*"]
    for stub in (ROOT / "ele_core" / "__init__.pyi", ROOT / "ele_graphs" / "__init__.pyi"):
        assert stub.exists()
        assert any(stub.match(pattern) for pattern in patterns)


MOVED = re.search(r"^\| module \| names \|\n.*?\n\n", UPGRADE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("line", MOVED[0].strip().splitlines()[2:])
def test_names_that_are_no_longer_public_are_in_the_modules_that_the_upgrade_page_names(line):
    module, *names = re.findall(r"`([\w.]+)`", line)
    assert names
    assert not set(names) & set(ele_core.__all__)
    assert [name for name in names if not hasattr(importlib.import_module(module), name)] == []
