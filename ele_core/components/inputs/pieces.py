"""Pieces: frequent parts of the training texts as tokens, learned by byte-pair merging, cut by the longest match."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ele_core.components.inputs.tokens import ANY_CHARACTER, SPECIAL, Tokens

LONGEST_PIECE = 64
"""Characters in the longest piece: a limit on the time that cutting takes, also with a file from somebody else."""
SAMPLE_TEXTS, SAMPLE_CHARACTERS = 20_000, 2_000_000
"""Maximum number of training texts, and roughly of characters, from which pieces are learned."""
LARGEST_TABLE = 1 << 22
"""Pairs of tokens that are counted in a table; more of them are sorted."""

Numbers = npt.NDArray[np.int64]


class Pieces(Tokens):
    """A vocabulary of pieces: at each place of a text the longest piece that matches is the next token.

    A character at which no piece begins is an unknown token. `characters` is the vocabulary of the single characters.
    """

    def __init__(self, names: Sequence[str]) -> None:
        pieces = names[len(SPECIAL) :]
        _check(pieces)
        super().__init__(names, _pattern(pieces), PieceCutter(pieces))
        self.characters = Tokens([*SPECIAL, *(piece for piece in pieces if len(piece) == 1)], ANY_CHARACTER, list)
        numbers = {name: number for number, name in enumerate(self.characters.names)}
        spelled = [[0], [1], *([numbers.get(character, 1) for character in piece] for piece in pieces)]
        self._sizes = torch.tensor([len(row) for row in spelled])
        self._spelled = torch.tensor(list(chain.from_iterable(spelled)))

    @classmethod
    def learn(cls, texts: Sequence[str], size: int, min_frequency: int) -> Pieces:
        """All characters of `texts`, the most frequent first, then pieces in the order of merging, `size` in all.

        Characters rarer than `min_frequency` are skipped, and pieces that are rarer in the sample or occur only once.
        """
        counts = Counter(character for character in chain.from_iterable(texts) if not _is_half(character))
        common = sorted((-count, character) for character, count in counts.items() if count >= min_frequency)
        pieces = merged(sample(texts), [character for _, character in common], size, max(2, min_frequency))
        return cls([*SPECIAL, *(piece for piece in pieces if piece not in SPECIAL)])

    def spell(self, tokens: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Pieces (B, L), valid where `mask` is True → their characters (B, C), padded, and how many there are (B,)."""
        pieces, row = tokens[mask].long().cpu(), mask.nonzero()[:, 0].cpu()
        sizes = self._sizes[pieces]
        lengths = torch.zeros(len(tokens), dtype=torch.int64).index_add_(0, row, sizes)
        starts = (self._sizes.cumsum(0) - self._sizes)[pieces] - (sizes.cumsum(0) - sizes)
        flat = self._spelled[starts.repeat_interleave(sizes) + torch.arange(int(sizes.sum()))]
        spelled = torch.zeros(len(tokens), max(1, int(lengths.max())) if len(tokens) else 1, dtype=torch.int64)
        spelled[torch.arange(spelled.shape[1]) < lengths[:, None]] = flat
        return spelled.to(tokens.device), lengths.int().to(tokens.device)


class PieceCutter:
    """Cuts a text into the longest pieces that match, from the left; any other character is a token of its own."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self._pieces = frozenset(pieces)
        sizes: dict[str, set[int]] = {}  # of the pieces that begin with the same two characters
        for piece in pieces:
            if len(piece) > 1:
                sizes.setdefault(piece[:2], set()).add(len(piece))
        self._sizes = {start: sorted(found, reverse=True) for start, found in sizes.items()}

    def __call__(self, text: str) -> list[str]:
        pieces, sizes, tokens, start, end = self._pieces, self._sizes, list[str](), 0, len(text)
        while start < end:
            token = text[start]
            for size in sizes.get(text[start : start + 2], ()):
                longer = text[start : start + size]
                if longer in pieces:
                    token = longer
                    break
            tokens.append(token)
            start += len(token)
        return tokens


def sample(texts: Sequence[str]) -> list[str]:
    """Evenly spaced texts, within the limits `SAMPLE_TEXTS` and `SAMPLE_CHARACTERS`; all of them if there are few."""
    fitting = SAMPLE_CHARACTERS * len(texts) // max(1, sum(map(len, texts)))
    count = min(len(texts), SAMPLE_TEXTS, max(1, fitting))
    return [texts[place * len(texts) // count] for place in range(count)]


def merged(texts: Sequence[str], characters: Sequence[str], size: int, least: int) -> list[str]:
    """`characters`, then the pieces that merging the most frequent pair of neighbours adds, until there are `size`.

    Ends early if no pair occurs `least` times. Of equally frequent pairs the alphabetically first is merged. Characters
    of `texts` that are not among `characters` are in no piece.
    """
    pieces, flat = list(characters), _flat(texts, characters)
    numbers = {piece: number for number, piece in enumerate(pieces)}
    while len(pieces) < size:
        pair = _most_frequent(flat, pieces, least)
        if pair is None:
            break
        piece = pieces[pair[0]] + pieces[pair[1]]
        if piece not in numbers:  # another pair may have made the same piece
            numbers[piece] = len(pieces)
            pieces.append(piece)
        flat = _replaced(flat, pair, numbers[piece])
    return pieces


def _flat(texts: Sequence[str], characters: Sequence[str]) -> Numbers:
    """The numbers of all characters; -1 between texts and for a character that is not among `characters`."""
    table = np.full(0x110000, -1)
    table[[ord(character) for character in characters]] = np.arange(len(characters))
    # Half of a surrogate pair is no character of a vocabulary: one stands between texts.
    codes = np.frombuffer("\ud800".join(texts).encode("utf-32-le", "surrogatepass"), dtype="<u4")
    numbers: Numbers = table[codes]
    return numbers


def _most_frequent(flat: Numbers, pieces: list[str], least: int) -> tuple[int, int] | None:
    sizes = np.array([*map(len, pieces), LONGEST_PIECE])[flat]  # -1 finds the last: such pairs are too long
    pairs = (flat[:-1] * len(pieces) + flat[1:])[sizes[:-1] + sizes[1:] <= LONGEST_PIECE]
    if len(pieces) ** 2 <= LARGEST_TABLE:
        counts, keys = np.bincount(pairs), None
    else:
        keys, counts = np.unique(pairs, return_counts=True)
    if counts.max(initial=0) < least:
        return None
    places = np.flatnonzero(counts == counts.max())
    found = [divmod(int(key), len(pieces)) for key in (places if keys is None else keys[places])]
    return min(found, key=lambda pair: (pieces[pair[0]], pieces[pair[1]]))


def _replaced(flat: Numbers, pair: tuple[int, int], number: int) -> Numbers:
    """`flat` with `number` for each occurrence of the pair, from the left and without overlap."""
    places = np.flatnonzero((flat[:-1] == pair[0]) & (flat[1:] == pair[1]))
    if pair[0] == pair[1]:  # in a run of equal tokens, only every second place
        begins = np.flatnonzero(np.diff(places, prepend=-2) != 1)
        run = np.cumsum(np.diff(places, prepend=-2) != 1) - 1
        places = places[(np.arange(len(places)) - begins[run]) % 2 == 0]
    flat[places] = number
    return np.delete(flat, places + 1)


def _pattern(pieces: Sequence[str]) -> str:
    """The regular expression that cuts as `PieceCutter` does."""
    return "|".join([*map(re.escape, sorted(pieces, key=len, reverse=True)), ANY_CHARACTER])


def _is_half(character: str) -> bool:
    """Whether it is half of a surrogate pair, which is not a character and cannot be saved."""
    return "\ud800" <= character <= "\udfff"


def _check(pieces: Sequence[str]) -> None:
    for piece in pieces:
        if not 1 <= len(piece) <= LONGEST_PIECE:
            msg = f"a piece has {len(piece)} characters instead of 1 to {LONGEST_PIECE}"
            raise ValueError(msg)
        if any(map(_is_half, piece)):
            msg = "a piece has half of a surrogate pair"
            raise ValueError(msg)
