"""Joint n-grams of inputs and outputs that stand beside each other, token by token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from ele_core.component import ComponentConfig
from ele_core.components.inputs.text import Texts
from ele_core.components.proposers.rows import Rows
from ele_core.components.proposers.texts import Alphabet, TextProposer
from ele_core.errors import ConfigError, damaged
from ele_core.interfaces import InputSpace
from ele_core.numerics.alignment import Aligner, Floats, Ints, sizes
from ele_core.numerics.joint_ngrams import JointNgrams, best
from ele_core.runtime.context import Context
from ele_core.runtime.work import Snapshot, prefixed
from ele_core.types import Proposals, TrainingData

FITTING = 0.9
"""The least share of pairs that must have an alignment."""
AGAIN = 3.0
"""How often a unit must come up, on average: otherwise nothing can be learned from units."""
LARGEST = 1 << 15
"""The most different tokens on either side: units are numbered by their tokens."""
CHUNK = 64
"""Inputs written for at once: bounds the memory."""


class JointNgramProposer(TextProposer):
    """p(x, y) = Σ over alignments Π_t p(unit t | the units before it); a unit is a token of x with up to two of y.

    Expectation maximisation aligns the pairs. N-grams of units with Kneser–Ney smoothing, from the left and from the
    right, give the probabilities; the two are averaged in logarithms. p(y | x) divides by the sum over the outputs that
    a beam search finds.
    """

    class Config(ComponentConfig):
        """The n-grams, and the searches."""

        order: int = Field(8, ge=1, le=12)
        """The units of the longest n-grams."""
        beam: PositiveInt = 30
        """The beginnings that are continued at each token of an input, when outputs are written."""
        scoring_beam: PositiveInt = 10
        """The beginnings of alignments that are continued when an output is given."""
        level: str = Field("auto", pattern="^(auto|words|characters)$")
        """The tokens of outputs, as of proposer `writer`."""

    config: Config
    members: Sequence[JointNgrams] = ()
    """From the left and from the right; none if the pairs do not align."""

    @classmethod
    def accepts(cls, inputs: InputSpace[Any]) -> None:
        """Refuse inputs without tokens."""
        if not issubclass(inputs.Batch, Texts):
            raise ConfigError("proposer: 'joint-ngram' aligns tokens of texts, and these inputs are not texts.")

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], space: Any) -> None:
        super().__init__(config, inputs, space)
        self.accepts(inputs)

    @property
    def able(self) -> bool:
        """Whether the pairs align."""
        return bool(self.members)

    def fit(self, data: TrainingData, context: Context) -> None:
        """Align the pairs and count; or say why that is impossible, and propose nothing."""
        self.members, inputs = (), data.in_memory.inputs[:]
        texts = self.texts(data.in_memory.outputs[:])
        self.alphabet = Alphabet.learned(texts, self.config.level)
        self.rows = Rows.like(inputs[:1])
        left, right = numbers(inputs), self.alphabet.encode(texts).numpy()
        found = self._learned(left, right)
        if isinstance(found, str):
            context.monitor.message(f"no proposals by alignment: {found}")
            return
        other = self._learned(turned(left), turned(right))
        self.members = (found,) if isinstance(other, str) else (found, other)

    def _learned(self, left: Ints, right: Ints) -> JointNgrams | str:
        """The n-grams of pairs, or why there are none."""
        if max(left.max(), right.max()) >= LARGEST:
            return f"there are more than {LARGEST:,} different tokens"
        aligner = Aligner.learned(left, right)
        paths = [path for path in aligner.paths(left, right) if path is not None]
        if len(paths) < FITTING * len(left):
            return f"{len(left) - len(paths):,} of {len(left):,} outputs are too long for their inputs"
        made = JointNgrams.learned(aligner, paths, self.config.order)
        if sum(map(len, paths)) < AGAIN * made.end:
            return "parts of inputs and of outputs do not come up together again"
        return made

    def predict(self, inputs: Any) -> Tensor:
        """The packed inputs as rows of numbers, and after them log p(x)."""
        asked = super().predict(inputs)
        if not self.able:
            return asked
        known = [self._summed(numbers(part)) for part in inputs.chunks(CHUNK)]
        return torch.cat([asked, torch.cat([asked.new_zeros(0), *known])[:, None]], dim=1)

    def _summed(self, left: Ints) -> Tensor:
        """The logarithm of the sum of p(x, y) over the outputs that a beam search finds: (B,)."""
        tokens, found = self._found(left, self.config.beam)
        odds, rows = torch.from_numpy(self._odds(left[found], padded(tokens))), torch.from_numpy(found)
        most = torch.full((len(left),), -torch.inf, dtype=odds.dtype).scatter_reduce(0, rows, odds, "amax")
        most = most.where(most.isfinite(), 0)  # no output was found
        total = torch.zeros_like(most).index_add(0, rows, (odds - most[rows]).exp())
        return (most + total.clamp(min=torch.finfo(total.dtype).tiny).log()).float()

    def write(self, queries: Tensor, count: int) -> Proposals:
        """The `count` most probable texts for each input, among those that each direction finds."""
        texts, owners = list[str](), [torch.zeros(0, dtype=torch.long)]
        for first in range(0, len(queries), CHUNK):
            left = self._asked(queries[first : first + CHUNK])
            tokens, rows = self._found(left, count)
            right = padded(tokens)
            kept = best(rows, self._odds(left[rows], right), count)
            texts += self.alphabet.decode(torch.from_numpy(np.pad(right[kept], ((0, 0), (0, 1)))))
            owners.append(torch.from_numpy(rows[kept]) + first)
        return self.proposed(texts, torch.cat(owners))

    def _found(self, left: Ints, count: int) -> tuple[list[tuple[int, ...]], Ints]:
        """The `count` best right sequences of each direction for each row, each once, and their rows."""
        found: dict[tuple[int, tuple[int, ...]], None] = {}
        for number, member in enumerate(self.members):
            tokens, rows = member.write(turned(left) if number else left, max(count, self.config.beam), count)
            for row, own in zip(rows.tolist(), tokens, strict=True):
                found[row, tuple(own[::-1] if number else own)] = None
        ordered = sorted(found)
        return [tokens for _, tokens in ordered], np.array([row for row, _ in ordered], dtype=np.int64)

    def scored(self, queries: Tensor, batch: Any, owner: Tensor) -> Tensor:
        """−log p(y | x) of structure n for query `owner[n]`: (N,)."""
        right = self.alphabet.encode(self.texts(batch.to("cpu"))).numpy()
        odds = self._odds(self._asked(queries)[owner.cpu().numpy()], right)
        return queries[owner, -1] - torch.from_numpy(odds).to(queries)

    def _odds(self, left: Ints, right: Ints) -> Floats:
        """The mean of log p(x, y) of the directions: (N,)."""
        sides = ((left, right), (turned(left), turned(right)))
        beam, members = self.config.scoring_beam, zip(self.members, sides, strict=False)
        found: Floats = np.mean([member.scores(*own, beam) for member, own in members], axis=0)
        return found

    def _asked(self, queries: Tensor) -> Ints:
        return numbers(self.rows.restored(queries[:, :-1].cpu()))

    def state(self) -> dict[str, Tensor]:
        """The vocabulary, the layout of inputs, the units and n-grams of each direction; nothing if there are none."""
        if not self.members:
            return {}
        named = {"alphabet": self.alphabet.as_tensor(), **prefixed("rows", self.rows.state())}
        for number, member in enumerate(self.members):
            own = {name: torch.from_numpy(np.asarray(array)) for name, array in member.arrays().items()}
            named |= prefixed(f"member{number}", own)
        return named

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Load what `state` returned."""
        self.members = ()
        if not state:
            return
        stored = Snapshot(state)
        self.alphabet = Alphabet.from_tensor(state["alphabet"])
        self.rows = Rows(self.inputs.Batch, stored.part("rows"))
        parts = [part for number in range(2) if (part := stored.part(f"member{number}"))]
        try:
            self.members = [JointNgrams.restored({name: part.numpy() for name, part in own.items()}) for own in parts]
        except (KeyError, TypeError, ValueError) as error:
            raise damaged("the n-grams of a proposer are damaged.") from error


def numbers(inputs: Any) -> Ints:
    """The tokens of texts as numbers from 1, with zeros after the end: (B, L)."""
    found: Ints = inputs.trimmed().tokens.cpu().long().numpy()
    return found


def turned(rows: Ints) -> Ints:
    """Each row from its last token to its first."""
    place = sizes(rows)[:, None] - 1 - np.arange(rows.shape[1])
    return np.where(place >= 0, np.take_along_axis(rows, np.maximum(place, 0), axis=1), 0)


def padded(rows: Sequence[Sequence[int]]) -> Ints:
    """Rows of numbers with zeros after the end."""
    found = np.zeros((len(rows), max(map(len, rows), default=0)), dtype=np.int64)
    for number, row in enumerate(rows):
        found[number, : len(row)] = row
    return found
