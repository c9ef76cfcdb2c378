"""Where the truth is among the structures found for an input, and how near the nearest of them is to it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ele_core.data.truths import Truths
from ele_core.interfaces import OutputSpace
from ele_core.types import Decoding, Metric

RANKS = 5
"""Structures of an input that are compared with its truth by a metric; further ones are not nearer by assumption."""


def rank_of_truth(space: OutputSpace[Any, Any], found: Decoding, truths: Truths) -> Tensor:
    """The place (B,) of the first right structure among those found for each input, counted from 0; −1: none is."""
    k = found.top_k
    keys = space.keys(found.structures).view(len(truths), k, -1)
    same = (truths.of_examples(keys) == space.keys(truths.outputs)[:, None]).all(dim=2)
    same &= truths.of_examples(found.energies.isfinite())
    places = torch.where(same, torch.arange(k), k).amin(dim=1)
    first = truths.best(places, "min")
    return torch.where(first < k, first, -1)


def energy_of_truth(found: Decoding, rank: Tensor) -> Tensor:
    """The energy (B,) of the right structure at `rank` (B,); infinite if there is none."""
    own = found.energies.gather(1, rank.clamp(min=0)[:, None])[:, 0].double()
    return torch.where(rank >= 0, own, torch.inf)


def nearest_losses(space: OutputSpace[Any, Any], found: Decoding, truths: Truths, metric: Metric[Any]) -> Tensor:
    """The least value (B, K) of a metric among the first k structures of each input, for k from 1 to K.

    The metric has direction `min`. Only structures before the first right one are compared, and only `RANKS` of them.
    """
    k, rank = found.top_k, rank_of_truth(space, found, truths)
    losses = torch.empty(len(truths), k, dtype=torch.double)
    current = torch.full((len(truths),), torch.inf, dtype=torch.double)
    for place in range(k):
        current = torch.where(rank == place, 0.0, current)
        open_rows = ((current > 0) & found.energies[:, place].isfinite()).nonzero().flatten()
        if place < RANKS and len(open_rows):
            values = values_of(metric, found.structures[open_rows * k + place], truths, open_rows)
            current[open_rows] = torch.minimum(current[open_rows], values)
        losses[:, place] = current
    return losses


def values_of(metric: Metric[Any], predicted: Any, truths: Truths, rows: Tensor) -> Tensor:
    """The best value of a metric over the truths of the examples `rows`, for one predicted structure each."""
    place = torch.full((len(truths),), -1)
    place[rows] = torch.arange(len(rows))
    own = (place[truths.example] >= 0).nonzero().flatten()
    chosen = Truths(truths.outputs[own], place[truths.example[own]])
    return chosen.best(metric.worst_and_best(chosen.of_examples(predicted), chosen.outputs)[0].double().cpu(), "min")
