"""`rgcn`: relational graph convolutions over soft adjacency: the paper's encoder, with improvements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

from ele_core import ComponentConfig, ConfigError, Encoder, OutputSpace
from ele_core.types import MOST_LAYERS
from ele_graphs.graphs.batch import Graphs, without_loose_edges
from ele_graphs.graphs.space import GraphSpace

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu,
    "silu": nn.functional.silu,
    "gelu": nn.functional.gelu,
}


class RelationalEncoder(Encoder):
    """Layers F ← σ(Σ_s E[:, :, s] F W_s) over every edge label s, "none" included; sum over nodes; two linear layers.

    The paper's exact form is `self_connection = false, residual = false, normalise = "none", mask_virtual = false,
    closed_walks = 0`: there W_none passes messages from a node to itself, from its non-neighbours and from virtual
    nodes, so the embedding depends on the padding. With `mask_virtual` it does not.
    """

    invariant = True

    class Config(ComponentConfig):
        """Size and form of the network."""

        layers: int = Field(default=4, ge=1, le=MOST_LAYERS)
        """Number of message-passing layers."""
        width: int = Field(default=128, ge=1)
        """Features per node."""
        activation: Literal["relu", "silu", "gelu"] = "relu"
        """The activation function σ."""
        self_connection: bool = True
        """Whether messages from a node to itself have a weight of their own."""
        residual: bool = True
        """Whether each layer's result is added to its input; a linear layer then comes first."""
        normalise: Literal["layer", "none"] = "layer"
        """Layer normalisation of the messages, or none."""
        mask_virtual: bool = True
        """Whether virtual nodes, as far as they are virtual, send no messages and do not count in the sum."""
        head: int = Field(default=256, ge=1)
        """Features between the two linear layers after the sum."""
        closed_walks: int = Field(default=6, ge=0)
        """Count closed walks up to this length as node features: they distinguish what messages cannot. 0: off."""

    config: Config

    def __init__(self, config: ComponentConfig | None, space: OutputSpace[Any, Any], dim: int) -> None:
        super().__init__(config, space, dim)
        assert isinstance(space, GraphSpace)  # checked by `accepts`
        options = self.config
        self.node_labels, self.labels = len(space.node_labels) + 1, len(space.edge_labels)
        relations = len(space.edge_labels) + 1 + options.self_connection
        features = len(space.node_labels) + 1 + self._walk_features(len(space.edge_labels))
        first = options.width if options.residual else features
        sizes = [first] + [options.width] * options.layers
        normaliser = nn.LayerNorm if options.normalise == "layer" else nn.Identity
        self.enter = nn.Linear(features, options.width) if options.residual else nn.Identity()
        self.weights = nn.ModuleList(nn.Linear(relations * size, options.width) for size in sizes[:-1])
        self.norms = nn.ModuleList(normaliser(size) for size in sizes[:-1])
        self.hidden = nn.Linear(options.width, options.head)
        self.leave = nn.Linear(options.head, dim)

    @classmethod
    def accepts(cls, space: OutputSpace[Any, Any]) -> None:
        if not isinstance(space, GraphSpace):
            what = f"encoder rgcn reads graphs, and {type(space).__name__} is not a space of graphs."
            raise ConfigError(
                what, where="surrogate.encoder", fix='Take encoder = {name = "flat"}, which reads any space.'
            )

    def forward(self, point: Graphs) -> Tensor:
        """Nodes (B, m, T+1), edges (B, m, m, S) → (B, dim), not normalised; differentiable in both."""
        activation = ACTIVATIONS[self.config.activation]
        real = 1 - point.nodes[:, :, 0] if self.config.mask_virtual else torch.ones_like(point.nodes[:, :, 0])
        relations = self._relations(point.edges, real)
        features = self.enter(self._features(point, real))
        for linear, norm in zip(self.weights, self.norms, strict=True):
            messages = torch.bmm(relations, norm(features)).unflatten(1, (point.nodes.shape[1], -1)).flatten(2)
            update = activation(linear(messages))
            features = features + update if self.config.residual else update
        pooled = torch.bmm(real[:, None, :], features)[:, 0]
        out: Tensor = self.leave(activation(self.hidden(pooled)))
        return out

    def encode(self, batch: Graphs) -> Tensor:
        """`forward` of discrete graphs, along their edges instead of all pairs of nodes; the same up to rounding."""
        if not self.config.mask_virtual or not len(batch):
            return super().encode(batch)
        graphs = without_loose_edges(batch)
        features = self.enter(self._real_features(graphs))
        activation = ACTIVATIONS[self.config.activation]
        along = EdgesByLabel(graphs, self.labels)
        for linear, norm in zip(self.weights, self.norms, strict=True):
            update = activation(along.messages(norm(features), linear, self_connection=self.config.self_connection))
            features = features + update if self.config.residual else update
        out: Tensor = self.leave(activation(self.hidden(along.pooled(features))))
        return out

    def _real_features(self, graphs: Graphs) -> Tensor:
        """`_features` of the real nodes of discrete graphs, one after the other: (N, features)."""
        labels = functional.one_hot(graphs.nodes[graphs.real].long(), self.node_labels).to(self.hidden.weight.dtype)
        if not self.config.closed_walks:
            return labels
        adjacency = (graphs.edges != 0)[:, None]
        if self.labels > 1:
            adjacency = torch.cat([adjacency, graphs.edges[:, None]], dim=1)
        counts = closed_walks(adjacency.to(labels.dtype), self.config.closed_walks)
        return torch.cat([labels, torch.asinh(counts).transpose(1, 2).flatten(2)[graphs.real]], dim=1)

    def _relations(self, edges: Tensor, real: Tensor) -> Tensor:
        """(B, m, m, S) → (B, m·S, m): row (i, s) weighs the messages to node i through relation s, the self one last.

        One product with F (B, m, width) then gives (B, m, S·width) without a copy; one linear layer applies all W_s.
        Multiplying by all W_s first takes as long, because the linear layer dominates either way.
        """
        count, size = real.shape
        relations = edges.permute(0, 1, 3, 2)
        if self.config.self_connection:
            identity = torch.eye(size, dtype=edges.dtype, device=edges.device).expand(count, size, size)
            relations = torch.cat([relations, identity[:, :, None, :]], dim=2)
        if self.config.mask_virtual:
            relations = relations * real[:, None, None, :]
        return relations.flatten(1, 2)

    def _features(self, point: Graphs, real: Tensor) -> Tensor:
        """Node labels, and the closed walks of the graph with and without the weight of edge labels."""
        if not self.config.closed_walks:
            return point.nodes
        adjacency = (1 - point.edges[..., 0])[:, None]
        if point.edges.shape[-1] > 2:
            order = torch.arange(point.edges.shape[-1], dtype=point.edges.dtype, device=point.edges.device)
            adjacency = torch.cat([adjacency, (point.edges @ order)[:, None]], dim=1)
        if self.config.mask_virtual:
            adjacency = adjacency * real[:, None, :, None] * real[:, None, None, :]
        counts = closed_walks(adjacency, self.config.closed_walks)
        # asinh: the logarithm for large counts, smooth and with slope 1 at zero, where vertices are.
        return torch.cat([point.nodes, torch.asinh(counts).transpose(1, 2).flatten(2)], dim=2)

    def _walk_features(self, edge_labels: int) -> int:
        return max(0, self.config.closed_walks - 1) * (2 if edge_labels > 1 else 1)


class EdgesByLabel:
    """The edges of a batch of discrete graphs, to send messages between the real nodes of all, numbered in a row."""

    def __init__(self, graphs: Graphs, labels: int) -> None:
        real = graphs.real
        number = real.flatten().cumsum(0).view(real.shape) - 1
        self.sizes = real.sum(dim=1)
        self.starts = functional.pad(self.sizes.cumsum(0), (1, 0))[:-1]
        self.graph = torch.arange(len(graphs), device=graphs.device).repeat_interleave(self.sizes)
        row, target, source = graphs.edges.nonzero(as_tuple=True)
        label, target, source = graphs.edges[row, target, source], number[row, target], number[row, source]
        self.by_label = [
            self._bags(target[own], source[own]) for own in (label == code for code in range(1, labels + 1))
        ]

    def messages(self, features: Tensor, linear: nn.Module, *, self_connection: bool) -> Tensor:
        """Σ_s W_s Σ_j f_j over the neighbours j by label s, over all nodes without an edge, and the node itself.

        Those without an edge are all nodes of a graph except the neighbours: W_none is applied once per graph to the
        sum of its nodes, and subtracted from the weights of the other labels.
        """
        assert isinstance(linear, nn.Linear)
        weights = linear.weight.unflatten(1, (-1, features.shape[1])).unbind(dim=1)
        everywhere = functional.linear(self.pooled(features), weights[0], linear.bias)[self.graph]
        result = everywhere if not self_connection else everywhere + features @ weights[-1].T
        for (target, source, starts), weight in zip(self.by_label, weights[1:], strict=False):
            if len(target):
                sums = functional.embedding_bag(source, features, starts, mode="sum")
                result = result.index_add(0, target, sums @ (weight - weights[0]).T)
        return result

    def pooled(self, features: Tensor) -> Tensor:
        """The sum over the nodes of each graph: (N, width) → (B, width)."""
        nodes = torch.arange(len(features), device=features.device)
        return functional.embedding_bag(nodes, features, self.starts, mode="sum")

    @staticmethod
    def _bags(target: Tensor, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The nodes with such an edge, their neighbours, and where those of each node start; `target` ascends."""
        first = torch.ones_like(target, dtype=torch.bool)
        first[1:] = target[1:] != target[:-1]
        return target[first], source, first.nonzero().flatten()


def closed_walks(adjacency: Tensor, longest: int) -> Tensor:
    """diag(Aᵏ) for k = 2…longest: (…, m, m) → (…, m, longest − 1), with only half as many matrix products.

    diag(Aᵃ⁺ᵇ)_i = Σ_j (Aᵃ)_ij (Aᵇ)_ji.
    """
    powers = [adjacency]
    while 2 * len(powers) < longest:
        powers.append(powers[-1] @ adjacency)
    halves = [((k + 1) // 2 - 1, k // 2 - 1) for k in range(2, longest + 1)]
    counts = [(powers[a] * powers[b].transpose(-1, -2)).sum(dim=-1) for a, b in halves]
    return torch.stack(counts, dim=-1) if counts else adjacency.new_zeros(*adjacency.shape[:-1], 0)
