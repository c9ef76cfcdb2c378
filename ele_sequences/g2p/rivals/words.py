"""What the rivals learn from and answer: words and phonemes as texts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from ele_core import ConfigError, Prepared
from ele_sequences.g2p.space import PhonemeSpace


@dataclasses.dataclass(frozen=True)
class Words:
    """Words, and the phonemes of each."""

    words: Sequence[str]
    phonemes: Sequence[Sequence[str]]

    @classmethod
    def at(cls, prepared: Prepared, rows: Tensor) -> Words:
        """The pairs at `rows`."""
        space = phoneme_space(prepared)
        texts = space.unpack(prepared.data.outputs[rows])
        return cls(prepared.data.inputs_at(rows), [text.split() for text in texts])


def phoneme_space(prepared: Prepared) -> PhonemeSpace:
    """The output space, which must be `phonemes`."""
    if not isinstance(prepared.space, PhonemeSpace):
        what = f"this rival answers phonemes, not {type(prepared.space).__name__}."
        raise ConfigError(what, where="output", fix="Set output to 'phonemes'.")
    return prepared.space


def packed(prepared: Prepared, answers: Sequence[Sequence[str]]) -> Any:
    """Answers as a batch; what a rival writes beyond the greatest length is cut off."""
    space = phoneme_space(prepared)
    return space.pack([" ".join(answer[: space.config.length]) for answer in answers])
