"""Which phonemes each letter of a word stands for, learned by expectation maximisation (EM) on pairs alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

ROUNDS = 8
"""Rounds of EM: afterwards fewer than one in a thousand alignments changes."""
SAMPLE = 20_000
"""Pairs that EM learns from, at most: there are far fewer numbers to learn."""
PAIRS = 0.02
"""How likely a letter stands for two phonemes at first, relative to one: this prefers a phoneme per letter."""
LEAST = 1e-7
"""Least probability: every pair that fits has an alignment."""
CHUNK = 8192
"""Pairs that are aligned at once: bounds the memory."""


@dataclasses.dataclass(frozen=True)
class Alignment:
    """The probability that a letter stands for no phoneme, for one, and for two."""

    none: Tensor
    """(A,) for each letter."""
    one: Tensor
    """(A, P) for each letter and phoneme."""
    two: Tensor
    """(A, P, P) for each letter and two phonemes."""

    @classmethod
    def learned(cls, words: Tensor, phonemes: Tensor, letters: int, allowed: Tensor) -> Alignment:
        """EM on words (N, L) and phonemes (N, M), numbers from 1 with zeros after the end.

        `letters`: how many there are. `allowed`: (P, P) bool, which two phonemes one letter may stand for.
        """
        some = torch.linspace(0, len(words) - 1, min(len(words), SAMPLE)).long()  # spread over the whole dictionary
        words, phonemes = words[some], phonemes[some]
        sounds = len(allowed)
        one = torch.ones(letters + 1, sounds, dtype=torch.double)
        found = cls(one[:, 0].clone(), one / sounds, PAIRS * one[:, :, None] * allowed / sounds**2)
        for _ in range(ROUNDS):
            found = found.improved(words, phonemes)
        return found

    def improved(self, words: Tensor, phonemes: Tensor) -> Alignment:
        """One round of EM: count how often letters stand for phonemes under these probabilities, then divide."""
        counts = Alignment(*(torch.zeros_like(table) for table in (self.none, self.one, self.two)))
        for some, sounds in zip(words.split(CHUNK), phonemes.split(CHUNK), strict=True):
            self._count(some, sounds, counts)
        total = counts.none + counts.one.sum(dim=1) + counts.two.sum(dim=(1, 2))
        scale = total.clamp(min=LEAST)
        return Alignment(
            (counts.none / scale).clamp(min=LEAST),
            (counts.one / scale[:, None]).clamp(min=LEAST),
            (counts.two / scale[:, None, None]).clamp(min=LEAST) * (self.two > 0),
        )

    def sizes(self, words: Tensor, phonemes: Tensor) -> Tensor:
        """How many phonemes each letter stands for in the likeliest alignment: (N, L); −1 in rows that have none."""
        parts = zip(words.split(CHUNK), phonemes.split(CHUNK), strict=True)
        found = [self._likeliest(some, sounds) for some, sounds in parts]
        return torch.cat(found) if found else words.clone()

    def _steps(self, letter: Tensor, phonemes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What a letter (N,) costs with no phoneme (N, 1), with phoneme j (N, M), with j − 1 and j (N, M)."""
        before = phonemes.roll(1, dims=1)
        one, two = self.one[letter[:, None], phonemes], self.two[letter[:, None], before, phonemes].clone()
        two[:, 0] = 0
        return self.none[letter, None], one, two

    def _forward(self, words: Tensor, phonemes: Tensor) -> list[Tensor]:
        """For each number of letters, the probability (N, M + 1) that they stand for the first j phonemes."""
        start = self.none.new_zeros(len(words), phonemes.shape[1] + 1)
        start[:, 0] = 1
        reached = [start]
        for place in range(words.shape[1]):
            before = reached[-1]
            none, one, two = self._steps(words[:, place], phonemes)
            after = before * none
            after[:, 1:] += before[:, :-1] * one
            after[:, 2:] += before[:, :-2] * two[:, 1:]
            reached.append(torch.where(words[:, place, None] > 0, after, before))
        return reached

    def _count(self, words: Tensor, phonemes: Tensor, counts: Alignment) -> None:
        """Add the expected counts of each letter with its phonemes."""
        reached, ends = self._forward(words, phonemes), (phonemes > 0).sum(dim=1, keepdim=True)
        total = reached[-1].gather(1, ends)
        behind = torch.zeros_like(reached[0]).scatter_(1, ends, 1 / total.where(total > 0, torch.inf))
        for place in reversed(range(words.shape[1])):
            letter, before = words[:, place], reached[place] * (words[:, place, None] > 0)
            none, one, two = self._steps(letter, phonemes)
            counts.none.index_add_(0, letter, (before * none * behind).sum(dim=1))
            at = letter[:, None].expand_as(phonemes)
            counts.one.index_put_((at, phonemes), before[:, :-1] * one * behind[:, 1:], accumulate=True)
            pairs = (at[:, 1:], phonemes[:, :-1], phonemes[:, 1:])
            counts.two.index_put_(pairs, before[:, :-2] * two[:, 1:] * behind[:, 2:], accumulate=True)
            ahead = behind * none
            ahead[:, :-1] += behind[:, 1:] * one
            ahead[:, :-2] += behind[:, 2:] * two[:, 1:]
            behind = torch.where(letter[:, None] > 0, ahead, behind)

    def _likeliest(self, words: Tensor, phonemes: Tensor) -> Tensor:
        """The likeliest alignment of each pair, followed back from its end (Viterbi)."""
        best = self.none.new_full((len(words), phonemes.shape[1] + 1), -torch.inf)
        best[:, 0] = 0
        chosen = []
        for place in range(words.shape[1]):
            none, one, two = (step.log() for step in self._steps(words[:, place], phonemes))
            options = torch.full((3, *best.shape), -torch.inf, dtype=best.dtype)
            options[0] = best + none
            options[1, :, 1:] = best[:, :-1] + one
            options[2, :, 2:] = best[:, :-2] + two[:, 1:]
            after, size = options.max(dim=0)
            there = words[:, place, None] > 0
            best, size = torch.where(there, after, best), size.where(there, 0)
            chosen.append(size)
        at = (phonemes > 0).sum(dim=1, keepdim=True)
        possible = best.gather(1, at).isfinite()
        sizes = torch.zeros_like(words)
        for place in reversed(range(words.shape[1])):
            taken = chosen[place].gather(1, at.clamp(min=0))
            sizes[:, place : place + 1] = taken
            at = at - taken
        return sizes.where(possible, -1)


def numbered(texts: Sequence[Sequence[str]], symbols: Sequence[str]) -> Tensor:
    """Sequences of symbols as numbers from 1, with zeros after the end: (N, L)."""
    number = {symbol: place for place, symbol in enumerate(symbols, start=1)}
    rows = torch.zeros(len(texts), max(map(len, texts), default=0), dtype=torch.long)
    for row, text in enumerate(texts):
        rows[row, : len(text)] = torch.tensor([number[symbol] for symbol in text])
    return rows
