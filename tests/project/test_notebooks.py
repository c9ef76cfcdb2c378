"""The notebooks of the documentation: made of their sources, with outputs, and they run."""

import ast
import importlib.util
import re

import nbformat
import pytest
from pages import ROOT

LARGEST = 1 << 20
SPECIFICATION = importlib.util.spec_from_file_location("notebook_build", ROOT / "docs" / "notebooks" / "build.py")
build = importlib.util.module_from_spec(SPECIFICATION)
SPECIFICATION.loader.exec_module(build)

sources = pytest.mark.parametrize("source", build.SOURCES, ids=lambda source: source.stem)


def test_there_is_a_notebook_for_each_source_and_none_besides():
    assert build.SOURCES
    assert {build.notebook_of(source) for source in build.SOURCES} == set((ROOT / "docs").rglob("*.ipynb"))


@sources
def test_the_notebook_is_what_its_source_says(source):
    kept = nbformat.read(build.notebook_of(source), as_version=4)
    assert [(cell.cell_type, cell.source) for cell in kept.cells] == list(build.cells(source))


@sources
def test_every_cell_ran_in_order_and_shows_something(source):
    code = [cell for cell in nbformat.read(build.notebook_of(source), as_version=4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert all(cell.outputs for cell in code)
    kinds = {output.output_type for cell in code for output in cell.outputs}
    assert kinds <= {"stream", "display_data", "execute_result"}, "no errors"
    names = {output.get("name") for cell in code for output in cell.outputs}
    assert "stderr" not in names


@sources
def test_it_is_small_and_tells_nothing_of_the_machine_it_ran_on(source):
    text = build.notebook_of(source).read_text(encoding="utf-8")
    assert len(text) < LARGEST
    assert not re.search(r"/(home|root|tmp|work|Users)/|site-packages|0x[0-9a-f]{8}", text)
    notebook = nbformat.reads(text, as_version=4)
    assert not any(cell.metadata for cell in notebook.cells)


@sources
def test_what_it_imports_is_there(source):
    for statement in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(statement, ast.ImportFrom):
            module = importlib.import_module(statement.module)
            assert all(hasattr(module, name.name) for name in statement.names)


@pytest.mark.slow
@sources
def test_it_runs(source, tmp_path):
    notebook = build.unexecuted(source)
    build.execute(notebook, tmp_path)
    assert all(cell.outputs for cell in notebook.cells if cell.cell_type == "code")
