"""Fused Gromov-Wasserstein barycenters of many weighted sets of small graphs at once."""

from __future__ import annotations

import torch
from torch import Tensor

from ele_graphs.rivals.fgw.soft_graphs import SoftGraphs
from ele_graphs.rivals.fgw.surrogate import FusedSurrogate

UNCHANGED = 1e-9


def barycenters(
    start: SoftGraphs, graphs: SoftGraphs, weights: Tensor, surrogate: FusedSurrogate, rounds: int
) -> SoftGraphs:
    """Minimise Σ_k w_k FGW(g, g_k) over graphs g of the sizes of `start` (B): graphs (B · k), weights (B, k) ≥ 0.

    Block coordinate descent: plans to each graph for a fixed g, then the best g for fixed plans, in turn. It ends after
    `rounds`, or when no plan changes. Differentiable in graphs and weights, with the plans held fixed.
    """
    weights = weights / weights.sum(dim=1, keepdim=True)
    if not len(weights):
        return start
    center, plans = start, None
    owner = torch.arange(len(weights)).repeat_interleave(weights.shape[1])
    pairs = torch.stack([owner, torch.arange(len(owner))], dim=1)
    for _ in range(rounds):
        found = surrogate.distances(center.map(Tensor.detach), graphs.map(Tensor.detach), pairs, plans).plans
        center = average(graphs, weights, found, start.sizes)
        if plans is not None and (found - plans).abs().max() < UNCHANGED:
            break
        plans = found
    return center


def average(graphs: SoftGraphs, weights: Tensor, plans: Tensor, sizes: Tensor) -> SoftGraphs:
    """The best graphs of `sizes` (B,) for given plans T_k (B · k, m, m) from them to `graphs`.

    F = n Σ_k w_k T_k F_k and A = n² Σ_k w_k T_k A_k T_kᵀ, n being the size.
    """
    plans = plans.to(weights.dtype)
    scaled = weights.reshape(-1, 1, 1) * plans
    features = (scaled @ graphs.features).unflatten(0, weights.shape).sum(dim=1)
    structure = (scaled @ graphs.structure @ plans.mT).unflatten(0, weights.shape).sum(dim=1)
    mass = sizes.to(weights.dtype)[:, None, None]
    return SoftGraphs(mass * features, mass.square() * structure, sizes)
