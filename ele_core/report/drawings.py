"""Pictures for a page: each structure is drawn once, by its space, or shown as text if that fails."""

from __future__ import annotations

from typing import Any

from ele_core.interfaces import OutputSpace
from ele_core.types import Drawing

LONGEST = 300_000
"""Characters of the largest picture that is put into a page."""


class Drawings:
    """All drawings of a page, by number; a text is drawn once for each text that it is compared with."""

    def __init__(self, space: OutputSpace[Any, Any]) -> None:
        self.space = space
        self.numbers: dict[tuple[str, str | None], int] = {}
        self.stored: list[dict[str, Any]] = []
        self.failures = 0

    def number(self, text: str, against: str | None = None) -> int:
        """The number of the drawing of the structure `text`, with differences from `against` marked."""
        key = (text, against)
        if key not in self.numbers:
            self.numbers[key] = len(self.stored)
            self.stored.append(as_plain(self._draw(text, against)))
        return self.numbers[key]

    def pair(self, prediction: str, truth: str) -> tuple[int, int]:
        """The numbers of a prediction and its truth, side by side.

        A space may rotate a picture to match the one that it is compared with: only the prediction is rotated. Texts
        have differences marked on both sides.
        """
        own = self.number(prediction, truth)
        return own, self.number(truth) if "svg" in self.stored[own] else self.number(truth, prediction)

    def _draw(self, text: str, against: str | None) -> Drawing:
        try:
            parsed = None if against is None else self.space.parse(against)
            return self.space.render(self.space.parse(text), parsed)
        except Exception:  # a failure of a plugin must not prevent the page: the text is shown instead
            self.failures += 1
            return Drawing(text)


def as_plain(drawing: Drawing) -> dict[str, Any]:
    """A drawing as JSON: always `text`, and `svg` or `pieces` if there are any."""
    plain: dict[str, Any] = {"text": drawing.text}
    if drawing.svg is not None and len(drawing.svg) <= LONGEST:
        plain["svg"] = drawing.svg
    elif drawing.pieces:
        plain["pieces"] = [[text, int(differs)] for text, differs in drawing.pieces]
    return plain
