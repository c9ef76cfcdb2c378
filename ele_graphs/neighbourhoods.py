"""`neighbourhoods`: a sum over nodes of smooth features of their neighbourhoods, additive like the parts of graphs."""

from __future__ import annotations

import math
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from ele_core import ComponentConfig, ConfigError, OutputSpace
from ele_core.components.encoders.additive import AdditiveEncoder
from ele_graphs.graphs.batch import Graphs, without_loose_edges
from ele_graphs.graphs.space import GraphSpace
from ele_graphs.graphs.wl import SHARED, SIZES, one_form, unsaturated, wl_colours

SIZE_WEIGHT = math.sqrt(sum(weight**2 for weight in SIZES))
"""The weight of the numbers of nodes and of edges, as among parts."""
SIZE_SPREAD = math.sqrt(1.4)
"""How far numbers of nodes or edges are apart that count as different: neighbours have a similarity of 0.7."""


class NeighbourhoodEncoder(AdditiveEncoder):
    """ψ(y) = Σ_k w_k Σ_i √2 cos(s z_i^k P_k + c_k) + features of the numbers of nodes and edges, divided by √dim.

    z_i^0 is a random vector for the label of node i, and z_i^(k+1) = W_k [x_i, Σ_j x_j by edge label], where
    x = √2 cos(s z^k Q_k + b_k): random Fourier features of the neighbourhood of k edges around the node. The forms of a
    molecule whose double bonds alternate have the same embedding if its space says that they are the same.
    """

    invariant = True

    class Config(AdditiveEncoder.Config):
        """The size of the network, and how finely it tells neighbourhoods apart."""

        width: int = Field(128, ge=1)
        """Features that a node sends to its neighbours."""

    config: Config

    def __init__(self, config: ComponentConfig | None, space: OutputSpace[Any, Any], dim: int) -> None:
        super().__init__(config, space, dim)
        assert isinstance(space, GraphSpace)  # checked by `accepts`
        self.kinds, width = space.part_kinds, self.config.width
        self.labels, self.relations = len(space.node_labels), len(space.edge_labels) + bool(self.kinds.double)
        radius, root = self.kinds.radius, math.sqrt(width)
        self.enter = nn.Parameter(torch.randn(self.labels * (1 + bool(self.kinds.double)), width))
        self.mixing = nn.Parameter(torch.randn(radius, (1 + self.relations) * width, width) / root)
        self.inner = nn.Parameter(torch.randn(radius, width, width) / root)
        self.outer = nn.Parameter(torch.randn(radius + 1, width, dim) / root)
        self.inner_phases, self.outer_phases = (
            self.random_phases(radius + 1, width),
            self.random_phases(radius + 1, dim),
        )
        self.weights = nn.Parameter(torch.tensor(self.kinds.weights))
        self.size_directions = nn.Parameter(torch.randn(2, dim) / SIZE_SPREAD)
        self.size_phases = self.random_phases(2, dim)

    @classmethod
    def accepts(cls, space: OutputSpace[Any, Any]) -> None:
        if not isinstance(space, GraphSpace):
            what = f"encoder neighbourhoods reads graphs, and {type(space).__name__} is not a space of graphs."
            raise ConfigError(
                what, where="surrogate.encoder", fix='Take encoder = {name = "blocks"}, which reads any space.'
            )

    def forward(self, point: Graphs) -> Tensor:
        """Nodes (B, m, T+1), edges (B, m, m, S) → (B, dim); differentiable in both."""
        real = 1 - point.nodes[:, :, 0]
        pairs = real[:, :, None] * real[:, None, :]
        labels, relations = self._soft_labels(point, pairs)
        state = labels @ self.enter
        total = self._sizes(real.sum(1), ((1 - point.edges[..., 0]) * pairs).sum((1, 2)) / 2)
        for depth in range(self.kinds.radius + 1):
            features, *sent = self._features(depth, state)
            total = total + self.weights[depth] * torch.einsum("bi,bid->bd", real, features)
            if sent:
                received = torch.einsum("bijs,bjh->bish", relations, *sent).flatten(2)
                state = torch.cat([*sent, received], dim=2) @ self.mixing[depth]
        return total / math.sqrt(self.dim)

    def encode(self, batch: Graphs) -> Tensor:
        """`forward` of discrete graphs, which computes every neighbourhood once; the same up to rounding."""
        graphs = without_loose_edges(batch)
        real, table = graphs.real, self.table()
        row, node = real.nonzero(as_tuple=True)
        colours = wl_colours(graphs, self.kinds.radius, edge_labels=True, kinds=self.kinds)[0]
        colours = colours.unflatten(1, (self.kinds.radius + 1, -1))
        labels, relations = self._labels(graphs)
        ends = functional.pad(real.sum(dim=1).cumsum(0), (1, 0))
        total = self._sizes(real.sum(dim=1).float(), (graphs.edges != 0).sum(dim=(1, 2)).float() / 2)
        places = torch.zeros_like(real, dtype=torch.int64)

        def enter(first: Tensor) -> tuple[Tensor, ...]:
            return self.in_blocks(lambda own: self._features(0, own), self.enter[labels[row[first], node[first]]])

        def widen(first: Tensor, depth: int) -> tuple[Tensor, ...]:
            graph, centre = row[first], node[first]
            sent, before = table.values[depth - 1][1], places[graph]
            # neighbours in an order of their own, because rounding depends on it
            order = colours[graph, depth - 1].argsort(dim=1)
            order = order.gather(1, relations[graph, centre].gather(1, order).argsort(dim=1, stable=True))
            by = relations[graph, centre].gather(1, order)
            which, place = (by > 0).nonzero(as_tuple=True)
            bags = torch.bincount(which * self.relations + by[which, place] - 1, minlength=len(first) * self.relations)
            received = functional.embedding_bag(
                before.gather(1, order)[which, place], sent, functional.pad(bags.cumsum(0), (1, 0))[:-1], mode="sum"
            )
            own = sent[before.gather(1, centre[:, None])[:, 0]]
            both = torch.cat([own, received.view(len(first), -1)], dim=1)
            return self.in_blocks(lambda some: self._features(depth, some @ self.mixing[depth - 1]), both)

        for depth in range(self.kinds.radius + 1):
            compute = enter if depth == 0 else lambda first, depth=depth: widen(first, depth)
            known = table.rows(depth, colours[:, depth][real], compute)
            features = table.values[depth][0]
            pooled = functional.embedding_bag(known, features, ends, mode="sum", include_last_offset=True)
            total = total + self.weights[depth] * pooled
            places[real] = known
        return total / math.sqrt(self.dim)

    def _features(self, depth: int, state: Tensor) -> tuple[Tensor, ...]:
        """The features (…, dim) of nodes from their states (…, width), and what they send (…, width) but at the end."""
        features = self.waves(state @ self.outer[depth], self.outer_phases[depth])
        if depth == self.kinds.radius:
            return (features,)
        return features, self.waves(state @ self.inner[depth], self.inner_phases[depth])

    def _sizes(self, nodes: Tensor, edges: Tensor) -> Tensor:
        """Features of the numbers of nodes and edges: (B,), (B,) → (B, dim)."""
        counts = torch.stack([nodes, edges], dim=1)[:, :, None]
        return SIZE_WEIGHT * math.sqrt(2) * torch.cos(counts * self.size_directions + self.size_phases).sum(dim=1)

    def _labels(self, graphs: Graphs) -> tuple[Tensor, Tensor]:
        """Labels of nodes from 0 on (B, m), and of edges, 0 for none (B, m, m), with alternating bonds as one form."""
        nodes = (graphs.nodes.long() - 1).clamp(min=0)
        if not self.kinds.double:
            return nodes, graphs.edges.long()
        edges = one_form(graphs, self.kinds).edges.long()
        return nodes + self.labels * unsaturated(graphs, self.kinds), edges.masked_fill(edges == SHARED, self.relations)

    def _soft_labels(self, point: Graphs, pairs: Tensor) -> tuple[Tensor, Tensor]:
        """Labels of nodes (B, m, …) and relations (B, m, m, …): at vertices those of `_labels`."""
        nodes, edges = point.nodes[..., 1:], point.edges[..., 1:] * pairs[..., None]
        if not self.kinds.double:
            return nodes, edges
        double = edges[..., self.kinds.double - 1].sum(dim=2)
        single_double = (double * (2 - double)).clamp(min=0)
        if self.kinds.triple:
            single_double = single_double * (1 - edges[..., self.kinds.triple - 1].sum(dim=2)).clamp(min=0)
        own, both = single_double[..., None], (single_double[:, :, None] * single_double[:, None, :])[..., None]
        shared = (1 - point.edges[..., :1]) * pairs[..., None] * both
        return torch.cat([nodes * (1 - own), nodes * own], dim=2), torch.cat([edges * (1 - both), shared], dim=3)
