"""Fused Gromov-Wasserstein distances of many pairs of small graphs, with their transport plans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import torch
from torch import Tensor

from ele_graphs.rivals.fgw.soft_graphs import SoftGraphs
from ele_graphs.threads import Flag, in_threads

if TYPE_CHECKING:
    from ele_graphs.rivals.fgw.kernels import Floats, Ints

Solver = Literal["compiled", "pot"]
Pairs: TypeAlias = Tensor
"""(P, 2) int64: for each pair an index into the first batch and one into the second."""

PAIRS_PER_CHUNK = 256


@dataclass(frozen=True)
class Transport:
    """The distances of P pairs, values (P,), and the plans that attain them, plans (P, m, m); both float64."""

    values: Tensor
    plans: Tensor


def fused_distances(
    first: SoftGraphs,
    second: SoftGraphs,
    pairs: Pairs | None = None,
    *,
    tradeoff: float,
    starts: int = 2,
    plans: Tensor | None = None,
    solver: Solver = "compiled",
) -> Transport:
    """The minimum over plans T of (1 − α) Σ ‖F_i − G_j‖² T_ij + α Σ (A_ik − B_jl)² T_ij T_kl, equal masses.

    pairs: by default row i of both. tradeoff: α, the weight of the structure. The problem is not convex: the best of
    `starts` descents counts, or one descent from `plans` (P, m, m) if given.
    solver: our own, or POT's, pair by pair in Python and from a start of its own.
    """
    if pairs is None:
        pairs = torch.arange(len(first)).unsqueeze(1).expand(-1, 2)
    if solver == "pot":
        from ele_graphs.rivals.fgw.pot import solve_with_pot

        return solve_with_pot(first, second, pairs, tradeoff, plans)
    return _solve_compiled(first, second, pairs, tradeoff, starts, plans)


def objective(first: SoftGraphs, second: SoftGraphs, plans: Tensor, tradeoff: float) -> Tensor:
    """The objective of `fused_distances` (B,) at given plans (B, m, m), differentiable in the graphs.

    At the best plan its gradient is that of the distance: the change of the plan does not matter (envelope theorem).
    """
    rows, columns = plans.sum(dim=2), plans.sum(dim=1)
    distances = (first.features.unsqueeze(2) - second.features.unsqueeze(1)).square().sum(dim=3)
    squares = _quadratic(first.structure.square(), rows) + _quadratic(second.structure.square(), columns)
    crossed = (first.structure @ plans @ second.structure * plans).sum(dim=(1, 2))
    return (1 - tradeoff) * (distances * plans).sum(dim=(1, 2)) + tradeoff * (squares - 2 * crossed)


def _quadratic(matrix: Tensor, weights: Tensor) -> Tensor:
    return (weights.unsqueeze(1) @ matrix @ weights.unsqueeze(2)).flatten()


def _solve_compiled(
    first: SoftGraphs, second: SoftGraphs, pairs: Pairs, tradeoff: float, starts: int, warm: Tensor | None
) -> Transport:
    from ele_graphs.rivals.fgw.kernels import solve_pairs  # here, so that importing this package does not import numba

    nodes = max(first.features.shape[1], second.features.shape[1])
    plans = torch.zeros(len(pairs), nodes, nodes, dtype=torch.float64)
    if warm is not None:
        plans.copy_(warm)
        starts = 0
    values = torch.zeros(len(pairs), dtype=torch.float64)
    a, b = _arrays(first), _arrays(second)
    rows = pairs.cpu().contiguous()

    def solve(some: slice, stop: Flag) -> None:
        found = plans[some].numpy(), values[some].numpy()
        solve_pairs(*a, *b, rows[some].numpy(), tradeoff, starts, stop, *found)

    in_threads(solve, len(pairs), PAIRS_PER_CHUNK)
    return Transport(values.to(first.device), plans.to(first.device))


def _arrays(soft: SoftGraphs) -> tuple[Floats, Floats, Ints]:
    """Convert the fields for the kernels: always the same types and layout, so that they are compiled once."""
    fields = (field.detach().to("cpu", torch.float64).contiguous() for field in (soft.features, soft.structure))
    features, structure = (field.numpy() for field in fields)
    return features, structure, soft.sizes.cpu().contiguous().numpy()
