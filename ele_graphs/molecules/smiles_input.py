"""SMILES as input: texts that can be rewritten without changing the molecule."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Generator

from ele_core import InvalidInput, Tensors, TextInput, Texts
from ele_graphs.molecules.rdkit_adapter import rewritten


class SmilesInput(TextInput):
    """Texts of which a share is rewritten in every training batch, with the atoms in a random order."""

    class Config(TextInput.Config):
        """The options of `text`, and how much is rewritten."""

        rewrite: float = Field(0.0, ge=0, le=1)
        """The share of a training batch that is rewritten; a text that is not a SMILES stays unchanged."""

    config: Config

    def examples(self) -> list[str]:
        """Small molecules."""
        return ["CCO", "OCC", "C1CC1", "CC(=O)N", "C#N"]

    def augment(self, batch: Tensors, generator: Generator) -> Tensors:
        """Rewrite each text with probability `rewrite`; a text whose new form cannot be packed stays unchanged."""
        assert isinstance(batch, Texts)
        if not self.config.rewrite:
            return batch
        chosen = (torch.rand(len(batch), generator=generator) < self.config.rewrite).nonzero().flatten()
        seeds = torch.randint(1 << 30, (len(chosen),), generator=generator).tolist()
        texts = [rewritten(text, seed) or text for text, seed in zip(self.unpack(batch[chosen]), seeds, strict=True)]
        views, accepted = self._pack_valid(texts)
        rows, views = chosen[accepted][views.known], views[views.known]
        tokens, lengths = batch.tokens.clone(), batch.lengths.clone()
        tokens[rows], lengths[rows] = views.tokens, views.lengths
        return Texts(tokens, lengths)

    def _pack_valid(self, texts: list[str]) -> tuple[Texts, list[int]]:
        """The texts that can be packed, and their positions."""
        positions = list(range(len(texts)))
        while True:
            try:
                return self.pack([texts[position] for position in positions]), positions
            except InvalidInput as error:
                del positions[error.index]
