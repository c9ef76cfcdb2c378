"""Alignments of pairs of sequences, learned by expectation maximisation (EM) on the pairs alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

SIZES = (0, 1, 2)
"""How many right tokens a left token may stand for."""
UNEVEN = 0.005
"""How likely a unit of no or of two right tokens is at first, relative to one: this prefers a token for a token."""
ROUNDS = 8
"""Rounds of EM: afterwards few alignments change."""
SAMPLE, CELLS = 20_000, 10_000_000
"""Pairs that EM learns from, and places in them, at most: there are far fewer numbers to learn."""
AT_ONCE = 500_000
"""Places in pairs that are aligned at once: bounds the memory."""


@dataclasses.dataclass(frozen=True, eq=False)
class Aligner:
    """The probability of each unit, a left token with the right tokens that it stands for.

    Sequences are rows of numbers from 1, with zeros after the end: left (N, L), right (N, M).
    """

    codes: Ints
    """(K,) the number of each unit, ascending: see `coded`."""
    chances: Floats
    """(K,) the probability of each unit."""
    count: int
    """The greatest number of a right token."""

    @classmethod
    def learned(cls, left: Ints, right: Ints, rounds: int = ROUNDS) -> Aligner:
        """EM on some pairs, spread over all, from all units that occur."""
        most = min(SAMPLE, max(1, CELLS // (left.shape[1] * (right.shape[1] + 1))))
        some = np.linspace(0, len(left) - 1, min(len(left), most)).astype(np.int64)
        found, lattices = cls.begun(left[some], right[some])
        for _ in range(rounds):
            found, _ = found.improved(lattices)
        return found

    @classmethod
    def begun(cls, left: Ints, right: Ints) -> tuple[Aligner, list[Lattice]]:
        """All units that occur in pairs, and the alignments of these."""
        count = int(right.max(initial=1))
        parts = [(coded(some, others, count), sizes(some), sizes(others)) for _, some, others in chunked(left, right)]
        codes = np.unique(np.concatenate([np.unique(part) for part, _, _ in parts]))
        codes = codes[codes >= 0]
        chances = np.where(codes % len(SIZES) == 1, 1.0, UNEVEN)
        lattices = [Lattice(places(codes, part), before, after) for part, before, after in parts]
        return cls(codes, chances / chances.sum(), count), lattices

    def improved(self, lattices: Sequence[Lattice]) -> tuple[Aligner, float]:
        """A round of EM, and the log-likelihood before it: count units under these probabilities, then divide."""
        found = [lattice.expected(np.append(self.chances, 0.0)) for lattice in lattices]
        expected = np.sum([counts for counts, _ in found], axis=0)[:-1]
        return dataclasses.replace(self, chances=expected / max(expected.sum(), 1e-9)), sum(odds for _, odds in found)

    def paths(self, left: Ints, right: Ints) -> list[Ints | None]:
        """The codes of the units (L,) of the likeliest alignment of each pair; None if it has none."""
        found: list[Ints | None] = [None] * len(left)
        with np.errstate(divide="ignore"):
            odds = np.log(np.append(self.chances, 0.0))
        for rows, some, others in chunked(left, right):
            units = places(self.codes, coded(some, others, self.count))
            lattice = Lattice(units, sizes(some), sizes(others))
            for row, path in zip(rows, lattice.likeliest(odds), strict=True):
                found[row] = None if path is None else self.codes[path]
        return found


@dataclasses.dataclass(frozen=True, eq=False)
class Lattice:
    """All alignments of N pairs: the unit of each size from each place on."""

    units: Ints
    """(S, L, N, M + 1) the unit of size s after i left and j right tokens; K where it does not fit."""
    left: Ints
    """(N,) the lengths of the left sequences."""
    right: Ints
    """(N,) the lengths of the right sequences."""

    def expected(self, chances: Floats) -> tuple[Floats, float]:
        """How often each unit is used (K + 1,), over all alignments; and the log-likelihood of the pairs that align."""
        weights = chances[self.units]
        _, length, pairs, size = weights.shape
        ahead, odds = self._forward(weights)
        rows = np.arange(pairs)
        total = ahead[self.left, rows, self.right]
        behind = np.zeros((pairs, size))
        for place in reversed(range(length)):
            ends = self.left == place + 1
            behind[ends, self.right[ends]] = 1
            after, behind = behind, np.zeros((pairs, size))
            for number, b in enumerate(SIZES):
                passed = weights[number, place, :, : size - b] * after[:, b:]
                behind[:, : size - b] += passed
                weights[number, place, :, : size - b] = passed * ahead[place, :, : size - b]
                weights[number, place, :, size - b :] = 0
            used = weights[:, place].sum(axis=(0, 2))
            weights[:, place] /= np.where(used > 0, used, 1)[:, None]  # each left token is in one unit
            behind /= np.maximum(behind.max(axis=1, keepdims=True), 1e-300)
        counts = np.bincount(self.units.ravel(), weights.ravel(), minlength=len(chances)).astype(np.float64)
        fits = total > 0
        return counts, float((np.log(total[fits]) + odds[self.left, rows][fits]).sum())

    def _forward(self, weights: Floats) -> tuple[Floats, Floats]:
        """(L + 1, N, M + 1) the probability of the first i and j tokens, each row scaled, and the log of scales."""
        _, length, pairs, size = weights.shape
        ahead, odds = np.zeros((length + 1, pairs, size)), np.zeros((length + 1, pairs))
        ahead[0, :, 0] = 1
        for place in range(length):
            for number, b in enumerate(SIZES):
                ahead[place + 1, :, b:] += ahead[place, :, : size - b] * weights[number, place, :, : size - b]
            scale = ahead[place + 1].max(axis=1)
            scale[scale == 0] = 1
            ahead[place + 1] /= scale[:, None]
            odds[place + 1] = odds[place] + np.log(scale)
        return ahead, odds

    def likeliest(self, odds: Floats) -> list[Ints | None]:
        """The units of the likeliest alignment of each pair (Viterbi); None if it has none."""
        weights = odds[self.units]
        _, length, pairs, size = weights.shape
        best = np.full((length + 1, pairs, size), -np.inf)
        best[0, :, 0] = 0
        chosen = np.zeros(best.shape, dtype=np.int8)
        for place in range(length):
            options = np.full((len(SIZES), pairs, size), -np.inf)
            for number, b in enumerate(SIZES):
                options[number, :, b:] = best[place, :, : size - b] + weights[number, place, :, : size - b]
            chosen[place + 1] = options.argmax(axis=0)
            best[place + 1] = options.max(axis=0)
        return [self._path(row, best, chosen) for row in range(pairs)]

    def _path(self, row: int, best: Floats, chosen: npt.NDArray[np.int8]) -> Ints | None:
        length, j = int(self.left[row]), int(self.right[row])
        if not np.isfinite(best[length, row, j]):
            return None
        path = np.zeros(length, np.int64)
        for place in reversed(range(length)):
            number = int(chosen[place + 1, row, j])
            j -= SIZES[number]
            path[place] = self.units[number, place, row, j]
        return path


def coded(left: Ints, right: Ints, count: int) -> Ints:
    """The number of the unit of each size from each place on: (S, L, N, M + 1); −1 where it does not fit.

    It is made of the left token, two right tokens up to `count`, zero if there is none, and the size.
    """
    first, second = (np.pad(right, ((0, 0), (0, 2)))[None, :, at : at + right.shape[1] + 1] for at in (0, 1))
    token, none = left.T[:, :, None], np.zeros_like(first)
    found = []
    for number, pair in enumerate(((none, none), (first, none), (first, second))):
        fits = (token > 0) & (pair[number - 1] > 0 if number else True)
        code = ((token * (count + 1) + pair[0]) * (count + 1) + pair[1]) * len(SIZES) + number
        found.append(np.where(fits, code, -1))
    return np.stack(found)


def decoded(codes: Ints, count: int) -> tuple[Ints, Ints]:
    """The left token (K,) and the right tokens (K, 2) of units, zeros where there is none."""
    rest = codes // len(SIZES)
    pair, base = rest % (count + 1) ** 2, count + 1
    return rest // base**2, np.stack([pair // base, pair % base], axis=1)


def places(codes: Ints, wanted: Ints) -> Ints:
    """The place of each wanted code among K ascending ones; K if it is none."""
    place = np.searchsorted(codes, wanted)
    return np.where(codes[np.minimum(place, len(codes) - 1)] == wanted, place, len(codes))


def sizes(rows: Ints) -> Ints:
    """The number of tokens in each row."""
    found: Ints = (rows > 0).sum(axis=1)
    return found


def chunked(left: Ints, right: Ints) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Pairs of similar sizes: their rows, and both sides without the columns that are empty."""
    before, after = sizes(left), sizes(right)
    order = np.lexsort((after, before))
    step = max(1, AT_ONCE // (left.shape[1] * (right.shape[1] + 1)))
    for first in range(0, len(order), step):
        rows = order[first : first + step]
        yield rows, left[rows, : before[rows].max()], right[rows, : after[rows].max()]
