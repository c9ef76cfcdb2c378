"""One HTML file from a template: everything inside it, everything escaped, and nothing it may load or run besides."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from functools import cache
from importlib.resources import files
from typing import Any

STYLES = ("style.css",)
FIRST = "theme.js"
"""What runs before anything is shown."""
SCRIPTS = {
    "report.html": ("page.js", "charts.js", "curves.js", "gallery.js", "embedding.js", "trajectory.js"),
    "compare.html": ("page.js", "charts.js", "compare.js"),
}
"""What each page runs, in this order."""


def render(template: str, shown: dict[str, Any], data: dict[str, Any]) -> str:
    """The page: `shown` is what the template writes, `data` what the script draws."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(asset), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    style = "".join(map(asset, STYLES))
    script = "\n".join(["'use strict';", *map(asset, SCRIPTS[template])])
    first = asset(FIRST)
    policy = [
        "default-src 'none'",
        "img-src data:",
        f"style-src '{digest(style)}'",
        f"script-src '{digest(first)}' '{digest(script)}'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    return environment.get_template(template).render(
        **shown, style=style, first=first, script=script, policy="; ".join(policy), data=as_json(data)
    )


def as_json(data: Any) -> str:
    """JSON that stays data inside a page: no character of it can end the element that holds it, or begin another."""
    text = json.dumps(without_gaps(data), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def without_gaps(value: Any) -> Any:
    """The same with null for what is no finite number: JSON has no word for it."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: without_gaps(inner) for key, inner in value.items()}
    return [without_gaps(inner) for inner in value] if isinstance(value, list | tuple) else value


def digest(text: str) -> str:
    """How a content security policy names a text that may be used."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def asset(name: str) -> str:
    """A template, style sheet or script of this package."""
    return (files("ele_core.report") / "assets" / name).read_text("utf-8")
