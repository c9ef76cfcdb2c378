"""Drawings in rows as one picture."""

from __future__ import annotations

from xml.etree import ElementTree

from ele_core.display.pictures import CELL, Cell, sheet_png, sheet_svg
from ele_core.types import Drawing

SVG = "{http://www.w3.org/2000/svg}"
PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" width="10" height="10"><circle r="3"/></svg>'


def test_each_picture_stands_in_its_place_and_each_text_in_its_cell():
    rows = [[Cell(Drawing("a", PICTURE), ["one"]), Cell(Drawing("b", PICTURE))], [Cell(Drawing("only text"))]]
    root = ElementTree.fromstring(sheet_svg(rows))
    inner = root.findall(f"{SVG}svg")
    assert [(int(svg.get("x")), svg.find(f"{SVG}circle") is not None) for svg in inner] == [(0, True), (CELL[0], True)]
    assert [text.text for text in root.iter(f"{SVG}text")] == ["one", "only text"]
    assert int(root.get("width")) == 2 * CELL[0]


def test_a_picture_larger_than_its_cell_is_scaled_down():
    large = '<svg xmlns="http://www.w3.org/2000/svg" width="900px" height="400px" viewBox="0 0 900 400"/>'
    (inner,) = ElementTree.fromstring(sheet_svg([[Cell(Drawing("a", large))]])).findall(f"{SVG}svg")
    assert (inner.get("width"), inner.get("height"), inner.get("viewBox")) == ("220", "180", "0 0 900 400")


def test_what_is_no_picture_is_shown_as_its_text():
    assert ">broken</text>" in sheet_svg([[Cell(Drawing("broken", "<svg><"))]])


def test_a_caption_stays_text():
    assert "<script>" not in sheet_svg([[Cell(Drawing("<script>"), ["<script>"])]])


def test_the_png_has_a_place_for_each_cell():
    one = sheet_png([[Cell(Drawing("a"), ["step $0"])]])
    both = sheet_png([[Cell(Drawing("a")), Cell(Drawing("b", png=lambda: one), ["step 1"])]])
    widths = [int.from_bytes(png[16:20], "big") for png in (one, both)]
    assert widths == [2 * CELL[0], 4 * CELL[0]]
