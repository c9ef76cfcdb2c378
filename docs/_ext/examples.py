"""Show examples in the help of a command (a `\\b` line, then commands) as code blocks on the command-line page."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import click
from sphinx.application import Sphinx

BAR = "| "
"""The start of a line of an example, as sphinx-click writes it."""


def as_code(_: Sphinx, __: click.Context, lines: list[str]) -> None:
    """Replace line blocks by code blocks, in place."""
    lines[:] = list(code_blocks(lines))


def code_blocks(lines: list[str]) -> Iterator[str]:
    """The lines, with each run of lines that start with `| ` as a code block."""
    for is_example, run in groupby(lines, lambda line: line.startswith(BAR)):
        if is_example:
            yield from (".. code-block:: text", "", *(f"    {line.removeprefix(BAR)}" for line in run), "")
        else:
            yield from run


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("sphinx-click-process-description", as_code)
    app.connect("sphinx-click-process-epilog", as_code)
    return {"parallel_read_safe": True}
