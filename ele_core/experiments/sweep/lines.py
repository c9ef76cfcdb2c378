"""The ways to decode that a sweep follows."""

from __future__ import annotations

import dataclasses
from typing import Any

Record = dict[str, Any]
"""One measurement as `sweep.json` holds it."""


@dataclasses.dataclass(frozen=True)
class Line:
    """A way to decode that is followed over the shares: its overrides, and how it looks."""

    label: str
    overrides: tuple[str, ...]
    colour: str
    marker: str
    stroke: str


# The colours are those of Okabe and Ito, which people tell apart whatever their colour vision. A broken line is drawn
# over a whole one, so that both are seen where they meet.
LINES = {
    "candidates": Line("candidates", ("decoder=candidates",), "#000000", "o", "-"),
    "pgd-random": Line("pgd from random candidates", ("decoder=pgd", "decoder.start=random"), "#E69F00", "^", ":"),
    "pgd-best": Line("pgd from the best candidates", ("decoder=pgd", "decoder.start=best"), "#0072B2", "s", "--"),
    "search": Line("search", ("decoder=search",), "#009E73", "D", "-"),
}


def percent(share: float) -> str:
    """A share as text: 0.1 is 10 %."""
    return f"{100 * share:.3g} %"
