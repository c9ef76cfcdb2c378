"""Texts as sequences of tokens: cut them, and find out what separates the tokens of a data set."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

NAMES = {", ": "commas and spaces", ",": "commas", " ": "spaces"}
"""What may separate tokens, in the order in which it is tried, and how it is called."""
MOST_TOKENS = 1000
"""Maximum number of different tokens in a data set: texts with more are read as characters."""
THOUSANDS = re.compile(r"\d{1,3}(,\d{3})+")
"""A number such as 1,234,567, whose commas separate no tokens."""


def split_tokens(text: str | Sequence[str], separator: str) -> list[str]:
    """The tokens of a text, or of a list of tokens; with a separator, also of a JSON list of tokens."""
    if not isinstance(text, str) or not separator:
        return list(text)
    listed = json_tokens(text)
    return [word for word in text.split(separator) if word] if listed is None else listed


def json_tokens(text: str) -> list[str] | None:
    """The tokens of a JSON list of texts or numbers; None if the text is something else."""
    try:
        tokens: Any = json.loads(text) if text.startswith("[") else None
    except (ValueError, RecursionError):
        return None
    plain = isinstance(tokens, list) and all(isinstance(token, str | int | float) for token in tokens)
    return [str(token) for token in tokens] if plain else None


def find_separator(texts: Sequence[str]) -> str:
    """What separates the tokens of the texts: a comma, a space or both; empty if every character is a token."""
    lists = [tokens for text in texts if (tokens := json_tokens(text)) is not None]
    if lists and len(lists) == len(texts):
        return unused_separator(lists)
    return next((separator for separator in NAMES if separates(separator, texts)), "")


def separates(separator: str, texts: Sequence[str]) -> bool:
    """Whether `separator` cuts the texts into few tokens that occur again; in free text most words are rare."""
    if all(THOUSANDS.fullmatch(text) for text in texts if separator in text):  # also if it is in no text
        return False
    different: set[str] = set()
    count = 0
    for text in texts:
        tokens = split_tokens(text, separator)
        count += len(tokens)
        different.update(tokens)
        if len(different) > MOST_TOKENS:
            return False
    return count >= 2 * len(different)


def unused_separator(lists: Sequence[Sequence[str]]) -> str:
    """A separator that is in no token: a space if possible."""
    characters = {character for tokens in lists for token in tokens for character in token}
    return next(separator for separator in (" ", ",", "|", "\t", "\n", "\0") if separator not in characters)
