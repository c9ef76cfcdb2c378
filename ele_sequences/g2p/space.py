"""The space of phonemes: sequences of sounds, each written at the letter that stands for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Self

from pydantic import model_validator
from torch import Tensor

from ele_core import ComponentConfig, Drawing, Metric, SparseRows
from ele_core.numerics.edit_distance import edit_distances
from ele_sequences.constraints import SequenceRules
from ele_sequences.features import sequence_features
from ele_sequences.space import SequenceShow, SequenceSpace, SequenceTexts, Tokens, close_gaps, is_sequence
from ele_sequences.tokens import split_tokens

SILENT = "_"
"""The token of a letter that stands for no phoneme."""
JOINER = "+"
"""Written between the two phonemes of one letter, as in `K+S` for the letter X."""


class PhonemeTexts(SequenceTexts):
    """Texts of phonemes, which not every text is."""

    any_text = False


class PhonemeShow(SequenceShow):
    """Phonemes, without the letters that they belong to."""

    space: PhonemeSpace

    def properties(self, batch: Tokens) -> dict[str, Tensor]:
        """The number of phonemes."""
        return {"length": (self.space.sounds(batch) != 0).sum(dim=1)}

    def render(self, obj: str, against: str | None = None) -> Drawing:
        """The phonemes; compared with `against`, in pieces with differing and missing ones marked."""
        plain = [" ".join(self.space.plain(text)) for text in (obj, against) if text is not None]
        return super().render(*plain)


class PhonemeRules(SequenceRules):
    """Phonemes judged without the letters that they belong to."""

    space: PhonemeSpace

    def tokens(self, batch: Tokens) -> Tensor:
        """The labels of the phonemes (N, 2 L)."""
        return self.space.sounds(batch)


class PhonemeSpace(SequenceSpace):
    """Phonemes separated by spaces, such as `F OW N`, which may say which letter each belongs to: `F _ OW N _`.

    A token is a phoneme, two phonemes of one letter (`K+S`), or `_` for a silent letter. Two sequences are the same if
    they hold the same phonemes: keys, metrics and texts do not depend on the letters.
    """

    class Config(SequenceSpace.Config):
        """The tokens and the size."""

        separator: str = " "
        """The text between two tokens."""

        @model_validator(mode="after")
        def _whole(self) -> Self:
            single = set(self.alphabet)
            missing = next((p for token in self.alphabet for p in phonemes_of(token) if p not in single), None)
            if missing is not None:
                raise ValueError(f"{missing!r} occurs in a pair, but is not a token by itself")
            return self

    config: Config
    Rules = PhonemeRules
    Show = PhonemeShow
    Texts = PhonemeTexts
    takes = "phonemes separated by spaces, or a list of them"

    @cached_property
    def parts(self) -> tuple[tuple[int, ...], ...]:
        """For each label the labels of its phonemes: none for 'nothing here' and for `_`, two for a pair."""
        label = {token: number for number, token in enumerate(self.config.alphabet, start=1)}
        return ((), *(tuple(label[p] for p in phonemes_of(token)) for token in self.config.alphabet))

    def sounds(self, batch: Tokens) -> Tensor:
        """The phonemes alone, as labels with zeros after the end: (B, 2 L)."""
        table = batch.tokens.new_tensor([[*part, 0, 0][:2] for part in self.parts])
        return close_gaps(Tokens(table[batch.tokens.long()].flatten(start_dim=1))).tokens

    def pack(self, objects: Sequence[str | Sequence[str]]) -> Tokens:
        """Texts, or lists of tokens → (B, L) labels; where there are too many, phonemes are joined to pairs."""
        return super().pack([self._shorter(obj) for obj in objects])

    def unpack(self, batch: Tokens) -> list[str]:
        """(B, L) labels → phonemes separated by spaces."""
        return super().unpack(Tokens(self.sounds(batch)))

    def keys(self, batch: Tokens) -> Tensor:
        """(B, 2) int64, equal exactly if the phonemes are the same."""
        return super().keys(Tokens(self.sounds(batch)))

    def features(self, batch: Tokens) -> SparseRows:
        """The parts of the sequence of phonemes: see `features.sequence_features`."""
        return sequence_features(self.sounds(batch), len(self.config.alphabet))

    @property
    def metrics(self) -> Sequence[Metric[Tokens]]:
        """Exact match, the share of wrong words, the edit distance, and the errors per phoneme."""
        return (
            self.exact_match,
            Metric("wer", "min", lambda predicted, true: 1 - self.exact_match.values(predicted, true), WER),
            Metric("edit_distance", "min", self._edits, "insertions, deletions and replacements from the truth"),
            Metric("per", "min", self._edits, PER, size=lambda true: (self.sounds(true) > 0).sum(dim=1)),
        )

    @classmethod
    def infer(cls, objects: Sequence[str | Sequence[str]], options: Mapping[str, Any]) -> ComponentConfig:
        """Find the phonemes and the greatest length in `objects`; `options` take precedence."""
        words = [split_tokens(text, options.get("separator", " ")) for text in objects]
        found = {word for text in words for word in text}
        alphabet = sorted(found | {p for word in found for p in phonemes_of(word)} | {SILENT})
        length = max((sum(max(1, len(phonemes_of(word))) for word in text) for text in words), default=1)
        return cls.Config(**{"alphabet": alphabet, "length": length, **options})

    def examples(self) -> list[str]:
        """The first phoneme alone, all phonemes cut to length, and the last one repeated."""
        single = [token for token in self.config.alphabet if len(phonemes_of(token)) == 1]
        words = [single[:1], single[: self.config.length], single[-1:] * self.config.length]
        return list(dict.fromkeys(self.config.separator.join(word) for word in words))

    def _edits(self, predicted: Tokens, true: Tokens) -> Tensor:
        left, right = self.sounds(predicted), self.sounds(true)
        width = max(1, int((left > 0).sum(dim=1).amax()), int((right > 0).sum(dim=1).amax())) if len(left) else 1
        return edit_distances(left[:, :width], right[:, :width])

    def _shorter(self, obj: str | Sequence[str]) -> str | Sequence[str]:
        """The same, or if it is too long the fewest tokens for its phonemes."""
        if not is_sequence(obj) or len(split_tokens(obj, self.config.separator)) <= self.config.length:
            return obj
        phonemes, known = self.plain(obj), set(self.config.alphabet)
        best: list[list[str]] = [[]]
        for place, last in enumerate(phonemes, start=1):
            found = [*best[place - 1], last]
            pair = JOINER.join(phonemes[max(0, place - 2) : place])
            if place > 1 and pair in known and len(best[place - 2]) < len(best[place - 1]):
                found = [*best[place - 2], pair]
            best.append(found)
        return best[-1] if len(best[-1]) <= self.config.length else obj

    def plain(self, text: str | Sequence[str]) -> list[str]:
        """The phonemes of a text or a list of tokens."""
        return [p for token in split_tokens(text, self.config.separator) for p in phonemes_of(token)]


WER = "word error rate: the share of words whose phonemes are not exactly right"
PER = "phoneme error rate: insertions, deletions and replacements, per phoneme of the nearest right answer"


def phonemes_of(token: str) -> tuple[str, ...]:
    """The phonemes of a token: none of `_`, two of a pair such as `K+S`."""
    if token == SILENT:
        return ()
    pair = tuple(token.split(JOINER))
    return pair if len(pair) == 2 and all(pair) else (token,)
