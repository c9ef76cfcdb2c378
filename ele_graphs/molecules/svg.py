"""RDKit's pictures without what does not show: half of their bytes are comments, classes and default styles."""

from __future__ import annotations

import re

SHORTER = [
    (re.compile(pattern), shorter)
    for pattern, shorter in (
        (r"<!--.*?-->|xmlns:\w+='[^']*'|version='1.1'|baseProfile='full'|xml:space='preserve'|class='[^']*'", ""),
        (r"stroke-linecap:butt;|stroke-linejoin:miter;|(stroke-miterlimit|stroke-opacity|fill-opacity):\d+;", ""),
        (r"\s+", " "),
        (r"> ", ">"),
    )
]


def compact(svg: str) -> str:
    """The same picture, from its first element on, shorter."""
    svg = svg[svg.index("<svg") :]
    for pattern, shorter in SHORTER:
        svg = pattern.sub(shorter, svg)
    return svg
