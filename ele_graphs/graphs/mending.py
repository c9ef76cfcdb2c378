"""Mend graphs that break the rules, for rounding points of the relaxed set: the least likely edges give way."""

from __future__ import annotations

import torch
from torch import Tensor

from ele_graphs.graphs.batch import Graphs, components, keep_nodes
from ele_graphs.graphs.valence import Valence

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
    lower = _next_lower(rules.weights).to(edges)
    rows = torch.arange(len(graphs), device=graphs.device)
    while len(rows):
        part = Graphs(graphs.nodes[rows], edges[rows])
        over = rules.weigh(part).sum(dim=2) > limit[rows]
        still = over.any(dim=1)
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


def _next_lower(weights: tuple[int, ...]) -> Tensor:
    """(S,) the edge label of the next lower weight."""
    lower = [
        max((w, label) for label, w in enumerate(weights) if w < weight) if weight else (0, 0) for weight in weights
    ]
    return torch.tensor([label for _, label in lower])


def _largest_component(graphs: Graphs) -> Tensor:
    """(B, m) bool: the nodes of the largest connected component, of several that of the first node."""
    component = components(graphs)
    size = ((component[:, :, None] == component[:, None, :]) & graphs.real[:, None, :]).sum(dim=2) * graphs.real
    chosen = component.gather(1, size.argmax(dim=1, keepdim=True))
    return (component == chosen) & graphs.real
