"""`fgw`: the fused Gromov-Wasserstein distance as a loss on graphs: fixed, not learned; it ignores edge labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from ele_core import ComponentConfig, ConfigError, Context, Energy, OutputSpace, Surrogate, TrainingData
from ele_core.energies import QueryEnergy
from ele_core.errors import ModelError
from ele_core.types import Candidates
from ele_graphs.graphs.space import GraphSpace
from ele_graphs.rivals.fgw.distance import Pairs, SoftGraphs, Solver, Transport, fused_distances, pot, soften


@dataclass(frozen=True)
class Layout:
    """Graphs of at most m nodes and T labels as rows: weight, number of nodes, features, half of the structure.

    A structure y is one graph of weight 1, which is its embedding. A query is k of them, one after the other.
    """

    nodes: int
    labels: int

    @property
    def width(self) -> int:
        """Numbers per graph: 2 + m T + m (m + 1) / 2, with the diagonal, which barycenters have."""
        return 2 + self.nodes * self.labels + self.nodes * (self.nodes + 1) // 2

    def pack(self, weights: Tensor, graphs: SoftGraphs) -> Tensor:
        """Weights (B, k) and B k graphs → (B, k · width)."""
        upper = self._upper(weights.device)
        parts = [
            weights.reshape(-1, 1),
            graphs.sizes.unsqueeze(1),
            graphs.features.flatten(start_dim=1),
            graphs.structure[:, upper[0], upper[1]],
        ]
        return torch.cat([part.to(weights.dtype) for part in parts], dim=1).reshape(
            len(weights), weights.shape[1] * self.width
        )

    def unpack(self, rows: Tensor) -> tuple[Tensor, SoftGraphs]:
        """The inverse of `pack`: weights (B, k), and B k graphs."""
        if rows.shape[1] % self.width:
            what = f"a query of {rows.shape[1]} numbers cannot be split into graphs of {self.width} numbers each."
            raise ModelError(what, where="surrogate fgw", fix="Use the regressor 'fgw-ridge' or 'fgw-templates'.")
        each = rows.reshape(-1, self.width)
        sizes = [1, 1, self.nodes * self.labels, self.nodes * (self.nodes + 1) // 2]
        weights, counts, features, triangle = each.split(sizes, dim=1)
        upper = self._upper(rows.device)
        structure = rows.new_zeros(len(each), self.nodes, self.nodes)
        structure[:, upper[0], upper[1]] = triangle
        structure[:, upper[1], upper[0]] = triangle
        count = counts.flatten().round().long().clamp(0, self.nodes)
        graphs = SoftGraphs(features.reshape(-1, self.nodes, self.labels), structure, count)
        return weights.reshape(len(rows), rows.shape[1] // self.width), graphs

    def _upper(self, device: torch.device) -> Tensor:
        return torch.triu_indices(self.nodes, self.nodes, device=device)


CHUNK = 1 << 15
"""Pairs solved at once: their plans take a few dozen MiB."""


class FusedSurrogate(Surrogate):
    """loss(y, y′) = FGW(y, y′). Its embedding is implicit, so a query is a set of weighted graphs instead of a vector.

    The energy of y for the query Σ_k w_k δ(g_k) is Σ_k w_k FGW(y, g_k); the embedding of a structure is the structure
    itself, with weight 1.
    """

    spherical = False

    class Config(ComponentConfig):
        """The distance and how it is computed."""

        tradeoff: float = Field(0.9, ge=0, le=1)
        """α, the weight of the structure in the distance; node labels have weight 1 − α. In graphs of n nodes, a
        missing edge costs 2α/n² and a wrong label 2(1 − α)/n: α = n/(n + 1) makes them equal."""
        starts: int = Field(2, ge=1)
        """Descents per distance, of which the best counts: the problem is not convex."""
        solver: Solver = "compiled"
        """`compiled`: our own. `pot`: that of POT (extra `baselines`), in Python and far slower, as a check."""

    config: Config

    def __init__(self, config: ComponentConfig | None, space: OutputSpace[Any, Any]) -> None:
        super().__init__(config, space)
        if not isinstance(space, GraphSpace):
            what = f"surrogate fgw compares graphs, and {type(space).__name__} is not a space of graphs."
            raise ConfigError(what, where="surrogate", fix='Take surrogate = {name = "contrastive"}.')
        if self.config.solver == "pot":
            pot()  # raises now if it is not installed
        self.layout = Layout(space.max_nodes, len(space.node_labels))

    @property
    def dim(self) -> int:
        """Numbers per weighted graph."""
        return self.layout.width

    def fit(self, data: TrainingData, context: Context) -> None:
        """Do nothing: the distance is fixed."""

    def embed(self, batch: Any) -> Tensor:
        """Packed graphs → (B, dim): each with weight 1."""
        graphs = self.soften(batch)
        return self.layout.pack(graphs.features.new_ones(len(graphs), 1), graphs)

    def soften(self, batch: Any) -> SoftGraphs:
        """Convert packed graphs for the distance."""
        return soften(batch, self.layout.labels)

    def distances(
        self, first: SoftGraphs, second: SoftGraphs, pairs: Pairs | None = None, plans: Tensor | None = None
    ) -> Transport:
        """`fused_distances` with the options of this surrogate."""
        options = self.config
        return fused_distances(
            first,
            second,
            pairs,
            tradeoff=options.tradeoff,
            starts=options.starts,
            plans=plans,
            solver=options.solver,
        )

    def energy(self, queries: Tensor) -> Energy:
        """Σ_k w_k FGW(y, g_k)."""
        return FusedEnergy(self, queries)

    def state(self) -> dict[str, Tensor]:
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Do nothing: nothing is learned."""


class FusedEnergy(QueryEnergy):
    """Σ_k w_k FGW(y, g_k) for queries (B, k · dim)."""

    surrogate: FusedSurrogate

    def among(self, candidates: Candidates) -> Tensor:
        """That of every query and candidate: (B, N), which takes B k N distances."""
        weights, graphs = self.surrogate.layout.unpack(self.queries)
        _, structures = self.surrogate.layout.unpack(candidates.kept_by(self.surrogate))
        grid = torch.cartesian_prod(torch.arange(len(structures)), weights.flatten().nonzero().flatten().cpu())
        values = weights.new_zeros(len(structures), weights.numel())
        for pairs in grid.split(CHUNK):
            found = self.surrogate.distances(structures, graphs, pairs).values
            values[pairs[:, 0], pairs[:, 1]] = found.to(values.dtype)
        return (values.reshape(len(structures), *weights.shape) * weights).sum(dim=2).T.contiguous()

    def of(self, batch: Any, owner: Tensor | None = None) -> Tensor:
        weights, graphs = self.surrogate.layout.unpack(self.asked(owner))
        structures = self.surrogate.soften(batch).to(self.device)
        place = torch.arange(len(weights)).repeat_interleave(weights.shape[1])
        pairs = torch.stack([place, torch.arange(len(graphs))], dim=1)
        parts = [self.surrogate.distances(structures, graphs, some).values for some in pairs.split(CHUNK)]
        values = torch.cat(parts) if parts else weights.new_zeros(0)
        return (values.to(weights.dtype).reshape(weights.shape) * weights).sum(dim=1)


def require_fused(component: str, surrogate: Surrogate) -> FusedSurrogate:
    """Return `surrogate` if it is `fgw`, and raise `ConfigError` otherwise."""
    if isinstance(surrogate, FusedSurrogate):
        return surrogate
    raise needs_fused(component, f"surrogate {type(surrogate).__name__}")


def needs_fused(component: str, given: object) -> ConfigError:
    """Return the error for a component that works only with `fgw`."""
    what = f"'{component}' needs weighted graphs as queries, which {given} does not take."
    return ConfigError(what, where="surrogate", fix='Set surrogate = "fgw".')


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
