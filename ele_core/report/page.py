"""Render one HTML page from a template: self-contained, everything escaped, and not allowed to load anything."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from functools import cache
from importlib.resources import files
from typing import Any

FIRST = "theme.js"
"""The script that runs before anything is shown."""
ASSETS = files("ele_core.report") / "assets"
SCRIPTS = {
    "report.html": ("page.js", "charts.js", "steps.js", "gallery.js"),
    "compare.html": ("page.js", "charts.js", "compare.js"),
    "try.html": ("page.js", "charts.js", "steps.js", "try.js"),
}
"""The scripts of each page, in the order in which they run; on a report those of `assets/panels` follow."""
ASKS = frozenset({"try.html"})
"""Pages that send requests to their own server; the others are static."""


def render(template: str, shown: dict[str, Any], data: dict[str, Any]) -> str:
    """Render a page: `shown` are the variables of the template, `data` is what the script draws."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(asset), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    panels = (
        sorted(f"panels/{file.name}" for file in (ASSETS / "panels").iterdir()) if template == "report.html" else []
    )
    script = "\n".join(["'use strict';", *map(asset, [*SCRIPTS[template], *panels])])
    style, first = asset("style.css"), asset(FIRST)
    policy = [
        "default-src 'none'",
        "img-src data:",
        f"style-src '{digest(style)}'",
        f"script-src '{digest(first)}' '{digest(script)}'",
        f"connect-src '{'self' if template in ASKS else 'none'}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return environment.get_template(template).render(
        **shown, style=style, first=first, script=script, policy="; ".join(policy), data=as_json(data)
    )


def as_json(data: Any) -> str:
    """JSON that is safe inside a page: no character can end the element that holds it, or begin another."""
    text = json.dumps(finite_only(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def finite_only(value: Any) -> Any:
    """Replace numbers that are not finite by None: JSON cannot hold them."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite_only(inner) for key, inner in value.items()}
    return [finite_only(inner) for inner in value] if isinstance(value, list | tuple) else value


def digest(text: str) -> str:
    """The hash by which a content security policy allows a script or a style."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def asset(name: str) -> str:
    """A template, style sheet or script of this package."""
    return (ASSETS / name).read_text("utf-8")
