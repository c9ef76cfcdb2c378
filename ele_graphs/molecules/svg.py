"""Shorten RDKit's SVG pictures: most of their bytes are comments, classes, default styles and spaces."""

from __future__ import annotations

import re
from xml.etree import ElementTree

SVG = "http://www.w3.org/2000/svg"
PATH = f"{{{SVG}}}path"
UNSEEN = {"class", "version", "baseProfile", "{http://www.w3.org/XML/1998/namespace}space"}
"""Attributes that do not change a picture."""
DEFAULTS = {
    "stroke-linecap:butt",
    "stroke-linejoin:miter",
    "stroke-miterlimit:10",  # the default, 4, differs at angles below 29° only
    "stroke-opacity:1",
    "fill-opacity:1",
}
"""Styles that can be left out."""
NO_FILL = "fill:none"
UNUSED = {NO_FILL: "fill-rule", "stroke-width:0px": "stroke"}
"""A style → the beginning of those that do not show beside it."""
POINTS = {"M": 1, "L": 1, "Q": 2, "C": 3, "Z": 1}
"""How many points each command takes."""
PLAIN = re.compile(r"[MLQCZ\d\s.,-]*")
COMMAND, NUMBER = re.compile(r"([MLQCZ])([^A-Za-z]*)"), re.compile(r"-?[\d.]+")

ElementTree.register_namespace("", SVG)  # so that tags are written without a prefix


def compact(svg: str) -> str:
    """The same picture with fewer bytes: without what does not show, and with lines of the same style as one path."""
    root = ElementTree.fromstring(svg)  # leaves comments out
    for element in root.iter():
        element.text, element.tail = (element.text or "").strip(), None
        kept = {name: " ".join(value.split()) for name, value in element.items() if name not in UNSEEN}
        if "style" in kept:
            kept["style"] = short_style(kept["style"])
        if element.tag == PATH:
            kept["d"] = short_path(kept["d"])
        element.attrib = kept
    join_lines(root)
    return ElementTree.tostring(root, encoding="unicode").replace(" />", "/>")


def short_style(style: str) -> str:
    """A style without defaults, and without the fill rule of lines and the stroke of width 0."""
    parts = [re.sub(r"\.0px$", "px", part) for part in style.split(";") if part and part not in DEFAULTS]
    unseen = [prefix for sign, prefix in UNUSED.items() if sign in parts]
    return ";".join(part for part in parts if not part.startswith(tuple(unseen)))


def short_path(path: str) -> str:
    """Path data in tenths, relative after each `M`, without unneeded characters: `M 1.0,2.0 L 3.5,4.0` → `M1 2l2.5 2`.

    RDKit writes absolute points with one decimal: their differences are exact, so that no error adds up.
    """
    if not PLAIN.fullmatch(path):
        return path
    text, last, here = "", "", (0, 0)
    for command, numbers in COMMAND.findall(path):
        values = [round(10 * float(number)) for number in NUMBER.findall(numbers)]
        points = list(zip(values[::2], values[1::2], strict=True))
        written = command if command == "M" else command.lower()
        text += written if written != last or written == "M" else ""
        for first in range(0, len(points), POINTS[command]):
            x, y = (0, 0) if command == "M" else here
            for here in points[first : first + POINTS[command]]:
                text += tenths(here[0] - x, text)
                text += tenths(here[1] - y, text)
        last = written
    return text


def tenths(value: int, before: str) -> str:
    """A number of tenths as a decimal, with a space if the text before ends with a number that it would lengthen."""
    whole = f"{value / 10:.1f}".removesuffix(".0")
    return f" {whole}" if before[-1:].isdigit() and whole[0] != "-" else whole


def join_lines(root: ElementTree.Element) -> None:
    """Join the lines of the same style within each row of opaque lines: bonds only touch, so their order does not show.

    Lines of another width, such as highlights below the bonds, end a row.
    """
    row: dict[str, ElementTree.Element] = {}
    width = ""
    for element in list(root):
        parts = element.get("style", "").split(";")
        own = next((part for part in parts if part.startswith("stroke-width")), "")
        line = element.tag == PATH and NO_FILL in parts and not any("opacity" in part for part in parts)
        if not line or own != width:
            row, width = {}, own
        if not line:
            continue
        first = row.setdefault(element.get("style", ""), element)
        if first is not element:
            first.set("d", first.get("d", "") + element.get("d", ""))
            root.remove(element)
