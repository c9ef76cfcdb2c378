"""Weisfeiler-Lehman subtree features and those of all k-cores, as counts of hashed colours, for whole batches."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ele_core import SparseRows
from ele_core.numerics.keys import mix
from ele_core.numerics.tensors import constant
from ele_graphs.graphs.batch import Graphs, keep_nodes, without_loose_edges
from ele_graphs.graphs.keys import edge_weights, refined

RADIUS = 2
"""Edges from a node to the border of the neighbourhoods that are compared."""
FAR = 0.4
"""The weight of neighbourhoods wider than that."""
SIZES = (0.9, 1.5, 0.9)
"""The weights of the number of nodes less one, of the number itself, and of one more; the same for edges."""
SHARED, UNSATURATED = 127, 128
"""The label of an edge between two nodes with one double edge each, and what is added to the labels of such nodes."""


@dataclass(frozen=True)
class PartKinds:
    """Which parts of graphs `graph_features` counts."""

    radius: int = RADIUS
    """Edges from a node to the border of the largest neighbourhoods."""
    double: int = 0
    """The label of a double edge, if graphs that differ only in how double edges alternate have the same parts: a
    node with one double edge is labelled so, and the edge between two of them is neither single nor double."""
    triple: int = 0
    """The label of a triple edge; a node with one is not such a node."""

    @property
    def weights(self) -> tuple[float, ...]:
        """The weights of neighbourhoods of 0, 1, … edges: wide ones are rare, and a small edit changes many of them."""
        return tuple(1.0 if depth <= RADIUS else FAR for depth in range(self.radius + 1))


def wl_features(graphs: Graphs, iterations: int = 5, *, edge_labels: bool = False) -> SparseRows:
    """Counts of the colours after 0, 1, …, `iterations` refinements: φ with ⟨φ(y), φ(y′)⟩ the WL subtree kernel."""
    keys, present = wl_colours(without_loose_edges(graphs), iterations, edge_labels)
    return SparseRows.counted(keys, present)


def graph_features(graphs: Graphs, kinds: PartKinds = PartKinds()) -> SparseRows:  # noqa: B008  # frozen
    """The parts of graphs as neighbourhoods of up to `radius` edges around each node, and the numbers of nodes, edges.

    The numbers count at their neighbours too, so that a near miss is better than a wide one.
    """
    graphs = without_loose_edges(graphs)
    keys, present = wl_colours(graphs, kinds.radius, edge_labels=True, kinds=kinds)
    around = torch.arange(-1, 2, device=keys.device)
    weight = constant(SIZES, torch.float32, keys.device).expand(len(graphs), -1)
    sizes = mix(mix(graphs.sizes.long()[:, None] + around) + 1)
    edges = mix(mix((graphs.edges != 0).sum(dim=(1, 2))[:, None] // 2 + around) + 2)
    depths = constant(kinds.weights, torch.float32, keys.device).repeat_interleave(graphs.max_nodes)
    values = torch.cat([present * depths, weight, weight], 1)
    return SparseRows.summed(torch.cat([keys, sizes, edges], 1), values)


def core_wl_features(graphs: Graphs, iterations: int = 5, *, edge_labels: bool = False) -> SparseRows:
    """The WL features of the k-core of each graph for every k from 0 on, side by side: their kernels add up."""
    graphs = without_loose_edges(graphs)
    numbers = core_numbers(graphs)
    keys, present = [], []
    for core in range(int(numbers.max()) + 1 if len(graphs) else 1):
        colours, there = wl_colours(keep_nodes(graphs, numbers >= core), iterations, edge_labels)
        keys.append(mix(colours + core))
        present.append(there)
    return SparseRows.counted(torch.cat(keys, dim=1), torch.cat(present, dim=1))


def wl_colours(
    graphs: Graphs,
    iterations: int,
    edge_labels: bool,
    kinds: PartKinds = PartKinds(),  # noqa: B008  # frozen
) -> tuple[Tensor, Tensor]:
    """(B, (iterations + 1) m) int64 colours of all nodes at all depths, and a mask of the real nodes.

    Colours are hashes, so that two nodes of any two batches have the same one exactly if their labelled trees of that
    depth agree, except with probability about 2⁻⁶⁴ per pair. Each depth has colours of its own.
    """
    real = graphs.real
    labels = graphs.edges if edge_labels else (graphs.edges != 0)
    nodes = graphs.nodes.long()
    if kinds.double:
        nodes = nodes + UNSATURATED * unsaturated(graphs, kinds)
        labels = one_form(graphs, kinds).edges
    weights = edge_weights(labels) * (graphs.edges != 0)
    colours = [mix(nodes) * real]
    for _ in range(iterations):
        colours.append(refined(colours[-1], weights) * real)
    salted = [mix(at_depth + depth) for depth, at_depth in enumerate(colours)]
    return torch.cat(salted, dim=1), real.repeat(1, iterations + 1)


def one_form(graphs: Graphs, kinds: PartKinds) -> Graphs:
    """The same for all graphs that differ only in how double edges alternate, if `kinds` say so."""
    if not kinds.double:
        return graphs
    single = unsaturated(graphs, kinds)
    between = single[:, :, None] & single[:, None, :] & (graphs.edges != 0)
    return graphs.replace(edges=graphs.edges.masked_fill(between, SHARED))


def unsaturated(graphs: Graphs, kinds: PartKinds) -> Tensor:
    """(B, m) bool: the nodes with one double edge and no triple one."""
    doubles, triples = ((graphs.edges == label).sum(dim=2) for label in (kinds.double, kinds.triple))
    return (doubles == 1) & (triples == 0 if kinds.triple else True)


def core_numbers(graphs: Graphs) -> Tensor:
    """(B, m) int64: the greatest k for which a node is in the k-core; −1 for virtual nodes.

    The k-core is what remains after removing nodes with fewer than k remaining neighbours until there are none.
    """
    adjacent = (graphs.edges != 0).int()
    left = graphs.real
    numbers = left.long() - 1
    core = 0
    while left.any():
        core += 1
        before = None
        while before is None or not torch.equal(before, left):
            before = left
            left = left & ((adjacent * left[:, None, :]).sum(dim=2) >= core)
        numbers += left
    return numbers
