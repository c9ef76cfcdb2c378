"""Joint n-grams of pairs of sequences: the units of alignments are the symbols; beam search writes and scores."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from ele_core.numerics.alignment import SIZES, Aligner, chunked, coded, decoded, places, sizes
from ele_core.numerics.ngrams import Floats, Ints, Ngrams

MIX = np.int64(-7046029254386353131)
"""An odd constant: products with it, modulo 2⁶⁴, tell sequences apart."""


class Beam(NamedTuple):
    """Beginnings of alignments, up to the same place of the left sequence."""

    row: Ints
    """The pair, or the left sequence, that each is of."""
    tag: Ints
    """What tells the right tokens so far from those of others: a hash, or their number."""
    state: Ints
    score: Floats
    """log p so far, of all that have the same row, tag and state."""
    parent: Ints
    """The beginning before the last unit, in the beam where it ends."""
    symbol: Ints
    """The last unit."""

    def at(self, rows: Ints) -> Beam:
        """Some of the beginnings."""
        return Beam._make(column[rows] for column in self)

    def kept(self, most: int) -> Beam:
        """The `most` likeliest of each row, after adding up those that go on alike."""
        row, tag, state, score, parent, symbol = self
        key = ((row * MIX ^ state) * MIX ^ tag) * MIX
        order = np.argsort(key, kind="stable")
        first = np.flatnonzero(np.diff(key[order], prepend=~key[order[:1]]))
        one = order[first]
        added = np.logaddexp.reduceat(score[order], first) if len(first) else score
        found = Beam(row[one], tag[one], state[one], added, parent[one], symbol[one])
        return found.at(best(found.row, found.score, most))


class Options(NamedTuple):
    """Units that may follow the beginnings of a beam."""

    parent: Ints
    symbol: Ints
    tag: Ints
    """The tag afterwards."""
    extra: Floats
    """To add to the log-probability of the symbol."""


@dataclasses.dataclass(frozen=True, eq=False)
class JointNgrams:
    """p(left, right) = Σ over alignments Π_t p(unit t | the units before it).

    Symbols 0, …, K − 1 are units, K is the end, and K + 1 any other unit, whose tokens are then drawn evenly.
    """

    codes: Ints
    """(K,) the units, ascending: see `alignment.coded`."""
    count: int
    """The greatest number of a right token."""
    ngrams: Ngrams

    @classmethod
    def learned(cls, aligner: Aligner, paths: Sequence[Ints], order: int) -> Self:
        """Count n-grams of the units of alignments."""
        codes = np.unique(np.concatenate(paths))
        end = len(codes)
        sequences = [np.append(np.searchsorted(codes, path), end) for path in paths]
        return cls(codes, aligner.count, Ngrams.learned(sequences, end + 2, order))

    @property
    def end(self) -> int:
        """The symbol after the last unit."""
        return len(self.codes)

    @property
    def other(self) -> int:
        """The symbol of units that no training pair has."""
        return len(self.codes) + 1

    # -- writing ----------------------------------------------------------------------------------------------------
    def write(self, left: Ints, beam: int, most: int) -> tuple[list[list[int]], Ints]:
        """The likeliest right sequences for each row, at most `most`, the best first; and their rows, ascending."""
        beams = self._searched(left, beam, lambda here, going, place: self._written(left, here, going, place))
        length, ended = sizes(left), self._ended(beams, sizes(left))
        found = ended._replace(state=np.zeros_like(ended.state)).kept(most)
        pairs = zip(found.row, found.parent, strict=True)
        return [self._traced(beams, length[row], parent) for row, parent in pairs], found.row

    def _written(self, left: Ints, here: Beam, going: Ints, place: int) -> Options:
        """The units of the left token at this place; another that writes nothing, if there is none."""
        token = left[here.row[going], place]
        first, last = np.searchsorted(self._left, token), np.searchsorted(self._left, token, side="right")
        many = last - first
        parent = np.concatenate([np.repeat(going, many), going[many == 0]])
        symbol = np.concatenate([spans(first, many), np.full(np.count_nonzero(many == 0), self.other)])
        tag = here.tag[parent]
        for own in self._right[symbol].T:
            tag = np.where(own > 0, mixed(tag, own), tag)
        return Options(parent, symbol, tag, np.zeros(len(tag)))

    def _traced(self, beams: Sequence[Beam], place: int, at: int) -> list[int]:
        """The right tokens of a beginning, followed back to the start."""
        tokens: list[int] = []
        for here in reversed(beams[1 : place + 1]):
            tokens += [token for token in self._right[here.symbol[at]][::-1].tolist() if token]
            at = here.parent[at]
        return tokens[::-1]

    # -- scoring ----------------------------------------------------------------------------------------------------
    def scores(self, left: Ints, right: Ints, beam: int) -> Floats:
        """The log-probability of pairs: (N,)."""
        found = np.zeros(len(left))
        for rows, some, others in chunked(left, right):
            found[rows] = self._scored(some, others, beam)
        return found

    def _scored(self, left: Ints, right: Ints, beam: int) -> Floats:
        codes = coded(left, right, self.count)
        units = places(self.codes, codes)

        def options(here: Beam, going: Ints, place: int) -> Options:
            found = []
            for number, size in enumerate(SIZES):
                at = (number, place, here.row[going], here.tag[going])
                fits = codes[at] >= 0
                parent, unit = going[fits], units[at][fits]
                known = unit < self.end
                extra = np.where(known, 0.0, -size * np.log(self.count))
                found.append((parent, np.where(known, unit, self.other), here.tag[parent] + size, extra))
            return Options(*(np.concatenate(columns) for columns in zip(*found, strict=True)))

        ended = self._ended(self._searched(left, beam, options), sizes(left))
        other, _ = self.ngrams.step(np.zeros(1, np.int64), np.full(1, self.other))
        missing = sizes(right)[ended.row] - ended.tag
        score = ended.score + missing * (other - np.log(self.count))
        total = np.full(len(left), -np.inf)
        np.logaddexp.at(total, ended.row, score)
        return total

    # -- the search -------------------------------------------------------------------------------------------------
    def _searched(self, left: Ints, beam: int, options: Callable[[Beam, Ints, int], Options]) -> list[Beam]:
        """The beginnings kept at each place of the left sequences: the beam of `place` tokens, for each place."""
        none = np.zeros(len(left), np.int64)
        begin = Beam(np.arange(len(left)), none, none + self.ngrams.begin, np.zeros(len(left)), none, none)
        length, beams = sizes(left), [begin]
        for place in range(left.shape[1]):
            here = beams[-1]
            found = options(here, np.flatnonzero(length[here.row] > place), place)
            odds, state = self.ngrams.step(here.state[found.parent], found.symbol)
            score = here.score[found.parent] + odds + found.extra
            after = Beam(here.row[found.parent], found.tag, state, score, found.parent, found.symbol)
            beams.append(after.kept(beam))
        return beams

    def _ended(self, beams: Sequence[Beam], length: Ints) -> Beam:
        """The beginnings that reached the end of their row, with its probability; `parent` is their own place."""
        ended = []
        for place, here in enumerate(beams):
            own = np.flatnonzero(length[here.row] == place)
            odds, _ = self.ngrams.step(here.state[own], np.full(len(own), self.end))
            ended.append(here.at(own)._replace(score=here.score[own] + odds, parent=own))
        return Beam(*(np.concatenate(columns) for columns in zip(*ended, strict=True)))

    @cached_property
    def _left(self) -> Ints:
        """(K,) the left token of each unit, ascending as the codes."""
        return decoded(self.codes, self.count)[0]

    @cached_property
    def _right(self) -> Ints:
        """(K + 2, 2) the right tokens of each symbol."""
        return np.pad(decoded(self.codes, self.count)[1], ((0, 2), (0, 0)))

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """All numbers, by name."""
        ngrams = {field.name: np.asarray(getattr(self.ngrams, field.name)) for field in dataclasses.fields(Ngrams)}
        return {"codes": self.codes, "count": np.asarray(self.count), **ngrams}

    @classmethod
    def restored(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Self:
        """The inverse of `arrays`; raises `ValueError` if these do not fit together."""
        own: dict[str, Any] = {field.name: arrays[field.name] for field in dataclasses.fields(Ngrams)}
        ngrams = Ngrams(**own | {name: int(own[name]) for name in ("symbols", "begin")})
        made = cls(arrays["codes"], int(arrays["count"]), ngrams)
        ngrams.check()
        fits = (
            ngrams.symbols == made.end + 2 and made.count > 0 and made.codes.dtype == np.int64 and made.codes.ndim == 1
        )
        if not fits or (np.diff(made.codes, prepend=-1) <= 0).any():
            raise ValueError("the units do not fit the n-grams")
        return made


def best(row: Ints, score: Floats, most: int) -> Ints:
    """The places of the `most` highest scores of each row, by row and then by score."""
    order = np.lexsort((-score, row))
    first = np.searchsorted(row[order], row[order])
    return order[np.arange(len(order)) - first < most]


def spans(begin: Ints, many: Ints) -> Ints:
    """The numbers begin, begin + 1, … of each span, `many` of them, one span after the other."""
    ends = np.cumsum(many)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(begin - ends + many, many)


def mixed(tag: Ints, token: Ints) -> Ints:
    """A hash of a sequence with one token more."""
    product = (tag + token) * MIX
    return product ^ (product >> 29)
