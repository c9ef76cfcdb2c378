"""Split conformal prediction: thresholds that hold a promise on new examples that are exchangeable with known ones.

References: Vovk, Gammerman, Shafer, *Algorithmic Learning in a Random World* (2005); Angelopoulos, Bates, Fisch, Lei,
Schuster, *Conformal Risk Control* (2022).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

ROUNDING = 1e-9


def examples_needed(coverage: float) -> int:
    """The least number of examples from which a finite threshold for `coverage` can be computed.

    >>> examples_needed(0.9), examples_needed(0.99)
    (9, 99)
    """
    return math.ceil(coverage / (1 - coverage) - ROUNDING)


def threshold(scores: Tensor, coverage: float) -> float:
    """The ⌈(n + 1) · coverage⌉-th smallest of n scores; infinite if there are too few.

    The score of a further, exchangeable example is at most this with a probability of at least `coverage`.
    """
    rank = math.ceil((len(scores) + 1) * coverage - ROUNDING)
    return math.inf if rank > len(scores) else float(scores.kthvalue(max(1, rank)).values)


def most_coverage(scores: Tensor) -> float:
    """The largest coverage with a finite threshold."""
    return int(scores.isfinite().sum()) / (len(scores) + 1)


def risk_threshold(energies: Tensor, losses: Tensor, risk: float, largest: float) -> float | None:
    """The least threshold λ at which the expected loss of a further, exchangeable example is at most `risk`.

    Example i has structures with ascending `energies` (n, K); if the first k of them are kept, its loss is
    `losses[i, k − 1]` (n, K), which does not rise with k and is at most `largest`. At least the first is always kept,
    and then all with an energy of at most λ. None: even all of them do not keep the risk.
    """
    falls = -losses.double().diff(dim=1)
    known = energies[:, 1:].isfinite()
    order = energies[:, 1:][known].argsort()
    at, gained = energies[:, 1:][known][order], falls[known][order].cumsum(dim=0)
    total = losses[:, 0].double().sum() + largest
    sums = torch.cat([total[None], total - gained])
    enough = (sums / (len(losses) + 1) <= risk + ROUNDING).nonzero().flatten()
    if not len(enough):
        return None
    first = int(enough[0])
    return -math.inf if first == 0 else float(at[first - 1])


def merged_groups(values: Tensor, least: int) -> Tensor:
    """Divide numbers into groups of neighbouring values, with at least `least` members each; return their lower ends.

    The first is −∞. If there are fewer than `least` in all, there is one group.
    """
    kinds, counts = values.double().unique(return_counts=True)
    ends, size = [-math.inf], 0
    remaining = len(values)
    for kind, count in zip(kinds.tolist(), counts.tolist(), strict=True):
        if size >= least and remaining >= least:
            ends.append(kind)
            size = 0
        size += count
        remaining -= count
    return torch.tensor(ends, dtype=torch.double)


def group_of(values: Tensor, ends: Tensor) -> Tensor:
    """The number of the group of each value, by the lower ends of the groups."""
    return torch.searchsorted(ends, values.double(), right=True) - 1
