"""Cut texts into tokens and number them: by the library `tokenizers` if it is installed, else by Python's `re`."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ele_core.extras import installed, missing

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPECIAL = ("<pad>", "<unk>")
"""The first two tokens of every vocabulary."""
ANY_CHARACTER = r"[\s\S]"
"""The pattern that makes each character a token; a plain dot would not match line breaks."""
CHUNK = 10_000
"""Texts that the library encodes at a time: its own results are large."""
COMMON = re.compile(
    r"""(?: [^\\\[\](){}^$|?*+]                                  # a character, or the dot
        | \\ (?: [sSwWdDbBnrtf] | [^A-Za-z0-9] )                  # a class, a boundary, an escaped character
        | \[ \^? (?: [^\\\[\]&] | \\ (?: [sSwWdDnrtf] | [^A-Za-z0-9] ) )+ \]
        | \( (?: \?: | \?= | \?! | \?<= | \?<! | (?! \? ) ) | \) | \|
        | (?: [*+?] | \{ \d+ (?: ,\d* )? \} ) \?? (?! [*+?{] )    # how often
        )*""",
    re.VERBOSE,
)
"""Regular expressions that mean the same to Oniguruma, which `tokenizers` uses, and to Python."""


class Tokens:
    """A vocabulary: cuts texts at the matches of a pattern, and numbers tokens by their position in `names`.

    Each match is a token, and so is the text between two matches. A token that is not in `names` has the number of
    `<unk>`. A `cutter` cuts as the pattern does, only faster.
    """

    def __init__(self, names: Sequence[str], pattern: str, cutter: Callable[[str], list[str]] | None = None) -> None:
        self.names = list(names)
        self.pattern = pattern
        self._cutter = cutter or Cutter(pattern)
        self._numbers = {name: number for number, name in enumerate(self.names)}
        self._library = library(self._numbers, pattern) if cutter is None and installed("tokenizers") else None

    @classmethod
    def learned(cls, texts: Iterable[str], pattern: str, min_frequency: int) -> Tokens:
        """The special tokens, then the tokens of `texts`, the most frequent first, then in alphabetical order."""
        cutter = Cutter(pattern)
        counts = Counter(token for text in texts for token in cutter(text))
        common = [(-count, token) for token, count in counts.items() if count >= min_frequency]
        return cls([*SPECIAL, *(token for _, token in sorted(common) if token not in SPECIAL)], pattern)

    def __len__(self) -> int:
        return len(self.names)

    def cut(self, text: str) -> list[str]:
        """The tokens of a text, known or not."""
        return self._cutter(text)

    def encode(self, texts: Sequence[str]) -> Iterator[list[int]]:
        """The token numbers of each text."""
        if self._library is None:
            unknown = SPECIAL.index("<unk>")
            yield from ([self._numbers.get(token, unknown) for token in self._cutter(text)] for text in texts)
            return
        for start in range(0, len(texts), CHUNK):
            chunk = self._library.encode_batch_fast(texts[start : start + CHUNK])
            yield from (encoding.ids for encoding in chunk)

    def as_json(self, max_length: int) -> str:
        """The vocabulary in the format of the library; its truncation holds `max_length`."""
        content: dict[str, Any] = {
            "version": "1.0",
            "truncation": {"direction": "Right", "max_length": max_length, "strategy": "LongestFirst", "stride": 0},
            "padding": None,
            "added_tokens": [],
            "normalizer": None,
            "pre_tokenizer": {
                "type": "Split",
                "pattern": {"Regex": self.pattern},
                "behavior": "Isolated",
                "invert": False,
            },
            "post_processor": None,
            "decoder": None,
            "model": {"type": "WordLevel", "vocab": self._numbers, "unk_token": "<unk>"},
        }
        return json.dumps(content, indent=2, ensure_ascii=False)


class Cutter:
    """Cuts a text at the matches of a pattern. Raises `ValueError` for one that is not a regular expression."""

    def __init__(self, pattern: str) -> None:
        if installed("tokenizers"):
            from tokenizers import Regex
            from tokenizers.pre_tokenizers import Split

            try:
                self._split: Split | None = Split(Regex(pattern), "isolated")
            except Exception as error:  # the library raises a bare Exception
                raise ValueError(str(error)) from error
        else:
            if not COMMON.fullmatch(pattern):
                raise missing(f"the pattern '{pattern}'", "tokenizers", "tokenizers")
            try:
                self._split, self._regex = None, re.compile(pattern)
            except re.error as error:
                raise ValueError(str(error)) from error

    def __call__(self, text: str) -> list[str]:
        if self._split is not None:
            return [token for token, _ in self._split.pre_tokenize_str(text)]
        tokens, end = [], 0
        for match in self._regex.finditer(text):
            tokens += [text[end : match.start()], match.group()]
            end = match.end()
        return [token for token in (*tokens, text[end:]) if token]


def library(numbers: dict[str, int], pattern: str) -> Tokenizer:
    """The library's tokenizer with this vocabulary and pattern."""
    from tokenizers import Regex, Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Split

    tokenizer = Tokenizer(WordLevel(numbers, unk_token="<unk>"))
    tokenizer.pre_tokenizer = Split(Regex(pattern), "isolated")
    return tokenizer
