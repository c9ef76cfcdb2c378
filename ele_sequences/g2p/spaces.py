"""The spaces of `g2p`: words in any case, and their phonemes with the error rates of this field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ele_core import ComponentConfig, Metric, TextInput, Texts
from ele_sequences.space import SequenceSpace, SequenceTexts, Tokens

WER = "word error rate: the share of words whose phonemes are not exactly right"
PER = "phoneme error rate: insertions, deletions and replacements, per phoneme of the nearest right answer"


class SpellingInput(TextInput):
    """Words as texts, read in capital letters however they are written."""

    def fit(self, values: Sequence[str]) -> None:
        """As of `text`, in capital letters."""
        super().fit(capitals(values))

    def pack(self, values: Sequence[str]) -> Texts:
        """As of `text`, in capital letters."""
        return super().pack(capitals(values))

    def unlike_training(self, values: Sequence[str]) -> list[str]:
        """As of `text`, in capital letters."""
        return super().unlike_training(capitals(values))


def capitals(values: Sequence[str]) -> list[str]:
    """The words in capital letters; what is no text is left to `text` to refuse."""
    return [value.upper() if isinstance(value, str) else value for value in values]


class PhonemeTexts(SequenceTexts):
    """Texts of phonemes, which not every text is."""

    any_text = False


class PhonemeSpace(SequenceSpace):
    """Sequences of phonemes separated by spaces, such as `F OW N`, with the error rates of words and of phonemes."""

    class Config(SequenceSpace.Config):
        """The phonemes and the size."""

        separator: str = " "
        """The text between two phonemes."""

    config: Config
    Texts = PhonemeTexts
    takes = "phonemes separated by spaces, or a list of them"

    @property
    def metrics(self) -> Sequence[Metric[Tokens]]:
        """Those of sequences, the share of wrong words, and the errors per phoneme."""
        exact, distance = super().metrics
        wer = Metric[Tokens]("wer", "min", lambda predicted, true: 1 - exact.values(predicted, true), WER)
        per = Metric[Tokens]("per", "min", distance.values, PER, size=lambda true: (true.tokens > 0).sum(dim=1))
        return exact, wer, distance, per

    @classmethod
    def infer(cls, objects: Sequence[str | Sequence[str]], options: Mapping[str, Any]) -> ComponentConfig:
        """Find the phonemes and the greatest length in `objects`; `options` take precedence."""
        return super().infer(objects, {"separator": " ", **options})
