"""Shorten RDKit's SVG pictures: half of their bytes are comments, classes and default styles."""

from __future__ import annotations

from xml.etree import ElementTree

SVG = "http://www.w3.org/2000/svg"
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

ElementTree.register_namespace("", SVG)  # so that tags are written without a prefix


def compact(svg: str) -> str:
    """The same picture without the XML declaration, comments, classes and default styles."""
    root = ElementTree.fromstring(svg)  # leaves comments out
    for element in root.iter():
        element.text, element.tail = (element.text or "").strip(), None
        kept = {name: " ".join(value.split()) for name, value in element.items() if name not in UNSEEN}
        if "style" in kept:
            kept["style"] = ";".join(part for part in kept["style"].split(";") if part and part not in DEFAULTS)
        element.attrib = kept
    return ElementTree.tostring(root, encoding="unicode")
