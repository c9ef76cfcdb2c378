"""Proposers that see structures as texts: what they share, and the tokens of texts."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Self

import torch
from torch import Tensor

from ele_core.component import ComponentConfig
from ele_core.components.proposers.rows import Rows
from ele_core.energies import ProposerEnergy
from ele_core.errors import InvalidObject, damaged
from ele_core.interfaces import Energy, InputSpace, OutputSpace, Proposer
from ele_core.numerics.keys import distinct
from ele_core.numerics.tensors import Tensors
from ele_core.runtime.work import as_bytes, from_bytes
from ele_core.types import Proposals

END = 0
"""The token before the first and after the last of a text."""
UNKNOWN = 1
"""The token that stands for every token outside the vocabulary; it is never written."""
MOST_WORDS = 5000
"""Maximum number of different words for words to be tokens."""


class TextProposer(Proposer):
    """p(text of y | x) for structures of any space, whose `format` writes them and whose `parse` reads them."""

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], space: OutputSpace[Any, Any]) -> None:
        super().__init__(config, inputs, space)
        self.alphabet = Alphabet([], " ")
        self.rows = Rows(self.inputs.Batch)

    @property
    @abstractmethod
    def able(self) -> bool:
        """Whether it can propose."""

    @abstractmethod
    def write(self, queries: Tensor, count: int) -> Proposals:
        """About `count` of the most probable structures for each query."""

    @abstractmethod
    def scored(self, queries: Tensor, batch: Any, owner: Tensor) -> Tensor:
        """−log p of structure n for query `owner[n]`: (N,)."""

    def predict(self, inputs: Tensors) -> Tensor:
        """The packed inputs themselves, as rows of numbers: they are read when proposals are asked for."""
        return self.rows.flattened(inputs) if self.able else torch.zeros(len(inputs), 0)

    def energy(self, queries: Tensor) -> Energy:
        """−log p of the text of a structure."""
        return TextEnergy(self, queries)

    def texts(self, batch: Any) -> list[str]:
        """The texts of packed structures."""
        return [self.space.texts.format(obj) for obj in self.space.unpack(batch)]

    def proposed(self, texts: Sequence[str], owner: Tensor) -> Proposals:
        """The structures of texts for queries `owner` (N,), each once; texts that the space cannot read are dropped."""
        objects, kept = [], []
        for number, text in enumerate(texts):
            try:
                obj = self.space.texts.parse(text)
                self.space.pack([obj])
            except InvalidObject:
                continue
            objects.append(obj)
            kept.append(number)
        batch, owner = self.space.pack(objects), owner[torch.tensor(kept, dtype=torch.long)]
        rows = distinct(torch.cat([owner[:, None], self.space.keys(batch)], dim=1))
        return Proposals(batch[rows], owner[rows])


@dataclasses.dataclass(frozen=True, eq=False)
class TextEnergy(ProposerEnergy):
    """−log p(y | x) of a proposer, for inputs as rows of numbers."""

    proposer: TextProposer

    @property
    def costly(self) -> bool:
        """A text is scored token by token."""
        return True

    def of(self, batch: Any, owner: Tensor | None = None) -> Tensor:
        """−log p of structure n for its query: (N,)."""
        owner = torch.arange(len(batch), device=self.device) if owner is None else owner
        return self.proposer.scored(self.queries, batch, owner)

    def proposals(self, count: int) -> Proposals:
        """The most probable texts."""
        return self.proposer.write(self.queries, count)


class Alphabet:
    """The tokens of texts: characters, or words between blanks. The first two are `END` and `UNKNOWN`."""

    def __init__(self, names: Sequence[str], between: str) -> None:
        self.names = ["", "�", *names]
        self.between = between

    @classmethod
    def learned(cls, texts: Sequence[str], level: str) -> Self:
        """The tokens of `texts`, the most frequent first."""
        words = Counter(word for text in texts for word in text.split(" "))
        again = len(words) <= min(MOST_WORDS, sum(words.values()) / 5)
        if level == "words" or (level == "auto" and again and any(" " in text for text in texts)):
            return cls([name for name, _ in words.most_common()], " ")
        return cls([name for name, _ in Counter("".join(texts)).most_common()], "")

    def cut(self, text: str) -> list[str]:
        """The tokens of a text."""
        return text.split(self.between) if self.between else list(text)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names) if number > UNKNOWN}

    def encode(self, texts: Sequence[str]) -> Tensor:
        """Token numbers (B, L + 1), with `END` after the last one."""
        rows = [[self._numbers.get(token, UNKNOWN) for token in self.cut(text)] for text in texts]
        tokens = torch.full((len(rows), max(map(len, rows), default=0) + 1), END)
        for number, row in enumerate(rows):
            tokens[number, : len(row)] = torch.tensor(row, dtype=torch.long)
        return tokens

    def decode(self, tokens: Tensor) -> list[str]:
        """The texts of token numbers (B, L), up to the first `END`."""
        ends = (tokens == END).long().argmax(dim=1).tolist()
        rows = zip(tokens.tolist(), ends, strict=True)
        return [self.between.join(self.names[token] for token in row[:end]) for row, end in rows]

    def numbers_of(self, names: Sequence[str]) -> Tensor | None:
        """The token of the same name for each of `names`, `UNKNOWN` if there is none; None: fewer than two have one."""
        found = torch.tensor([self._numbers.get(name, UNKNOWN) for name in names])
        return found if int((found > UNKNOWN).sum()) > 1 else None

    def as_tensor(self) -> Tensor:
        """The names as bytes: (N,) uint8."""
        return as_bytes([self.between, *self.names[2:]])

    @classmethod
    def from_tensor(cls, stored: Tensor) -> Self:
        """The inverse of `as_tensor`."""
        try:
            between, *names = map(str, from_bytes(stored.cpu()))
        except (TypeError, ValueError):
            raise damaged("the tokens of a proposer are damaged.") from None
        return cls(names, between)
