"""What the page on security promises, read in the sources: no code from data, no network, no shell."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = [
    file for package in ("ele_core", "ele_graphs", "ele_sequences") for file in sorted((ROOT / package).rglob("*.py"))
]
NETWORK = {"urllib.request", "http.client", "requests", "httpx", "ftplib", "smtplib", "telnetlib", "xmlrpc.client"}
CODE = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
CALLS = {"eval", "exec", "compile", "__import__", "os.system", "os.popen", "torch.load", "pickle.load", "pickle.loads"}


def imported(tree: ast.AST) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return found


def called(tree: ast.AST) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(ROOT)))
def test_no_source_unpickles_evaluates_connects_or_starts_a_shell(file: Path) -> None:
    tree = ast.parse(file.read_text("utf-8"))
    assert not imported(tree) & (NETWORK | CODE)
    assert not called(tree) & CALLS
    shells = [
        node for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg in ("shell", "allow_pickle")
    ]
    assert all(isinstance(node.value, ast.Constant) and node.value.value is False for node in shells)


def test_the_page_is_linked_from_the_readme() -> None:
    assert "docs/explanation/security.md" in (ROOT / "README.md").read_text("utf-8")
