"""The parts of a sequence: its tokens, pairs and triples of neighbours, roughly where each token is, and the length."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from ele_core import SparseRows
from ele_core.numerics.keys import mix

BETWEEN = 2
"""The places at which positions are measured are this far apart."""
BLUR = 1.5
"""A token counts at nearby places too, with a weight that falls along a Gaussian of this deviation."""
LENGTH = 1.5
"""The weight of the length: a wrong length costs more than a wrong token."""


def sequence_features(tokens: Tensor, symbols: int) -> SparseRows:
    """Features of sequences (B, L) of labels 1…`symbols` with zeros after the end.

    Pairs are fewer than tokens and triples rarer still, so that they weigh less. Places are counted from both ends: the
    end of a word stays where it is if a token at its beginning is missing.
    """
    tokens = tokens.long()
    count, width = tokens.shape
    present = tokens > 0
    ends = present.sum(dim=1, keepdim=True)
    # index i + 1 holds token i, between a mark for the beginning and one for the end
    marked = functional.pad(tokens, (1, 2))
    marked[:, 0] = symbols + 1
    marked.scatter_(1, ends + 1, symbols + 2)
    base = symbols + 3
    pairs = marked[:, :-2] * base + marked[:, 1:-1]
    triples = pairs[:, :-1] * base + marked[:, 2:-1]
    position = torch.arange(width, device=tokens.device).expand(count, width)
    parts = [
        (tokens, present * 1.0),
        (pairs, 0.7 * (torch.arange(width + 1, device=tokens.device) <= ends)),
        (triples, 0.4 * present),
        _places(tokens, position, present),
        _places(tokens, (ends - 1 - position).clamp(min=0), present),
        (ends + torch.arange(-1, 2, device=tokens.device), LENGTH * ends.new_tensor([[0.6, 1.0, 0.6]]).float()),
    ]
    kinds = [mix(mix(keys) + kind) for kind, (keys, _) in enumerate(parts)]
    values = [weight.expand(count, -1).float() for _, weight in parts]
    return SparseRows.summed(torch.cat(kinds, dim=1), torch.cat(values, dim=1))


def _places(tokens: Tensor, position: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
    """Each token at the two places around its position, weighted by how near they are: keys and weights (B, 2 L)."""
    places = torch.cat([position // BETWEEN, position // BETWEEN + 1], dim=1)
    away = position.repeat(1, 2) - places * BETWEEN
    weights = 0.6 * torch.exp(-0.5 * (away / BLUR) ** 2) * present.repeat(1, 2)
    return tokens.repeat(1, 2) * (1 << 20) + places, weights
