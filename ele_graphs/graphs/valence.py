"""Valence for the moves of graphs: no node with more edges than its label allows, and no graph that falls apart.

An edit is judged at the graph that it starts from, before the result is made: this takes a fraction of the time.

Graphs rounded from points of the relaxed set are mended: the least likely edges give way.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ele_core.numerics.tensors import constant
from ele_graphs.graphs.batch import Graphs, component_counts, components, keep_nodes


@dataclass(frozen=True)
class Valence:
    """The edges at a node of label t weigh at most capacities[t] together; an edge of label s weighs weights[s]."""

    weights: tuple[int, ...]
    """One per edge label, 0 for "no edge"."""
    capacities: tuple[int, ...]
    """One per node label, 0 for a virtual node."""
    connected: bool
    """Whether a graph must be connected."""

    def hold(self, graphs: Graphs) -> Tensor:
        """(B,) bool: whether each graph keeps the rules."""
        kept = (self.weigh(graphs).sum(dim=2) <= self.limits(graphs)).all(dim=1)
        return kept & (component_counts(graphs) == 1) if self.connected else kept

    def weigh(self, graphs: Graphs) -> Tensor:
        """(B, m, m) int64: the weight of each edge."""
        return constant(self.weights, torch.long, graphs.device)[graphs.edges.long()]

    def limits(self, graphs: Graphs) -> Tensor:
        """(B, m) int64: the maximum total weight of the edges of each node."""
        return constant(self.capacities, torch.long, graphs.device)[graphs.nodes.long()]


def legal_edits(graphs: Graphs, rules: Valence) -> tuple[Tensor, ...]:
    """Whether the nodes that an edit changes keep the rules: a bool for each edit of each family, as in `graph_moves`.

    The result of such an edit keeps all rules if its graph does.
    """
    weights = constant(rules.weights, torch.long, graphs.device)
    capacities = constant(rules.capacities, torch.long, graphs.device)[1:]
    weight, limit = rules.weigh(graphs), rules.limits(graphs)
    used = weight.sum(dim=2)
    spare = limit - used
    room = torch.minimum(spare[:, :, None], spare[:, None, :]) + weight  # the maximum weight of each edge
    fits = weights[1:] <= torch.minimum(spare[:, None, :], capacities[:, None])[..., None]
    remove = graphs.real
    rebond = weights <= room[..., None]
    shift = weight[..., None] <= spare[:, None, None, :]
    if rules.connected:
        side = _sides(graphs)
        bridge = ~side.diagonal(dim1=2, dim2=3)
        remove = remove & ~_cut_nodes(graphs)
        rebond = rebond & ~(bridge[..., None] & (weights == 0))
        shift = shift & ~(bridge[..., None] & side)
    return (
        used[..., None] <= capacities,
        remove,
        rebond,
        fits,
        2 * weight[:, None] <= capacities[:, None, None],
        (used[:, :, None] <= limit[:, None, :]) & (used[:, None, :] <= limit[:, :, None]),
        shift,
        _contracts(graphs, weights, weight, spare),
    )


def path_ends(graphs: Graphs) -> tuple[Tensor, Tensor, Tensor]:
    """For each node its first and its last neighbour, and the lower label of the edges to them: three (B, m) int64."""
    bound = (graphs.edges != 0).to(torch.int8)
    first, last = bound.argmax(dim=2), graphs.max_nodes - 1 - bound.flip(2).argmax(dim=2)
    labels = [graphs.edges.gather(2, end[..., None])[..., 0] for end in (first, last)]
    return first, last, torch.minimum(*labels).long()


def inside_paths(graphs: Graphs) -> Tensor:
    """(B, m) bool: the nodes with two neighbours that are not bound to each other."""
    first, last, _ = path_ends(graphs)
    rows = torch.arange(len(graphs), device=graphs.device)[:, None]
    return ((graphs.edges != 0).sum(dim=2) == 2) & (graphs.edges[rows, first, last] == 0)


def _contracts(graphs: Graphs, weights: Tensor, weight: Tensor, spare: Tensor) -> Tensor:
    """(B, m) bool: whether the two neighbours of a node may be bound to each other instead of to it."""
    first, last, label = path_ends(graphs)
    room = [spare.gather(1, end) + weight.gather(2, end[..., None])[..., 0] for end in (first, last)]
    return weights[label] <= torch.minimum(*room)


def _sides(graphs: Graphs) -> Tensor:
    """(B, m, m, m) bool, entry (i, j, k): whether node i is connected to k without the edge i–j."""
    count, size = graphs.nodes.shape
    same = torch.eye(size, dtype=torch.bool, device=graphs.device)
    start = (graphs.edges != 0)[:, :, None, :] & ~same | same[:, None, :]
    closed = same[:, None, :].expand(size, size, size)  # i passes on to its other neighbours in `start` alone
    return _spread(start.reshape(count, size * size, size), closed.reshape(-1, size), graphs).view(
        count, size, size, size
    )


def _cut_nodes(graphs: Graphs) -> Tensor:
    """(B, m) bool: the nodes without which a connected graph falls apart."""
    same = torch.eye(graphs.max_nodes, dtype=torch.bool, device=graphs.device)
    bound = graphs.edges != 0
    start = same[bound.to(torch.int8).argmax(dim=2)] & bound  # its first neighbour
    reached = _spread(start, same, graphs) | same
    return bound.any(dim=2) & (graphs.real[:, None, :] & ~reached).any(dim=2)


def _spread(start: Tensor, closed: Tensor, graphs: Graphs) -> Tensor:
    """(B, n, m) bool: the nodes connected to those of `start` (B, n, m) by paths not through those `closed` (n, m)."""
    edges, open_nodes = (graphs.edges != 0).float(), (~closed).float()
    reached = start
    while True:
        wider = reached | ((reached * open_nodes) @ edges > 0)
        if torch.equal(wider, reached):
            return reached
        reached = wider


TIE = 1e-9


def mended(graphs: Graphs, point: Graphs, rules: Valence) -> Graphs:
    """The graphs to which `point` was rounded, changed until they keep the rules; those that do stay as they are.

    1. A graph without nodes gets its likeliest node.
    2. While a node has more edges than its label allows, the least likely edge at such a node takes the label of the
       next lower weight.
    3. Of several connected components the largest stays.
    """
    broken = (~rules.hold(graphs)).nonzero().flatten()
    if not len(broken):
        return graphs
    part, likely = graphs[broken], point[broken]
    part = _lightened(_with_a_node(part, likely), likely.edges, rules)
    part = keep_nodes(part, _largest_component(part)) if rules.connected else part
    nodes, edges = graphs.nodes.clone(), graphs.edges.clone()
    nodes[broken], edges[broken] = part.nodes, part.edges
    return Graphs(nodes, edges)


def _with_a_node(graphs: Graphs, point: Graphs) -> Graphs:
    """Graphs of at least one node."""
    labels = point.nodes.shape[2] - 1
    best = point.nodes[..., 1:].flatten(1).argmax(dim=1)
    empty = (graphs.sizes == 0).nonzero().flatten()
    nodes = graphs.nodes.clone()
    nodes[empty, best[empty] // labels] = (best[empty] % labels + 1).to(nodes.dtype)
    return graphs.replace(nodes=nodes)


def _lightened(graphs: Graphs, likely: Tensor, rules: Valence) -> Graphs:
    """Lower the edges of overloaded nodes, at each node one at a time, until no node is overloaded."""
    edges, limit = graphs.edges.clone(), rules.limits(graphs)
    lower = constant(_next_lower(rules.weights), edges.dtype, edges.device)
    rows = torch.arange(len(graphs), device=graphs.device)
    while len(rows):
        part = Graphs(graphs.nodes[rows], edges[rows])
        over = rules.weigh(part).sum(dim=2) > limit[rows]
        still = over.any(dim=1).nonzero().flatten()
        rows, part, over = rows[still], part[still], over[still]
        edges[rows] = torch.where(_weakest(part, likely[rows], over), lower[part.edges.long()], part.edges)
    return graphs.replace(edges=edges)


def _weakest(graphs: Graphs, likely: Tensor, over: Tensor) -> Tensor:
    """(B, m, m) bool: the edges that are the least likely ones of each of their ends that is overloaded (B, m)."""
    chance = likely.double().gather(3, graphs.edges.long()[..., None])[..., 0]
    pairs = torch.arange(graphs.max_nodes**2, device=graphs.device).view(graphs.max_nodes, -1).triu()
    chance = (
        chance + chance.transpose(1, 2) + TIE * (pairs + pairs.T)
    )  # of equally likely edges the first is the least likely
    chance = chance.masked_fill((graphs.edges == 0) | ~(over[:, :, None] | over[:, None, :]), torch.inf)
    least = chance == chance.amin(dim=2, keepdim=True)
    return chance.isfinite() & (least | ~over[:, :, None]) & (least.transpose(1, 2) | ~over[:, None, :])


def _next_lower(weights: tuple[int, ...]) -> tuple[int, ...]:
    """For each edge label the one of the next lower weight."""
    lower = [
        max((w, label) for label, w in enumerate(weights) if w < weight) if weight else (0, 0) for weight in weights
    ]
    return tuple(label for _, label in lower)


def _largest_component(graphs: Graphs) -> Tensor:
    """(B, m) bool: the nodes of the largest connected component, of several that of the first node."""
    component = components(graphs)
    size = ((component[:, :, None] == component[:, None, :]) & graphs.real[:, None, :]).sum(dim=2) * graphs.real
    chosen = component.gather(1, size.argmax(dim=1, keepdim=True))
    return (component == chosen) & graphs.real
