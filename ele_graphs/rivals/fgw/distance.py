"""Graphs as the fused Gromov-Wasserstein distance sees them; distances and plans of many pairs of them."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Literal, TypeAlias

import torch
from torch import Tensor

from ele_core import ConfigError, Tensors
from ele_core.extras import how_to_install
from ele_graphs.graphs.batch import Graphs, compact, without_loose_edges
from ele_graphs.threads import Flag, in_threads

if TYPE_CHECKING:
    from ele_graphs.rivals.fgw.kernels import Floats, Ints

EDGE = 1
"""The label that every edge gets, because the distance ignores edge labels; for bonds it is usually "single"."""


@dataclass(frozen=True, eq=False)
class SoftGraphs(Tensors):
    """B graphs, their nodes first, padded with zeros to m nodes; entries may lie between 0 and 1.

    features: (B, m, T) shares of the node labels; structure: (B, m, m) symmetric, the weight of each edge;
    sizes: (B,) int64.
    """

    features: Tensor
    structure: Tensor
    sizes: Tensor

    @property
    def real(self) -> Tensor:
        """(B, m) bool: which rows are nodes."""
        return torch.arange(self.features.shape[1], device=self.sizes.device) < self.sizes[:, None]


def soften(graphs: Graphs, labels: int) -> SoftGraphs:
    """Convert packed graphs of `labels` node labels: features are one-hot, the structure is the adjacency matrix."""
    graphs = compact(without_loose_edges(graphs))
    one_hot = torch.nn.functional.one_hot(graphs.nodes.long(), labels + 1)[:, :, 1:]
    return SoftGraphs(one_hot.float(), (graphs.edges != 0).float(), graphs.sizes)


def harden(soft: SoftGraphs, threshold: float = 0.5) -> Graphs:
    """Round to packed graphs: the likeliest label of each node, and the edges above `threshold`, all with label 1."""
    real = soft.real
    nodes = (soft.features.argmax(dim=2) + 1) * real
    edges = (soft.structure > threshold) & real[:, :, None] & real[:, None, :]
    edges &= ~torch.eye(edges.shape[1], dtype=torch.bool, device=edges.device)
    return Graphs(nodes.char(), (edges * EDGE).char())


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
    solver: our own, or POT's, pair by pair in Python and from its own start.
    """
    if pairs is None:
        pairs = torch.arange(len(first)).unsqueeze(1).expand(-1, 2)
    if solver == "pot":
        return solve_with_pot(first, second, pairs, tradeoff, plans)
    return _solve_compiled(first, second, pairs, tradeoff, starts, plans)


def objective(first: SoftGraphs, second: SoftGraphs, plans: Tensor, tradeoff: float) -> Tensor:
    """The objective of `fused_distances` (B,) at given plans (B, m, m), differentiable in the graphs.

    At the best plan its gradient equals that of the distance: the change of the plan does not matter (envelope
    theorem).
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
    from ele_graphs.rivals.fgw.kernels import solve_pairs  # here: importing this package does not import numba

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
    """Convert the fields for the kernels: always the same types and layout, so they are compiled once."""
    fields = (field.detach().to("cpu", torch.float64).contiguous() for field in (soft.features, soft.structure))
    features, structure = (field.numpy() for field in fields)
    return features, structure, soft.sizes.cpu().contiguous().numpy()


def pot() -> ModuleType:
    """Import POT, whose solver checks the compiled one. Raises `ConfigError` if it is not installed."""
    try:
        import ot  # type: ignore[import-untyped]  # POT has no types
    except ImportError as missing:
        what = "solver 'pot' needs POT, which is not installed."
        fix = f"{how_to_install('baselines')}, or use the solver 'compiled'."
        raise ConfigError(what, where="surrogate.solver", fix=fix) from missing
    return ot  # type: ignore[no-any-return]


def solve_with_pot(
    first: SoftGraphs, second: SoftGraphs, pairs: Pairs, tradeoff: float, start: Tensor | None
) -> Transport:
    """As `fused_distances`; without `start`, POT begins with the product of the marginals."""
    solve = pot().gromov.fused_gromov_wasserstein
    nodes = max(first.features.shape[1], second.features.shape[1])
    plans = torch.zeros(len(pairs), nodes, nodes, dtype=torch.float64)
    values = torch.zeros(len(pairs), dtype=torch.float64)
    for row, (a, b) in enumerate(pairs.tolist()):
        n, m = int(first.sizes[a]), int(second.sizes[b])
        if n == 0 or m == 0:
            values[row] = 0.0 if n == m else 2 - tradeoff
            continue
        features_a, features_b = first.features[a, :n].double(), second.features[b, :m].double()
        plan, log = solve(
            torch.cdist(features_a, features_b).square().detach().numpy(),
            first.structure[a, :n, :n].detach().double().numpy(),
            second.structure[b, :m, :m].detach().double().numpy(),
            alpha=tradeoff,
            G0=None if start is None else start[row, :n, :m].double().numpy(),
            log=True,
        )
        plans[row, :n, :m] = torch.from_numpy(plan)
        values[row] = float(log["fgw_dist"])
    return Transport(values, plans)
