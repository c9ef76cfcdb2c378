"""`{laws} output`: the checks of a kind, with the laws from their docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import ClassVar

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from ele_core.testing.choosing import SUITES
from ele_core.testing.common import COMMON, check_model_saves_and_loads
from ele_core.testing.results import Check

SHARED = (*COMMON, check_model_saves_and_loads)


class LawsDirective(SphinxDirective):
    """A definition list of the checks of a kind; with the argument `every`, of those that all kinds share."""

    required_arguments: ClassVar[int] = 1

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()
        (kind,) = self.arguments
        checks = SHARED if kind == "every" else [check for check in SUITES[kind] if check not in SHARED]
        return self.parse_text_to_nodes("\n".join(laws(kind, checks)))


def laws(kind: str, checks: list[Check] | tuple[Check, ...]) -> Iterator[str]:
    """Each check and its law as Markdown."""
    for check in checks:
        law = inspect.getdoc(check)
        if not law:
            raise ValueError(f"{check.__name__} states no law: write a docstring")
        yield from (f"({kind}-{check.__name__})=", f"`{check.__name__}`", f": {' '.join(law.split())}", "")


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("laws", LawsDirective)
    return {"parallel_read_safe": True}
