"""Relative links of the Markdown files lead to files and headings that exist."""

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from pages import FENCE, ROOT

PAGES = [
    page
    for place in (ROOT.glob("*.md"), *((ROOT / name).rglob("*.md") for name in ("changelog.d", "docs", "models")))
    for page in place
    if "_build" not in page.parts
]
LINK = re.compile(r"\]\((?!\w+:|<)([^)\s]+)\)")
CODE = re.compile(r"(`+)[^`](?:.*?[^`])?\1(?!`)", re.DOTALL)


def links(text: str) -> list[str]:
    """The targets of relative links outside of code."""
    return LINK.findall(CODE.sub("", FENCE.sub("", text)))


@cache
def anchors(page: Path) -> set[str]:
    """The anchors of a page: its headings as GitHub and MyST write them, and its labels."""
    text = FENCE.sub("", page.read_text("utf-8"))
    titles = re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles]
    names = [re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in plain]
    seen: Counter[str] = Counter()
    found = set(re.findall(r"^\(([\w-]+)\)=$", text, re.MULTILINE))
    for name in names:
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return found


def dead(page: Path, text: str) -> list[str]:
    """The links of a page that lead nowhere. A fragment of the changelog is read at the root."""
    folder = ROOT if page.parent.name == "changelog.d" else page.parent
    found = []
    for link in links(text):
        path, _, anchor = link.partition("#")
        target = (folder / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            found.append(link)
    return found


def test_links_lead_somewhere():
    assert len(PAGES) > 100
    wrong = {str(page.relative_to(ROOT)): found for page in PAGES if (found := dead(page, page.read_text("utf-8")))}
    assert not wrong


@pytest.mark.parametrize("link", ["no-page.md", "../README.md#no-heading", "#no-heading", "no%20page.md"])
def test_a_dead_link_is_found(link):
    page = ROOT / "docs" / "index.md"
    assert dead(page, f"See [the\npage]({link}).") == [link]
    assert not dead(page, f"Write `[page]({link})`, or\n\n```markdown\n[page]({link})\n```\n")
    assert not dead(page, "[a](../README.md#write-a-plugin), [b](#where-to-go), [c](https://example.org/x.md)")
