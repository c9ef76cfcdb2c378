"""The space of padded token sequences: each position on a simplex, where label 0 is 'nothing here'."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import torch
from pydantic import Field, model_validator
from torch import Generator, Tensor

from ele_core import (
    ComponentConfig,
    ConvexSet,
    Drawing,
    InvalidOutput,
    Metric,
    Moves,
    OutputSpace,
    Rules,
    Show,
    Simplex,
    SparseRows,
    Tensors,
    TextFormat,
)
from ele_core.numerics.edit_distance import edit_distances
from ele_sequences.features import sequence_features
from ele_sequences.tokens import NAMES, find_separator, split_tokens, unused_separator


class SequenceConstraint(ComponentConfig):
    """What a predicted sequence must satisfy; options that are not given do not matter."""

    length: int | None = Field(default=None, ge=0)
    """The number of tokens."""
    min_length: int | None = Field(default=None, ge=0)
    """The least number of tokens."""
    max_length: int | None = Field(default=None, ge=0)
    """The largest number of tokens."""
    prefix: str | None = None
    """The text that it must begin with."""
    contains: str | None = None
    """A text of consecutive tokens that it must contain."""


class SequenceRules(Rules[Any]):
    """Sequences judged by their length, their beginning and their content."""

    Constraint = SequenceConstraint

    def tokens(self, batch: Any) -> Tensor:
        """The labels (N, L) that are judged."""
        tokens: Tensor = batch.tokens
        return tokens

    def violation(self, batch: Any, constraint: SequenceConstraint) -> Tensor:
        """(N,) floats: the number of tokens that are wrong."""
        config, tokens = self.space.config, self.tokens(batch)
        labels = {token: number for number, token in enumerate(config.alphabet, start=1)}
        found = length_violation(tokens, constraint)
        for text, anywhere in ((constraint.prefix, False), (constraint.contains, True)):
            if text:
                wanted = [labels.get(token, -1) for token in split_tokens(text, config.separator)]
                wrong = mismatches(tokens, wanted)
                found = found + (wrong.amin(dim=1) if anywhere else wrong[:, 0])
        return found

    def of(self, batch: Any, names: Sequence[str]) -> list[SequenceConstraint]:
        """The length of each sequence."""
        lengths = ({"length": length} for length in (self.tokens(batch) != 0).sum(dim=1).tolist())
        return [SequenceConstraint.model_validate({name: own[name] for name in names}) for own in lengths]


def length_violation(tokens: Tensor, constraint: SequenceConstraint) -> Tensor:
    """(N,) floats: the number of tokens (N, L) too many or too few."""
    lengths = (tokens != 0).sum(dim=1).float()
    least = max(constraint.length or 0, constraint.min_length or 0)
    most = min(value for value in (constraint.length, constraint.max_length, tokens.shape[1]) if value is not None)
    return (least - lengths).clamp(min=0) + (lengths - most).clamp(min=0)


def mismatches(tokens: Tensor, labels: Sequence[int]) -> Tensor:
    """(N, places) floats: the number of tokens that differ from `labels`, from each place on."""
    wanted = torch.tensor(labels, dtype=torch.long, device=tokens.device)
    missing = max(0, len(labels) - tokens.shape[1])
    windows = torch.nn.functional.pad(tokens, (0, missing)).unfold(1, len(labels), 1)
    return (windows != wanted).sum(dim=2).float()


GAP = "·"
"""Drawn for a token that the sequence lacks and the other one has."""
LONGEST_SHOWN = 80
"""Maximum number of characters or tokens of an output that an error shows."""


@dataclasses.dataclass(frozen=True, eq=False)
class Tokens(Tensors):
    """Sequences: (B, L) labels with zeros after the end, or (B, L, V) relaxed positions."""

    tokens: Tensor


class SequenceMoves(Moves[Tokens]):
    """Sequences with one token replaced, removed or added."""

    def list(self, batch: Tokens) -> tuple[Tokens, Tensor]:
        """Those of a row: replacements and removals, then additions."""
        replaced, owner = super().list(batch)
        added, adder = insertions(batch.tokens, len(self.space.config.alphabet))
        moved, row = Tokens(torch.cat([close_gaps(replaced).tokens, added])), torch.cat([owner, adder])
        order = row.argsort(stable=True)
        return moved[order], row[order]

    def along(self, batch: Tokens, gradient: Tokens) -> tuple[Tokens, Tensor]:
        """Sorted without relaxing each of them."""
        moved, row = self.list(batch)
        order = gains(gradient.tokens, batch.tokens, moved.tokens, row).argsort(stable=True)
        order = order[row[order].argsort(stable=True)]
        return moved[order], row[order]


class SequenceTexts(TextFormat[str]):
    """Texts with what separates their tokens."""

    any_text = True

    @classmethod
    def infer(cls, texts: Sequence[str], options: Mapping[str, Any]) -> Mapping[str, Any]:
        """What separates the tokens of the texts, unless `options` say so."""
        return {} if "separator" in options else {"separator": find_separator(texts)}

    def format(self, obj: str | Sequence[str]) -> str:
        """The text itself; a list of tokens with the separator between them."""
        return obj if isinstance(obj, str) else self.options.get("separator", " ").join(obj)

    def echo(self, text: str) -> str:
        """The tokens of the text that outputs can have, as many as fit."""
        separator, known = str(self.options["separator"]), set(self.options["alphabet"])
        tokens = [token for token in split_tokens(text, separator) if token in known]
        if not tokens:
            raise InvalidOutput("no token of this text is in the alphabet.")
        return separator.join(tokens[: self.options["length"]])


class SequenceShow(Show[str, Tokens]):
    """Sequences as texts, with the tokens marked that differ."""

    def render(self, obj: str, against: str | None = None) -> Drawing:
        """The text; compared with `against`, in pieces with differing and missing tokens marked."""
        if against is None or not obj:
            return Drawing(obj or "(empty)")
        separator = self.space.config.separator
        pairs = aligned(split_tokens(obj, separator), split_tokens(against, separator))
        shown = [(GAP if own is None else own, own != other) for own, other in pairs]
        between = [(separator, False)] if separator else []
        return Drawing(obj, pieces=tuple(piece for pair in shown for piece in (*between, pair))[len(between) :])

    def properties(self, batch: Tokens) -> dict[str, Tensor]:
        """The number of tokens."""
        return {"length": (batch.tokens != 0).sum(dim=1)}

    def describe(self) -> str:
        """How texts are cut into tokens, and how many there are."""
        size, separator = len(self.space.config.alphabet), self.space.config.separator
        if not separator:
            return f"each character is a token, {size:,} different; at most {self.space.config.length:,} in a text"
        by = NAMES.get(separator, repr(separator))
        return f"tokens separated by {by}, {size:,} different; at most {self.space.config.length:,} in a text"


class SequenceSpace(OutputSpace[str, Tokens]):
    """Texts of at most `length` tokens; a token is a character, or a word if there is a separator.

    `pack` takes texts, or lists of tokens; `unpack` returns texts. The separator of the outputs of a file is inferred.
    """

    Batch = Tokens
    Texts = SequenceTexts
    Moves = SequenceMoves
    Rules = SequenceRules
    Show = SequenceShow

    class Config(ComponentConfig):
        """The alphabet and the size, and how views are drawn."""

        alphabet: tuple[str, ...] = Field(min_length=1)
        """The tokens that may occur."""
        length: int = Field(ge=1)
        """The largest number of tokens of a sequence."""
        separator: str = ""
        """The text between two tokens; if empty, every character is a token. For a file it is inferred if it is not
        given: a comma or a space, if it cuts the texts into few different tokens."""
        edit_rate: float = Field(0.1, ge=0, le=1)
        """The probability that a view has a random token, or none, at a position."""

        @model_validator(mode="after")
        def _readable(self) -> Self:
            if len(set(self.alphabet)) < len(self.alphabet):
                raise ValueError("a token is listed twice")
            if not self.separator and any(len(token) != 1 for token in self.alphabet):
                raise ValueError("without a separator, every token must be one character")
            return self

    config: Config

    takes = "a text or a list of tokens"

    @cached_property
    def geometry(self) -> Mapping[str, ConvexSet]:
        """Each position on the simplex over the alphabet and 'nothing here'."""
        return {"tokens": Simplex(size=len(self.config.alphabet) + 1, rows=(self.config.length,))}

    def pack(self, objects: Sequence[str | Sequence[str]]) -> Tokens:
        """Texts, or lists of tokens → (B, L) labels."""
        label = {token: number for number, token in enumerate(self.config.alphabet, start=1)}
        tokens = torch.zeros(len(objects), self.config.length, dtype=self.geometry["tokens"].label_dtype)
        for index, text in enumerate(objects):
            if not is_sequence(text):
                raise self.invalid(f"expected a text or a list of tokens, not {type(text).__name__}.", index)
            words = split_tokens(text, self.config.separator)
            shown = text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
            if len(words) > self.config.length:
                raise self.invalid(
                    f"{shown!r} has {len(words)} tokens, more than length = {self.config.length}.", index
                )
            unknown = next((word for word in words if word not in label), None)
            if unknown is not None:
                raise self.invalid(f"{shown!r} holds {unknown!r}, which is not in the alphabet.", index)
            tokens[index, : len(words)] = torch.tensor([label[word] for word in words])
        return Tokens(tokens)

    def unpack(self, batch: Tokens) -> list[str]:
        """(B, L) labels → texts."""
        symbols = ("", *self.config.alphabet)
        return [self.config.separator.join(symbols[label] for label in row if label) for row in batch.tokens.tolist()]

    def unrelax(self, point: Tokens) -> Tokens:
        """The likeliest label of each position, with gaps closed."""
        return close_gaps(super().unrelax(point))

    def augment(self, batch: Tokens, generator: Generator) -> Tokens:
        """Give each position a random token or none with probability `edit_rate`; gaps are closed."""
        shape = batch.tokens.shape
        edited = torch.rand(shape, generator=generator) < self.config.edit_rate
        label = torch.randint(0, len(self.config.alphabet) + 1, shape, generator=generator)
        return close_gaps(Tokens(torch.where(edited, label.to(batch.tokens.dtype), batch.tokens)))

    def features(self, batch: Tokens) -> SparseRows:
        """Tokens, their neighbours, roughly their places, and the length: see `features.sequence_features`."""
        return sequence_features(batch.tokens, len(self.config.alphabet))

    @property
    def metrics(self) -> Sequence[Metric[Tokens]]:
        """Exact match, then the edit distance."""
        distance = Metric[Tokens](
            "edit_distance",
            "min",
            lambda predicted, true: edit_distances(predicted.tokens, true.tokens),
            "insertions, deletions and replacements from the truth",
        )
        return self.exact_match, distance

    @classmethod
    def parse(cls, text: str) -> str:
        """The text itself."""
        return text

    @classmethod
    def format(cls, obj: str | Sequence[str]) -> str:
        """The text itself; a list of tokens with spaces between them."""
        return obj if isinstance(obj, str) else " ".join(obj)

    @classmethod
    def infer(cls, objects: Sequence[str | Sequence[str]], options: Mapping[str, Any]) -> ComponentConfig:
        """Find the alphabet and the greatest length in `objects`; `options` take precedence.

        Lists of tokens are joined by a space, or by another separator that is in no token.
        """
        lists = [obj for obj in objects if not isinstance(obj, str)]
        separator = options.get("separator", unused_separator(lists) if lists else "")
        words = [split_tokens(text, separator) for text in objects]
        found = {
            "alphabet": sorted({word for text in words for word in text}),
            "length": max((len(text) for text in words), default=1),
            "separator": separator,
        }
        return cls.Config(**{**found, **options})

    def examples(self) -> list[str]:
        """The first token alone, the whole alphabet cut to length, and the last token repeated."""
        alphabet, length = self.config.alphabet, self.config.length
        words = [alphabet[:1], alphabet[:length], alphabet[-1:] * length]
        return list(dict.fromkeys(self.config.separator.join(word) for word in words))


def is_sequence(obj: object) -> bool:
    """Whether an object is a text, or a list or tuple of texts."""
    return isinstance(obj, str) or (isinstance(obj, list | tuple) and all(isinstance(token, str) for token in obj))


def close_gaps(batch: Tokens) -> Tokens:
    """Move the zeros of every row behind its tokens, keeping the order of the tokens."""
    order = (batch.tokens == 0).to(torch.int8).argsort(dim=1, stable=True)
    return Tokens(batch.tokens.gather(1, order))


def aligned(left: Sequence[str], right: Sequence[str]) -> list[tuple[str | None, str | None]]:
    """Align the tokens of two sequences with the fewest edits; None marks a token that one of them lacks."""
    table = [[i + j if 0 in (i, j) else 0 for j in range(len(right) + 1)] for i in range(len(left) + 1)]
    for i, one in enumerate(left, start=1):
        for j, other in enumerate(right, start=1):
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + (one != other))
    pairs: list[tuple[str | None, str | None]] = []
    i, j = len(left), len(right)
    while i or j:
        if i and j and table[i][j] == table[i - 1][j - 1] + (left[i - 1] != right[j - 1]):
            i, j = i - 1, j - 1
            pairs.append((left[i], right[j]))
        elif i and table[i][j] == table[i - 1][j] + 1:
            i -= 1
            pairs.append((left[i], None))
        else:
            j -= 1
            pairs.append((None, right[j]))
    return pairs[::-1]


def insertions(tokens: Tensor, symbols: int) -> tuple[Tensor, Tensor]:
    """Every sequence with one token more, before one that it has: (B, L) labels → (M, L), and the row of each (M,).

    Sequences of the full length have none. Tokens after the end are the business of replacements.
    """
    width = tokens.shape[1]
    ends = (tokens > 0).sum(dim=1)
    possible = (torch.arange(width, device=tokens.device) < ends[:, None]) & (ends < width)[:, None]
    row, place = (part.repeat_interleave(symbols) for part in possible.nonzero(as_tuple=True))
    label = torch.arange(1, symbols + 1, device=tokens.device).repeat(int(possible.sum()))
    columns = torch.arange(width, device=tokens.device)
    longer = tokens[row].gather(1, columns - (columns > place[:, None]).long())
    longer[torch.arange(len(row), device=tokens.device), place] = label.to(tokens.dtype)
    return longer, row


def gains(gradient: Tensor, before: Tensor, after: Tensor, row: Tensor) -> Tensor:
    """The first-order change of a loss from `before[row]` to `after` (M, L), with its gradient (B, L, V): (M,)."""
    columns = torch.arange(before.shape[1], device=row.device)
    own = gradient.gather(2, before.long().unsqueeze(2)).squeeze(2)
    return (gradient[row[:, None], columns, after.long()] - own[row]).sum(dim=1)
