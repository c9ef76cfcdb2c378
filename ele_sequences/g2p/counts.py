"""A regression by counting: which tokens stood at letters that had the same letters around them in training."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Self

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from ele_core import ComponentConfig, ConfigError, Context, InputSpace, Regressor, Surrogate, TrainingData
from ele_core.errors import ModelError
from ele_core.numerics.keys import mix
from ele_sequences.g2p.spelling import SpellingInput
from ele_sequences.g2p.surrogate import NOTHING, SURE, AlignedOdds

LEAST = 1e-6
"""The least probability of a token: its logarithm must be finite."""
CHUNK = 1 << 15
"""Letters predicted at once: bounds the memory."""


class RunCounts(Regressor):
    """Log-odds of the tokens of a letter from the training letters inside the same run of letters.

    With c tokens of one kind among n letters that have the same a letters before and b behind them,
    P_ab(t) = (max(c_t − d, 0) + (d · kinds + s) · (P_a−1,b(t) + P_a,b−1(t)) / 2) / (n + s): where a run is rare, the
    shorter ones inside it decide (absolute discounting). The query is the logarithm of the mean over the longest runs.
    Nothing is trained; the training words themselves are kept.
    """

    class Config(ComponentConfig):
        """How far the runs reach, and how counts are smoothed."""

        reach: int = Field(8, ge=0, le=16)
        """Maximum number of letters before, and after, a letter."""
        longest: int = Field(10, ge=0, le=32)
        """Maximum number of letters around a letter, on both sides together."""
        discount: float = Field(0.6, ge=0, lt=1)
        """d: subtracted from every count, in favour of shorter runs."""
        strength: float = Field(0.3, gt=0)
        """s: as many letters as this are added to every run, with the tokens of shorter ones."""

    config: Config

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], surrogate: Surrogate) -> None:
        super().__init__(config, inputs, surrogate)
        if not isinstance(inputs, SpellingInput):
            what = f"regressor 'run-counts' reads the input 'spelling', not {type(inputs).__name__}."
            raise ConfigError(what, where="regressor", fix="Set input to 'spelling', or choose 'neural'.")
        if not isinstance(surrogate, AlignedOdds):
            what = f"regressor 'run-counts' needs the surrogate 'aligned-odds', not {type(surrogate).__name__}."
            raise ConfigError(what, where="regressor", fix="Choose another regressor, such as 'neural'.")
        self.odds = surrogate
        self.device = torch.device("cpu")
        self.letters = torch.zeros(0, 1, dtype=torch.int16)
        self.tokens = torch.zeros(0, 1, dtype=torch.int8)

    def fit(self, data: TrainingData, context: Context) -> None:
        """Keep the training words that have a token for each letter."""
        words, tokens = data.train.inputs[:], data.train.outputs[:].tokens
        whole = (tokens > 0).sum(dim=1) == words.lengths
        if not whole.any():  # pairs that were not aligned: each token counts at the letter of its place
            whole = torch.ones_like(whole)
        self.letters, self.tokens = words.tokens[whole].cpu(), tokens[whole].cpu()

    def predict(self, inputs: Any) -> Tensor:
        """Packed words → (B, dim)."""
        length, symbols = self.odds.space.config.length, self.odds.symbols
        blocks = torch.zeros(len(inputs), length, self.odds.dim // length)
        if len(inputs) and len(self.letters):
            reach, tokens = self.config.reach, self.tokens[:, : self.letters.shape[1]].long()[self.letters > 0]
            known, asked = Letters.of(self.letters, reach), Letters.of(inputs.tokens, reach)
            mask = functional.pad(inputs.tokens.cpu() > 0, (0, length - inputs.tokens.shape[1]))
            numbers = torch.zeros(len(asked.places), blocks.shape[2])
            numbers[:, :symbols] = torch.cat([self._log_odds(known, tokens, some) for some in asked.split(CHUNK)])
            blocks[mask] = numbers
        return blocks.flatten(start_dim=1).to(self.device)

    def _log_odds(self, known: Letters, tokens: Tensor, asked: Letters) -> Tensor:
        """The log-odds of all labels at the letters `asked`, from the `tokens` of `known` ones: (M, labels)."""
        every = tokens.bincount(minlength=self.odds.symbols).float()
        smaller = {(0, -1): (torch.arange(len(tokens)), (every / every.sum()).expand(len(asked.places), -1))}
        for size in range(min(self.config.longest, 2 * self.config.reach) + 1):
            runs = [(a, size - a) for a in range(size + 1) if max(a, size - a) <= self.config.reach]
            smaller = {run: self._longer(run, smaller, known, tokens, asked) for run in runs}
        odds = torch.stack([shares for _, shares in smaller.values()]).mean(dim=0).clamp(min=LEAST).log()
        odds[:, 0] = -SURE - NOTHING  # every letter has a token
        return odds

    def _longer(
        self,
        run: tuple[int, int],
        smaller: Mapping[tuple[int, int], tuple[Tensor, Tensor]],
        known: Letters,
        tokens: Tensor,
        asked: Letters,
    ) -> tuple[Tensor, Tensor]:
        """The known letters inside the same run as an asked one, and the probabilities of labels at asked ones."""
        inside = [smaller[near] for near in ((run[0] - 1, run[1]), (run[0], run[1] - 1)) if near in smaller]
        rows = inside[0][0]
        wanted, number = asked.keys(run).unique(return_inverse=True)
        keys = known.keys(run, rows)
        place = torch.searchsorted(wanted, keys).clamp(max=len(wanted) - 1)
        same = wanted[place] == keys
        counts = torch.zeros(len(wanted), self.odds.symbols)
        counts.index_put_((place[same], tokens[rows[same]]), torch.ones(()), accumulate=True)
        prior = torch.stack([shares for _, shares in inside]).mean(dim=0)
        return rows[same], self._smoothed(counts[number], prior)

    def _smoothed(self, counts: Tensor, prior: Tensor) -> Tensor:
        """The probabilities of labels (M, labels) from counts and from those of shorter runs."""
        discount, strength = self.config.discount, self.config.strength
        kinds = (counts > 0).sum(dim=1, keepdim=True)
        total = counts.sum(dim=1, keepdim=True)
        return ((counts - discount).clamp(min=0) + (discount * kinds + strength) * prior) / (total + strength)

    def state(self) -> dict[str, Tensor]:
        """The letters and the tokens of the training words."""
        return {"letters": self.letters, "tokens": self.tokens}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Load the training words."""
        letters, tokens = state["letters"], state["tokens"]
        if letters.dim() != 2 or tokens.dim() != 2 or len(letters) != len(tokens):
            raise ModelError("the training words have another shape.", fix="Get an intact copy, or train again.")
        self.letters, self.tokens = letters.cpu(), tokens.cpu()

    def to(self, device: torch.device) -> Self:
        """Return queries on `device`; the words stay in main memory."""
        self.device = device
        return self


@dataclasses.dataclass(frozen=True)
class Letters:
    """The letters of all words in one row, with a gap around each word."""

    text: Tensor
    """(all words with gaps,) numbers of letters; 0: none."""
    places: Tensor
    """(M,) where each letter is."""

    @classmethod
    def of(cls, words: Tensor, gap: int) -> Self:
        """The letters of words (B, L), with at least `gap` places around each word."""
        text = functional.pad(words.cpu().long(), (gap, gap)).flatten()
        return cls(text, text.nonzero()[:, 0])

    def split(self, size: int) -> list[Letters]:
        """The same letters in groups of at most `size`."""
        return [dataclasses.replace(self, places=places) for places in self.places.split(size)]

    def keys(self, run: tuple[int, int], rows: Tensor | None = None) -> Tensor:
        """A key of the letters from so many before to so many behind each letter, or each of those at `rows`."""
        places = self.places if rows is None else self.places[rows]
        found = torch.zeros_like(places)
        for away in range(-run[0], run[1] + 1):
            found = mix(found + self.text[places + away])
        return found
