"""What the page on security promises, read in the sources: no code from data, no network, no shell."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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


def dangers(file: Path) -> list[str]:
    """What a source imports, calls or passes that the page rules out."""
    tree = ast.parse(file.read_text("utf-8"))
    found = [*(imported(tree) & (NETWORK | CODE)), *(called(tree) & CALLS)]
    keywords = [node for node in ast.walk(tree) if isinstance(node, ast.keyword)]
    shells = [node for node in keywords if node.arg in ("shell", "allow_pickle")]
    return found + [
        str(node.arg) for node in shells if not (isinstance(node.value, ast.Constant) and node.value.value is False)
    ]


@pytest.mark.parametrize("package", ["ele_core", "ele_graphs", "ele_sequences"])
def test_no_source_unpickles_evaluates_connects_or_starts_a_shell(package: str) -> None:
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    assert not {str(file.relative_to(ROOT)): found for file in files if (found := dangers(file))}


def test_the_page_is_linked_from_the_readme() -> None:
    assert "docs/explanation/security.md" in (ROOT / "README.md").read_text("utf-8")
