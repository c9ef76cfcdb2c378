"""What the training texts were like: their longest length, and which pairs of tokens follow each other."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from ele_core.errors import damaged
from ele_core.files.archive import read_json

MOST_PAIRS = 100_000
"""Different pairs of tokens that are remembered; texts with more of them are too varied for a pair to be unusual."""
UNSEEN = 0.5
"""A text is unlike the training texts if more than this share of its pairs of tokens is unseen."""


@dataclasses.dataclass(frozen=True)
class SeenTexts:
    """The number of tokens in the longest training text, and the pairs of tokens next to each other; None: too many."""

    longest: int
    pairs: frozenset[tuple[int, int]] | None

    @classmethod
    def learned(cls, rows: Iterable[Sequence[int]]) -> SeenTexts:
        """Remember the training texts, given as token numbers."""
        longest, pairs = 0, set[tuple[int, int]]()
        for row in rows:
            longest = max(longest, len(row))
            if len(pairs) <= MOST_PAIRS:
                pairs.update(pairwise(row))
        return cls(longest, frozenset(pairs) if len(pairs) <= MOST_PAIRS else None)

    def unlike(self, row: Sequence[int], unit: str = "tokens") -> str:
        """Why a text, given as token numbers, is unlike the training texts; empty if it is like them.

        `unit` is the word for its tokens.
        """
        if len(row) > self.longest:
            return f"{len(row)} {unit} long, in training at most {self.longest}"
        pairs = list(pairwise(row))
        unseen = 0 if self.pairs is None else sum(pair not in self.pairs for pair in pairs)
        if unseen > UNSEEN * len(pairs):
            return f"{unseen} of {len(pairs)} pairs of neighbouring {unit} are not in the training texts"
        return ""

    def as_json(self) -> str:
        """Return the text that `read` reads."""
        return json.dumps({"longest": self.longest, "pairs": None if self.pairs is None else sorted(self.pairs)})

    @classmethod
    def read(cls, file: Path) -> SeenTexts:
        """Read a file with the text of `as_json`."""
        state = read_json(file)
        try:
            pairs = state["pairs"]
            kept = None if pairs is None else frozenset((int(first), int(second)) for first, second in pairs)
            return cls(int(state["longest"]), kept)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise damaged("this does not describe the texts of a training.", file) from None
