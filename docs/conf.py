"""Sphinx configuration: Markdown pages, API from docstrings, components from the registry. Warnings are errors."""

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

from ele_core import __version__

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "ELE"
author = "The ELE authors"
copyright = "The ELE authors"  # noqa: A001  # Sphinx's name
release = version = __version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx_click", "components", "examples", "laws", "mathml"]
exclude_patterns = ["_build", "_ext", "examples", "results/reproduction"]
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb"}
nb_execution_mode = "off"  # notebooks carry their outputs; a test runs them
myst_enable_extensions = ["deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 3

HIDDEN = ", ".join(
    [
        "model_config, __init__, __new__",
        "set_fit_request, set_predict_request, set_score_request",  # scikit-learn's, of no use here
    ]
)
smartquotes = False  # two hyphens start an option
default_role = "code"  # docstrings write code in single backticks, as Markdown does
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "exclude-members": HIDDEN}
autodoc_preserve_defaults = True
maximum_signature_line_length = 100

html_theme = "furo"
html_title = f"ELE {release}"
html_static_path: list[str] = []
html_copy_source = False
html_math_renderer = "mathml"  # readable without a network, unlike MathJax


def escape_stars(*event: object) -> None:
    """Escape the star of shapes such as `(B, *rest)`, which reStructuredText would read as emphasis."""
    lines = event[-1]
    assert isinstance(lines, list)
    lines[:] = [re.sub(r"(?<=[( ])\*(?=\w+[,)])", r"\\*", line) for line in lines]


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", escape_stars)
