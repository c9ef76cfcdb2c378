"""Runs the notebooks of the documentation: each source in this folder becomes a notebook with outputs under tutorial/.

    python docs/notebooks/build.py

A source is Python whose cells begin with `# %%`, and with `# %% [markdown]` where they are text.
"""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

HERE = Path(__file__).parent
TUTORIAL = HERE.parent / "tutorial"
SOURCES = sorted(source for source in HERE.glob("*.py") if source.name != "build.py")


def notebook_of(source: Path) -> Path:
    """Where the notebook of a source goes."""
    return TUTORIAL / f"{source.stem.replace('_', '-')}.ipynb"


def cells(source: Path) -> Iterator[tuple[str, str]]:
    """The cells of a source: "code" or "markdown", and the text."""
    for part in re.split(r"^# %%", source.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        mark, _, text = part.partition("\n")
        if mark.strip() == "[markdown]":
            yield "markdown", re.sub(r"^# ?", "", text, flags=re.MULTILINE).strip()
        else:
            yield "code", text.strip()


def unexecuted(source: Path) -> nbformat.NotebookNode:
    """The notebook of a source, without outputs."""
    make = {"code": new_code_cell, "markdown": new_markdown_cell}
    built = [make[kind](text, id=f"cell-{number}") for number, (kind, text) in enumerate(cells(source))]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(cells=built, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})


def execute(notebook: nbformat.NotebookNode, folder: Path) -> None:
    """Fill in the outputs; a cell that fails is an error."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    NotebookClient(notebook, timeout=3600, record_timing=False, resources={"metadata": {"path": str(folder)}}).execute()
    for cell in notebook.cells:
        for output in cell.get("outputs", []):  # a picture is shown once: HTML or SVG, not the text of an object too
            data = output.get("data", {})
            if len(data) > 1:
                data.pop("text/plain", None)


if __name__ == "__main__":
    for source in SOURCES:
        notebook = unexecuted(source)
        execute(notebook, HERE)
        nbformat.write(notebook, notebook_of(source))
        sys.stdout.write(f"Wrote {notebook_of(source).relative_to(HERE.parents[1])}\n")
