"""A network that reads the runs of letters around each letter and answers letter by letter."""

from __future__ import annotations

from typing import Any

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.nn import functional

from ele_core import Backbone, ComponentConfig, ConfigError, InputSpace
from ele_sequences.g2p.spelling import Spelling, SpellingInput


class RunsBackbone(Backbone):
    """For each letter the sum of the vectors of its runs, a bidirectional GRU, and two linear layers.

    The answers of all letters, one block after the other, are the output; blocks after the end of the word are zero.
    """

    class Config(ComponentConfig):
        """The size of the network."""

        embedding: PositiveInt = 128
        """The width of the vector of a run."""
        recurrent: PositiveInt = 96
        """The width of each direction of the GRU."""
        width: PositiveInt = 256
        """The width of the hidden layer."""
        dropout: float = Field(default=0.2, ge=0, lt=1)
        """The share of runs, and of features, that is dropped during training."""
        run_dropout: float | None = Field(default=None, ge=0, lt=1)
        """The share of runs that is dropped, if it is another than that of features."""
        tied: bool = False
        """Whether a feature is dropped at all letters of a word at once; otherwise at each letter by itself."""

    config: Config

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], dim: int) -> None:
        super().__init__(config, inputs, dim)
        options = self.config
        assert isinstance(inputs, SpellingInput)
        self.places = inputs.max_length
        if dim > self.places and dim % self.places:
            what = f"the embedding has {dim} numbers, which {self.places} letters cannot share."
            raise ConfigError(what, where="input.max_length", fix="Set it to the length of the outputs.")
        self.runs = nn.EmbeddingBag(inputs.runs + 1, options.embedding, mode="sum", padding_idx=0)
        nn.init.normal_(self.runs.weight, std=0.3)
        with torch.no_grad():
            self.runs.weight[0] = 0
        self.forwards = nn.GRU(options.embedding, options.recurrent, batch_first=True)
        self.backwards = nn.GRU(options.embedding, options.recurrent, batch_first=True)
        self.hidden = nn.Linear(options.embedding + 2 * options.recurrent, options.width)
        self.last = nn.Linear(options.width, max(1, dim // self.places))
        self.dropout = nn.Dropout(options.dropout)

    @classmethod
    def accepts(cls, inputs: InputSpace[Any]) -> None:
        """Accept the input `spelling`."""
        if not isinstance(inputs, SpellingInput):
            what = f"backbone 'runs' reads the input 'spelling', not {type(inputs).__name__}."
            raise ConfigError(what, where="regressor.backbone", fix="Set input to 'spelling', or choose 'gru'.")

    def forward(self, batch: Spelling) -> Tensor:
        """Words → (B, dim): a block of outputs for each letter."""
        if len(batch) == 0:
            return self.last.weight.new_zeros(0, self.dim)
        batch = batch.trimmed()
        mask = batch.mask
        windows = batch.windows.long()
        if self.training:  # drop some of them: long runs are rare and would be trusted too much
            share = self.config.dropout if self.config.run_dropout is None else self.config.run_dropout
            windows = windows * (torch.rand(windows.shape, device=windows.device) >= share)
        vectors = self.runs(windows.flatten(0, 1)).view(*mask.shape, -1)
        words = torch.arange(len(batch), device=windows.device)[:, None].expand(mask.shape)
        states = torch.cat([vectors, self._states(self._dropped(vectors, words[:, :1]), batch)], dim=2)[mask]
        hidden = functional.gelu(self.hidden(states))
        answers: Tensor = self.last(self._dropped(hidden, words[mask]))
        blocks = answers.new_zeros(len(batch), self.places, answers.shape[1])
        blocks[:, : mask.shape[1]][mask] = answers
        return blocks.flatten(start_dim=1)[:, : self.dim]

    def _dropped(self, features: Tensor, words: Tensor) -> Tensor:
        """Drop some features (…, F) during training; `words` are the numbers of the words that they belong to."""
        dropped: Tensor
        if self.training and self.config.tied:
            kept = self.dropout(features.new_ones(int(words.max()) + 1, features.shape[-1]))
            dropped = features * kept[words]
        else:
            dropped = self.dropout(features)
        return dropped

    def _states(self, vectors: Tensor, batch: Spelling) -> Tensor:
        """Vectors (B, L, embedding) → the states of both directions (B, L, 2 * recurrent)."""
        place = torch.arange(vectors.shape[1], device=vectors.device)
        reverse = torch.where(batch.mask, batch.lengths[:, None] - 1 - place, place)[:, :, None].long()
        onward, _ = self.forwards(vectors)
        returning, _ = self.backwards(vectors.gather(1, reverse.expand_as(vectors)))
        return torch.cat([onward, returning.gather(1, reverse.expand_as(returning))], dim=2)
