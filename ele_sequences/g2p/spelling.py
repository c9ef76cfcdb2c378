"""The spelling of words as input: letters, and around each letter the frequent runs of letters that it is part of."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Self

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from ele_core import ComponentConfig, Tensors, TextInput, Texts
from ele_core.errors import ModelError
from ele_core.numerics.keys import mix

WINDOWS = (
    *((0, 0), (-1, 0), (0, 1), (-1, 1), (-2, 0), (0, 2), (-2, 1), (-1, 2), (-2, 2)),
    *((-3, 0), (0, 3), (-3, 1), (-1, 3), (-3, 2), (-2, 3), (-3, 3), (-4, 0), (0, 4)),
)
"""The runs around a letter: from so many letters before it to so many behind it."""
FARTHEST = 4
CHUNK = 4096
"""Words whose runs are computed at once: bounds the memory."""
FILE = "windows.json"


@dataclasses.dataclass(frozen=True, eq=False)
class Spelling(Texts):
    """Words as `Texts`, with the runs of letters around each letter."""

    windows: Tensor
    """(B, L, W) int32: the number of each run, from 1; 0: too rare."""

    def trimmed(self) -> Self:
        """The same words without the columns that are padding in every row."""
        longest = int(self.lengths.max()) if len(self) else 1
        return self.replace(tokens=self.tokens[:, :longest], windows=self.windows[:, :longest])


class SpellingInput(TextInput):
    """Words as letters, each with the runs of letters around it that are frequent in the training words.

    Spelling follows rules of a few neighbouring letters with many exceptions; a network need not find such runs if it
    is given them. A run marks the ends of the word.
    """

    class Config(TextInput.Config):
        """As of `text`, and how many runs."""

        max_length: int = Field(24, ge=1, le=1 << 10)
        """Maximum number of letters of a word: the number of places of the outputs."""
        upper: bool = False
        """Whether words are read in capital letters, however they are written."""
        runs: int = Field(32_000, ge=1, le=1 << 24)
        """The number of runs of letters that have a vector of their own: the most frequent ones."""

    config: Config
    Batch: ClassVar[type[Tensors]] = Spelling

    def __init__(self, config: ComponentConfig | None = None) -> None:
        super().__init__(config)
        self._known = torch.zeros(0, dtype=torch.int64)

    @property
    def runs(self) -> int:
        """The number of runs that have a vector of their own."""
        return len(self._known)

    def fit(self, values: Sequence[str]) -> None:
        """Learn the letters and the most frequent runs of the training words."""
        values = self._read(values)
        super().fit(values)
        texts = super().pack(values)
        found = [window_keys(texts[rows]) for rows in torch.arange(len(texts)).split(CHUNK)]
        keys, counts = torch.cat(found).flatten().unique(return_counts=True)
        self._known = keys[counts.argsort(descending=True, stable=True)[: self.config.runs]].sort().values

    def pack(self, values: Sequence[str]) -> Spelling:
        """Words → letters (B, L), lengths (B,) and the runs around each letter (B, L, W)."""
        texts = super().pack(self._read(values))
        parts = [self._numbers(texts[rows]) for rows in torch.arange(len(texts)).split(CHUNK)]
        windows = torch.cat(parts) if parts else torch.zeros(*texts.tokens.shape, len(WINDOWS), dtype=torch.int32)
        return Spelling(texts.tokens, texts.lengths, windows)

    def unlike_training(self, values: Sequence[str]) -> list[str]:
        """As of `text`, for the letters that are read."""
        return super().unlike_training(self._read(values))

    def _read(self, values: Sequence[str]) -> Sequence[str]:
        """The words in capital letters, if they are read so; what is no text is left to `pack` to refuse."""
        if not self.config.upper:
            return values
        return [value.upper() if isinstance(value, str) else value for value in values]

    def save(self, folder: Path) -> None:
        """Write what `text` writes, and the keys of the runs."""
        super().save(folder)
        (folder / FILE).write_text(json.dumps(self._known.tolist()), encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Read what `save` wrote."""
        super().load(folder)
        try:
            known = torch.tensor(json.loads((folder / FILE).read_text(encoding="utf-8")), dtype=torch.int64)
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            what = f"the runs of letters cannot be read: {type(error).__name__}."
            raise ModelError(what, where=str(folder / FILE), fix="Get an intact copy, or train again.") from error
        if known.dim() != 1 or not bool((known.diff() > 0).all()):
            what = "the runs of letters are not an ascending list of numbers."
            raise ModelError(what, where=str(folder / FILE), fix="Get an intact copy, or train again.")
        self._known = known

    def _numbers(self, texts: Texts) -> Tensor:
        """(B, L, W) int32: where each run is among the known ones, from 1; 0 for others and after the end."""
        numbers = torch.zeros(*texts.tokens.shape, len(WINDOWS), dtype=torch.int32)
        if len(self._known):
            keys = window_keys(texts)
            place = torch.searchsorted(self._known, keys).clamp(max=len(self._known) - 1)
            numbers[texts.mask] = torch.where(self._known[place] == keys, place + 1, 0).to(torch.int32)
        return numbers


def window_keys(texts: Texts) -> Tensor:
    """A key for each run of letters around each of the M letters of all words: (M, W) int64."""
    letters = functional.pad(texts.tokens.long(), (FARTHEST, FARTHEST))
    row, column = texts.mask.nonzero(as_tuple=True)
    place = row * letters.shape[1] + column + FARTHEST
    around = {away: letters.flatten()[place + away] for away in range(-FARTHEST, FARTHEST + 1)}
    keys = []
    for number, (first, last) in enumerate(WINDOWS):
        key = torch.full_like(place, number)
        for away in range(first, last + 1):
            key = mix(key + around[away])
        keys.append(key)
    return torch.stack(keys, dim=1)
