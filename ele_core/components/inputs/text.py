"""Text inputs: characters, regex matches or frequent pieces as tokens; the training texts give the vocabulary."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field, PositiveInt, model_validator
from torch import Tensor
from torch.nn import functional

from ele_core.component import ComponentConfig
from ele_core.components.inputs.pieces import Pieces
from ele_core.components.inputs.seen_texts import SeenTexts
from ele_core.components.inputs.tokens import ANY_CHARACTER, SPECIAL, Cutter, Tokens
from ele_core.errors import ConfigError, EleError, InvalidInput, ModelError, damaged
from ele_core.files.archive import brief, read_json
from ele_core.interfaces import InputSpace
from ele_core.numerics.edit_distance import edit_distances
from ele_core.numerics.keys import mix
from ele_core.numerics.sparse import Products, SparseRows
from ele_core.numerics.tensors import Tensors

PADDING = 0
"""The token after the end of a text."""
UNKNOWN = 1
"""The token that stands for every token outside the vocabulary."""
SHORTLIST, SHORTLISTED_AT_ONCE = 64, 128
"""Texts whose edit distance from a text is measured to find the nearest, and texts compared at a time."""
WORD = r"\w+"
"""What is a word at level `auto`; what is between two words is a token too."""
AGAIN, NEW = 10, 0.01
"""At level `auto` words are tokens if each occurs so often on average, and so few texts of a hundred have a new one."""
PIECES = 1000
"""The default of `pieces`."""
LONGEST = 1 << 16
"""The greatest `max_length`: a limit on the width of batches, which a file from somebody else may set."""


@dataclass(frozen=True, eq=False)
class Texts(Tensors):
    """Tokenised texts; row i holds `lengths[i]` tokens, at least one, and then padding."""

    tokens: Tensor
    """(B, L) int16, or int32 when the vocabulary is large."""
    lengths: Tensor
    """(B,) int32."""

    def trimmed(self) -> Self:
        """The same texts without the columns that are padding in every row."""
        longest = int(self.lengths.max()) if len(self) else 1
        return self.replace(tokens=self.tokens[:, :longest])

    @property
    def mask(self) -> Tensor:
        """(B, L) True at tokens, False at padding."""
        return torch.arange(self.tokens.shape[1], device=self.device) < self.lengths[:, None]

    @property
    def known(self) -> Tensor:
        """(B,) True for texts whose tokens are all in the vocabulary."""
        return (self.tokens != UNKNOWN).all(dim=1)


class TextInput(InputSpace[str]):
    """Texts as sequences of tokens.

    Nothing is stripped, lower-cased or normalised. The vocabulary is what the training texts hold; a token outside it
    and a text above `max_length` are handled by the rules `unknown` and `on_long`. An empty text is invalid.
    """

    class Config(ComponentConfig):
        """How texts are cut into tokens, and what happens to those that do not fit."""

        level: Literal["auto", "character", "regex", "pieces"] = "auto"
        """`auto`: words if other texts will hardly have new ones, else characters. `character`: each character is a
        token. `regex`: each match of `pattern` is one. `pieces`: frequent pieces of the training texts are tokens, so
        that sequences are shorter and networks train faster."""
        pattern: str | None = None
        """The regular expression of level `regex`. Text between two matches is a token as well, so that nothing of the
        input is lost. With the package tokenizers it may have any syntax of Oniguruma, without it only what Python
        reads alike."""
        pieces: PositiveInt | None = None
        """The size of the vocabulary of level `pieces`, single characters among it; None: 1,000. It comes from merging
        the most frequent pair of neighbours, on at most 20,000 training texts; a text is cut into the longest pieces
        that match, from the left. Kernels, nearest inputs and warnings about unusual inputs still compare characters.
        """
        min_frequency: PositiveInt = 1
        """Tokens rarer than this in the training texts are unknown, which also teaches a model the unknown token."""
        unknown: Literal["token", "error"] = "token"
        """A token outside the vocabulary: `token` reads it as `<unk>`, `error` refuses the text. The training texts
        themselves are never refused if `min_frequency` is 1."""
        max_length: int | None = Field(default=None, ge=1, le=LONGEST)
        """Maximum number of tokens in a text. By default twice that of the longest training text (at level `pieces`,
        twice its characters), so held-out texts that are a little longer still fit."""
        on_long: Literal["error", "truncate"] = "error"
        """A text above `max_length`: `error` refuses it, `truncate` keeps its first `max_length` tokens."""
        ends: bool = True
        """Whether kernels, which compare runs of tokens, also see where a text begins and ends."""

        @model_validator(mode="after")
        def _check_pattern(self) -> Self:
            if (self.level == "regex") != (self.pattern is not None):
                msg = "`pattern` must be given with level 'regex', and with no other level"
                raise ValueError(msg)
            if self.pattern is not None:
                _check_regex(self.pattern)
            if self.level != "pieces" and self.pieces is not None:
                msg = "`pieces` must be given with level 'pieces' only"
                raise ValueError(msg)
            return self

    config: Config
    Batch: ClassVar[type[Tensors]] = Texts

    def __init__(self, config: ComponentConfig | None = None) -> None:
        super().__init__(config)
        self._tokens: Tokens | None = None
        self._max_length = 0
        self._seen: SeenTexts | None = None

    @property
    def vocabulary_size(self) -> int:
        """The number of different tokens, padding and unknown among them."""
        return len(self._fitted())

    @property
    def names(self) -> list[str]:
        """The text of each token, by its number."""
        return self._fitted().names

    @property
    def max_length(self) -> int:
        """Maximum number of tokens in a text: the width of every batch, so batches can be joined."""
        self._fitted()
        return self._max_length

    def parse(self, text: str) -> str:
        """Return the text unchanged; refuse an empty one."""
        _check_text(text, 0)
        return text

    def format(self, value: str) -> str:
        """The text itself."""
        return value

    def fit(self, values: Sequence[str]) -> None:
        """Learn the vocabulary, the most frequent tokens first, and `max_length` unless it is configured."""
        texts = _checked(values)
        if not texts:
            what = "there are no texts to learn a vocabulary from."
            raise InvalidInput(what, fix="Give at least one training text.")
        tokens = self._learned(texts)
        seen = SeenTexts.learned(_compared(tokens).encode(texts))
        self._tokens, self._max_length = tokens, min(self.config.max_length or 2 * seen.longest, LONGEST)
        self._seen = seen

    def pack(self, values: Sequence[str]) -> Texts:
        """Texts → tokens (B, max_length) and lengths (B,)."""
        vocabulary = self._fitted()
        texts = _checked(values)
        if vocabulary.pattern == ANY_CHARACTER:  # as many tokens as characters: long texts need not be cut first
            self._refuse_long(list(map(len, texts)))
        rows = list(vocabulary.encode(texts))
        lengths = np.fromiter(map(len, rows), dtype=np.int32, count=len(rows))
        self._refuse_long(lengths)
        dtype = np.int16 if self.vocabulary_size <= np.iinfo(np.int16).max else np.int32
        tokens, lengths = _padded(rows, lengths, self._max_length, dtype)
        if self.config.unknown == "error":
            self._refuse_unknown(tokens, texts)
        return Texts(torch.from_numpy(tokens), torch.from_numpy(lengths))

    def unpack(self, batch: Texts) -> list[str]:
        """The inverse of `pack`; an unknown token comes back as `<unk>`."""
        names = self._fitted().names
        rows = zip(batch.tokens.tolist(), batch.lengths.tolist(), strict=True)
        return ["".join(names[token] for token in tokens[:length]) for tokens, length in rows]

    def examples(self) -> list[str]:
        """Short texts of several lengths."""
        return ["one two", "two one", "three", "one hundred and one"]

    def features(self, batch: Tensors, *, grams: int = 4) -> SparseRows:
        """Counts of the runs of one to `grams` tokens in each text; of characters at level `pieces`.

        With `ends`, the beginning and the end of a text are tokens too.
        """
        assert isinstance(batch, Texts)
        spelled = self._spelled(batch)
        return gram_counts(with_ends(spelled) if self.config.ends else spelled, grams)

    def nearest(self, batch: Tensors, others: Tensors) -> tuple[Tensor, Tensor]:
        """By the edit distance, among the texts that share the most runs of up to three tokens.

        At level `pieces` both count characters.
        """
        assert isinstance(batch, Texts)
        assert isinstance(others, Texts)
        return nearest_texts(self._spelled(batch), self._spelled(others))

    def properties(self, value: str) -> dict[str, Any]:
        """The `text`, and the number of its `characters` and of its `words`, which spaces separate."""
        return {"text": value, "characters": len(value), "words": len(value.split())}

    @classmethod
    def defaults(cls, pairs: int) -> dict[str, Any]:
        """A recurrent network whose size follows the number of pairs, and a kernel on runs of tokens."""
        width = 256 if pairs >= 3000 else 128
        gru = {"name": "gru", "embedding": 64, "layers": 1 if pairs < 30_000 else 2, "width": width, "dropout": 0.3}
        return {"backbone": gru, "kernel": {"kernel": "cosine", "grams": 6}}

    def sizes(self, batch: Tensors) -> Tensor | None:
        """(B,) the number of tokens in each text."""
        return batch.lengths if isinstance(batch, Texts) else None

    def unlike_training(self, values: Sequence[str]) -> list[str]:
        """Texts with an unknown token, longer than all training texts, or mostly of unseen pairs of tokens.

        At level `pieces` lengths and pairs are those of characters.
        """
        vocabulary, seen = _compared(self._fitted()), self._seen
        if seen is None:  # a model of an earlier version
            return [""] * len(values)
        texts, unit = _checked(values), "characters" if self.config.level == "pieces" else "tokens"
        return [
            f"unknown token {vocabulary.cut(text)[row.index(UNKNOWN)]!r}" if UNKNOWN in row else seen.unlike(row, unit)
            for text, row in zip(texts, vocabulary.encode(texts), strict=True)
        ]

    def save(self, folder: Path) -> None:
        """Write `tokenizer.json`, in the format of the `tokenizers` library; its truncation holds `max_length`.

        `seen-texts.json` holds what `unlike_training` needs.
        """
        (folder / _FILE).write_text(self._fitted().as_json(self._max_length), encoding="utf-8")
        if self._seen is not None:
            (folder / _SEEN).write_text(self._seen.as_json(), encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Read the vocabulary and `max_length` that `save` wrote; the configuration says how texts are cut.

        The library's own reader is not used: a file could also make it build normalisers, or padding to any length.
        """
        file = folder / _FILE
        names, self._max_length = _stored(file)
        self._seen = SeenTexts.read(folder / _SEEN) if (folder / _SEEN).exists() else None
        try:
            cut_in_words = self.config.level == "auto" and any(len(name) > 1 for name in names[len(SPECIAL) :])
            pattern = WORD if cut_in_words else self._pattern
            self._tokens = Pieces(names) if self.config.level == "pieces" else Tokens(names, pattern)
        except EleError:
            raise
        except Exception as error:  # the library raises bare Exceptions, for example for half a surrogate pair
            raise damaged(f"the vocabulary cannot be used: {brief(error)}.", file) from error

    @property
    def _pattern(self) -> str:
        return self.config.pattern or ANY_CHARACTER

    def _learned(self, texts: list[str]) -> Tokens:
        if self.config.level == "pieces":
            return Pieces.learn(texts, self.config.pieces or PIECES, self.config.min_frequency)
        in_words = self.config.level == "auto" and repeats_words(texts)
        return Tokens.learned(texts, WORD if in_words else self._pattern, self.config.min_frequency)

    def _spelled(self, batch: Texts) -> Texts:
        """The texts as characters if their tokens are pieces, else as they are."""
        vocabulary = self._fitted()
        return Texts(*vocabulary.spell(batch.tokens, batch.mask)) if isinstance(vocabulary, Pieces) else batch

    def _fitted(self) -> Tokens:
        if self._tokens is None:
            what = "this text input has no vocabulary yet."
            raise ModelError(what, fix="Call `fit` with the training texts, or `load`, first.")
        return self._tokens

    def _refuse_long(self, lengths: Sequence[int] | npt.NDArray[np.int32]) -> None:
        too_long = np.flatnonzero(np.asarray(lengths) > self._max_length)
        if len(too_long) and self.config.on_long == "error":
            index = int(too_long[0])
            what = f"the text has {lengths[index]} tokens, and the limit is {self._max_length}."
            fix = "Train with a larger `max_length`, or set `on_long` to 'truncate' to cut such texts."
            raise InvalidInput(what, index=index, fix=fix)

    def _refuse_unknown(self, tokens: npt.NDArray[Any], texts: list[str]) -> None:
        rows, columns = np.nonzero(tokens == UNKNOWN)
        if len(rows):
            index, position = int(rows[0]), int(columns[0])
            token = self._fitted().cut(texts[index])[position]
            what = f"the text has the token {token!r}, which is not in the vocabulary."
            fix = "Train on texts that contain it, or set `unknown` to 'token' to read it as <unk>."
            raise InvalidInput(what, index=index, fix=fix)


def repeats_words(texts: Sequence[str]) -> bool:
    """Whether the words of these texts will hardly ever be new in other ones.

    By Good and Turing, a word of another text is new with the probability h / n, for n words of which h occur once.
    """
    words = [word for text in texts for word in re.findall(WORD, text)]
    counts = Counter(words)
    once = sum(count == 1 for count in counts.values())
    several = len(words) >= 2 * len(texts)
    return several and len(words) >= AGAIN * len(counts) and once <= NEW * len(texts)


def nearest_texts(batch: Texts, others: Texts) -> tuple[Tensor, Tensor]:
    """The row of `others` nearest to each text by the edit distance, and the distance: (B,), (B,) float.

    Only the `SHORTLIST` texts with the most similar counts of runs of one to three tokens are compared.
    """
    products, found = Products(gram_counts(others, 3).normalised()), []
    for part in batch.chunks(SHORTLISTED_AT_ONCE) if len(batch) else []:
        likely = products(gram_counts(part, 3).normalised()).topk(min(SHORTLIST, len(others)), dim=1).indices
        left = part[torch.arange(len(part)).repeat_interleave(likely.shape[1])]
        right = others[likely.flatten()]
        width = int(max(left.lengths.max(), right.lengths.max()))
        distances = edit_distances(left.tokens[:, :width], right.tokens[:, :width]).view_as(likely)
        least = distances.min(dim=1)
        found.append((likely.gather(1, least.indices[:, None])[:, 0], least.values))
    if not found:
        return torch.zeros(0, dtype=torch.int64), torch.zeros(0)
    return torch.cat([rows for rows, _ in found]), torch.cat([distances for _, distances in found])


def with_ends(texts: Texts) -> Texts:
    """The texts with one token more before the first and after the last."""
    tokens = functional.pad(texts.tokens.long(), (1, 1))
    tokens[:, 0] = BEGIN
    tokens[torch.arange(len(tokens), device=tokens.device), texts.lengths.long() + 1] = END
    return Texts(tokens, texts.lengths + 2)


def gram_counts(texts: Texts, longest: int) -> SparseRows:
    """How often each run of one to `longest` tokens occurs in each text: the features of the spectrum kernel.

    The key of a run is a hash of its tokens in their order.
    """
    texts = texts.trimmed()
    tokens = mix(texts.tokens.long())
    runs = torch.zeros_like(tokens)
    keys, present = [], []
    for length in range(1, min(longest, tokens.shape[1]) + 1):
        width = tokens.shape[1] - length + 1
        runs = mix(runs[:, :width] * 2 + tokens[:, length - 1 :] + length)
        keys.append(runs)
        present.append(texts.mask[:, length - 1 :])
    return SparseRows.counted(torch.cat(keys, dim=1), torch.cat(present, dim=1))


BEGIN, END = -1, -2
"""Tokens for the beginning and the end of a text; no vocabulary has them."""
_FILE, _SEEN = "tokenizer.json", "seen-texts.json"


def _compared(vocabulary: Tokens) -> Tokens:
    """The vocabulary by whose tokens texts are compared."""
    return vocabulary.characters if isinstance(vocabulary, Pieces) else vocabulary


def _check_regex(pattern: str) -> None:
    try:
        Cutter(pattern)
    except ConfigError as error:
        raise ValueError(str(error)) from error
    except ValueError as error:
        msg = f"`pattern` is not a regular expression: {error}"
        raise ValueError(msg) from error


def _checked(values: Sequence[str]) -> list[str]:
    texts = list(values)
    for index, text in enumerate(texts):
        _check_text(text, index)
    return texts


def _check_text(text: object, index: int) -> None:
    if not isinstance(text, str):
        what = f"got {type(text).__name__}, not a text."
        raise InvalidInput(what, index=index)
    if not text:
        what = "the text is empty."
        raise InvalidInput(what, index=index)
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        what = "the text contains half of a surrogate pair, which is not a character."
        raise InvalidInput(what, index=index)


def _stored(file: Path) -> tuple[list[str], int]:
    """The names of all tokens in their order, and `max_length`, from a file that `save` wrote."""
    state = read_json(file)
    try:
        kind, numbers, longest = state["model"]["type"], state["model"]["vocab"], state["truncation"]["max_length"]
        names = sorted(numbers, key=numbers.__getitem__)
        ours = kind == "WordLevel" and names[: len(SPECIAL)] == list(SPECIAL)
        ours = ours and [numbers[name] for name in names] == list(range(len(names)))
    except (KeyError, TypeError, AttributeError):
        ours = False
    if not ours:
        raise damaged("this is not the vocabulary of a text input.", file)
    if not isinstance(longest, int) or not 1 <= longest <= LONGEST:
        raise damaged(f"max_length should be between 1 and {LONGEST:,}.", file)
    return names, longest


def _padded(
    rows: list[list[int]], lengths: npt.NDArray[np.int32], width: int, dtype: type[np.signedinteger[Any]]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int32]]:
    """Rows cut or padded to (B, width), and their lengths after that."""
    flat = np.fromiter(chain.from_iterable(rows), dtype=dtype, count=int(lengths.sum()))
    # A text may contain "<pad>", which the tokenizer gives the number of padding.
    flat[flat == PADDING] = UNKNOWN
    columns = np.arange(max(width, int(lengths.max(initial=0))))
    padded = np.full((len(rows), len(columns)), PADDING, dtype=dtype)
    padded[columns < lengths[:, None]] = flat
    return np.ascontiguousarray(padded[:, :width]), np.minimum(lengths, width)
