"""N-gram models with interpolated modified Kneser–Ney smoothing, as automata that score many sequences at once."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

LEAST = 0.1
"""What discounts take and leave of a count, at least."""


@dataclasses.dataclass(frozen=True, eq=False)
class Ngrams:
    """p(symbol | the symbols before it) as an automaton whose states are contexts; state 0 is the empty one.

    Symbols are 0, …, `symbols` − 1; the last is never counted: it shares what is left for symbols unseen in training.
    """

    symbols: int
    keys: Ints
    """(G,) state · symbols + symbol of each n-gram, ascending."""
    odds: Floats
    """(G,) log p of the symbol in its context."""
    onward: Ints
    """(G,) the state after it: its longest ending that is the context of something."""
    shorter: Ints
    """(C,) the state of each context without its first symbol."""
    retreat: Floats
    """(C,) the log of what each context leaves for symbols that do not follow it."""
    begin: int
    """The state before the first symbol of a sequence."""

    @classmethod
    def learned(cls, sequences: list[Ints], symbols: int, order: int) -> Ngrams:
        """Count n-grams of up to `order` symbols; give each sequence with its end, if that is a symbol."""
        return cls.smoothed(Counts.of(sequences, symbols, order))

    @classmethod
    def smoothed(cls, counts: Counts) -> Ngrams:
        """The probabilities of counted n-grams."""
        symbols, size = counts.symbols, len(counts.parent)
        chance = np.full(size, 1 / symbols)
        left = np.ones(size)
        for first, end in counts.orders:
            own = np.arange(first, end)
            seen = own[counts.seen[own] > 0]
            taken = discounts(counts.seen[seen])
            context = counts.parent[seen]
            total = np.bincount(context, counts.seen[seen], minlength=size)
            saved = np.bincount(context, taken, minlength=size)
            used = total > 0
            left[used] = saved[used] / total[used]
            chance[own] = 0
            chance[seen] = (counts.seen[seen] - taken) / total[context]
            lower = chance[counts.shorter[own]] if first > 1 else 1 / symbols
            chance[own] += left[counts.parent[own]] * lower
        leads = np.zeros(size, np.bool_)
        leads[counts.parent[1:]] = True
        onward = np.arange(size)
        for first, end in counts.orders:
            own = np.arange(first, end)
            onward[own] = np.where(leads[own], own, onward[counts.shorter[own]])
        keys = counts.parent * symbols + counts.symbol
        arcs = 1 + np.argsort(keys[1:])
        arcs = arcs[arcs != counts.begin]
        contexts = np.flatnonzero(leads)
        number = np.cumsum(leads) - 1
        return cls(
            symbols,
            number[counts.parent[arcs]] * symbols + counts.symbol[arcs],
            np.log(chance[arcs]),
            number[onward[arcs]],
            number[onward[counts.shorter[contexts]]],
            np.log(left[contexts]),
            int(number[onward[counts.begin]]),
        )

    def step(self, states: Ints, symbols: Ints) -> tuple[Floats, Ints]:
        """The log-probability of a symbol in each state, and the state after it: (N,), (N,)."""
        odds, onward = np.zeros(len(states)), np.zeros(len(states), np.int64)
        open_, at = np.arange(len(states)), states
        while len(open_):
            key = at * self.symbols + symbols[open_]
            place = np.minimum(np.searchsorted(self.keys, key), len(self.keys) - 1)
            found = self.keys[place] == key
            odds[open_[found]] += self.odds[place[found]]
            onward[open_[found]] = self.onward[place[found]]
            open_, at = open_[~found], at[~found]
            odds[open_] += self.retreat[at]
            ended = at == 0
            odds[open_[ended]] -= np.log(self.symbols)
            open_, at = open_[~ended], self.shorter[at[~ended]]
        return odds, onward

    def check(self) -> None:
        """Raise `ValueError` if the arrays do not fit together, so that `step` would fail or never end."""
        contexts, grams = len(self.shorter), len(self.keys)
        same = self.odds.shape == self.onward.shape == self.keys.shape == (grams,)
        same = same and self.retreat.shape == self.shorter.shape == (contexts,) and grams > 0 and contexts > 0
        same = same and all(numbers.dtype == np.int64 for numbers in (self.keys, self.onward, self.shorter))
        if not same:
            raise ValueError("the n-grams have other shapes or types")
        states = np.concatenate([self.onward.ravel(), self.shorter.ravel(), [self.begin]])
        if states.min() < 0 or states.max() >= contexts:
            raise ValueError("the n-grams name states that there are not")
        if (self.shorter[1:] >= np.arange(1, contexts)).any() or (np.diff(self.keys) <= 0).any():
            raise ValueError("the n-grams are not in order")


@dataclasses.dataclass(frozen=True, eq=False)
class Counts:
    """The n-grams of sequences: number 0 is the empty one, then those of one symbol, of two, and so on."""

    symbols: int
    symbol: Ints
    """(G,) the last symbol."""
    parent: Ints
    """(G,) the n-gram without its last symbol."""
    shorter: Ints
    """(G,) the n-gram without its first symbol."""
    seen: Floats
    """(G,) how often it occurs, if it is of the highest order or begins a sequence; else after how many symbols."""
    orders: list[tuple[int, int]]
    """The first number of each order, and the end."""
    begin: int
    """The n-gram that is only the beginning of a sequence."""

    @classmethod
    def of(cls, sequences: list[Ints], symbols: int, order: int) -> Counts:
        """Count the n-grams of sequences; `symbols` stands for the beginning."""
        text = np.concatenate([np.concatenate([[symbols], sequence]) for sequence in sequences]).astype(np.int64)
        place = np.concatenate([np.arange(len(sequence) + 1) for sequence in sequences])
        grams = np.zeros(len(text), np.int64)
        found = [(np.array([symbols]), np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1))]
        orders, first = [], 1
        for length in range(1, order + 1):
            ends = np.flatnonzero(place >= length - 1)
            before = grams[ends - 1] if length > 1 else grams[ends]
            _, at, group, times = np.unique(
                before * (symbols + 1) + text[ends], return_index=True, return_inverse=True, return_counts=True
            )
            shorter, begins = grams[ends][at], place[ends][at] == length - 1
            found.append((text[ends][at], before[at], shorter, times * (begins | (length == order))))
            orders.append((first, first + len(at)))
            grams = np.zeros(len(text), np.int64)
            grams[ends] = first + group
            first += len(at)
        symbol, parent, shorter, seen = (np.concatenate(parts) for parts in zip(*found, strict=True))
        last = orders[-1][0]
        after = np.bincount(shorter[orders[1][0] :] if order > 1 else [], minlength=first)
        seen = np.where((seen == 0) & (np.arange(first) < last), after, seen)
        begin = int(np.flatnonzero((parent == 0) & (symbol == symbols))[-1])
        seen[[0, begin]] = 0
        return cls(symbols, symbol, parent, shorter, seen, orders, begin)


def discounts(seen: Floats) -> Floats:
    """What is taken from each count, by the shares of counts of one to four (Chen and Goodman)."""
    one, two, three, four = (int(np.count_nonzero(seen == times)) for times in (1, 2, 3, 4))
    share = one / max(1, one + 2 * two)
    after = ((one, two), (two, three), (three, four))
    rates = [n - (n + 1) * share * b / max(1, a) for n, (a, b) in enumerate(after, start=1)]
    taken = np.array([min(max(rate, LEAST), times - LEAST) for times, rate in enumerate(rates, start=1)])
    return taken[np.minimum(seen, 3).astype(np.int64) - 1]
