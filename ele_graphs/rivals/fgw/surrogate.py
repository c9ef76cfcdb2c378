"""`fgw`: the fused Gromov-Wasserstein distance as a loss on graphs: fixed, not learned; it ignores edge labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from ele_core import ComponentConfig, ConfigError, Context, OutputSpace, Surrogate
from ele_graphs.graphs.space import GraphSpace
from ele_graphs.rivals.fgw.distance import Pairs, Solver, Transport, fused_distances
from ele_graphs.rivals.fgw.measure import Layout
from ele_graphs.rivals.fgw.soft_graphs import SoftGraphs, soften

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
            from ele_graphs.rivals.fgw.pot import pot

            pot()  # raises now if it is not installed
        self.layout = Layout(space.max_nodes, len(space.node_labels))

    @property
    def dim(self) -> int:
        """Numbers per weighted graph."""
        return self.layout.width

    def fit(self, outputs: Any, validation: Any, extra: Any | None, context: Context) -> None:
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

    def energies(self, queries: Tensor, embeddings: Tensor) -> Tensor:
        """Σ_k w_k FGW(y, g_k) of every query (B, k · dim) with every embedded y (N, dim): (B, N), B k N distances."""
        weights, graphs = self.layout.unpack(queries)
        _, structures = self.layout.unpack(embeddings)
        grid = torch.cartesian_prod(torch.arange(len(structures)), weights.flatten().nonzero().flatten().cpu())
        values = weights.new_zeros(len(structures), weights.numel())
        for pairs in grid.split(CHUNK):
            found = self.distances(structures, graphs, pairs).values
            values[pairs[:, 0], pairs[:, 1]] = found.to(values.dtype)
        return (values.reshape(len(structures), *weights.shape) * weights).sum(dim=2).T.contiguous()

    def energy(self, queries: Tensor, batch: Any) -> Tensor:
        """Σ_k w_k FGW(y, g_k) of structure i for query i: (B,)."""
        weights, graphs = self.layout.unpack(queries)
        structures = self.soften(batch).to(queries.device)
        owner = torch.arange(len(weights)).repeat_interleave(weights.shape[1])
        pairs = torch.stack([owner, torch.arange(len(graphs))], dim=1)
        parts = [self.distances(structures, graphs, some).values for some in pairs.split(CHUNK)]
        values = torch.cat(parts) if parts else weights.new_zeros(0)
        return (values.to(weights.dtype).reshape(weights.shape) * weights).sum(dim=1)

    def state(self) -> dict[str, Tensor]:
        """Empty: nothing is learned."""
        return {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Do nothing: nothing is learned."""


def require_fused(component: str, surrogate: Surrogate) -> FusedSurrogate:
    """Return `surrogate` if it is `fgw`, and raise `ConfigError` otherwise."""
    if isinstance(surrogate, FusedSurrogate):
        return surrogate
    what = f"'{component}' needs weighted graphs as queries, which surrogate {type(surrogate).__name__} does not take."
    raise ConfigError(what, where="surrogate", fix='Set surrogate = "fgw".')
