"""`Graphs`: labelled undirected graphs as tensors, padded with virtual nodes, and pure functions on them.

Zero always means "nothing there": node label 0 is a virtual node, edge label 0 is no edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ele_core import Tensors

EdgeList = Iterable[tuple[int, int, int]]
"""Triples of node, node, edge label."""


@dataclass(frozen=True, eq=False)
class Graphs(Tensors):
    """A batch of B graphs of at most m nodes, or a point of the relaxed space.

    nodes: (B, m) int8, 0 = virtual (at any position), 1…T = node labels; relaxed (B, m, T+1) floats.
    edges: (B, m, m) int8, 0 = no edge, 1…S−1 = edge labels; symmetric, zero on the diagonal and at virtual nodes;
    relaxed (B, m, m, S) floats.
    """

    nodes: Tensor
    edges: Tensor

    @property
    def max_nodes(self) -> int:
        """m, the padded size."""
        return self.nodes.shape[1]

    @property
    def real(self) -> Tensor:
        """(B, m) bool: which nodes of a discrete batch are not virtual."""
        return self.nodes != 0

    @property
    def sizes(self) -> Tensor:
        """(B,) int64: the number of real nodes of a discrete batch."""
        return self.real.sum(dim=1)


@dataclass(frozen=True, eq=False)
class CompactGraphs(Tensors):
    """Millions of graphs in few bytes, possibly memory-mapped; any indexing gives ordinary `Graphs`.

    codes: (B, m(m+1)/2) int8, the upper triangle of the edges with the node labels on the diagonal.
    """

    codes: Tensor

    @property
    def max_nodes(self) -> int:
        """m, computed from the m(m+1)/2 codes per graph."""
        return int(((8 * self.codes.shape[1] + 1) ** 0.5 - 1) / 2)

    def __getitem__(  # type: ignore[override]  # rows are read as Graphs
        self, index: slice | Tensor | Sequence[int]
    ) -> Graphs:
        """Expand the rows at `index` to `Graphs`."""
        rows = super().__getitem__(index).codes
        upper = torch.triu_indices(self.max_nodes, self.max_nodes, device=rows.device)
        matrix = rows.new_zeros(len(rows), self.max_nodes, self.max_nodes)
        matrix[:, upper[0], upper[1]] = rows
        nodes = matrix.diagonal(dim1=1, dim2=2).clone()
        matrix.triu_(1)  # in place: of a million graphs a copy takes a gigabyte
        return Graphs(nodes, matrix + matrix.transpose(1, 2))

    @classmethod
    def of(cls, graphs: Graphs) -> CompactGraphs:
        """Convert `graphs` to the compact form."""
        matrix = graphs.edges + torch.diag_embed(graphs.nodes)
        upper = torch.triu_indices(graphs.max_nodes, graphs.max_nodes, device=matrix.device)
        return cls(matrix[:, upper[0], upper[1]])


def from_lists(labels: Sequence[Sequence[int]], edges: Sequence[EdgeList], max_nodes: int) -> Graphs:
    """Build graphs from one list of node labels (1…T) and one of edges (i, j, label 1…S−1) per graph."""
    counts = np.fromiter(map(len, labels), np.int64, len(labels))
    rows = np.repeat(np.arange(len(labels)), counts)
    columns = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    nodes = np.zeros((len(labels), max_nodes), np.int8)
    nodes[rows, columns] = [label for graph in labels for label in graph]
    flat = np.array([(b, i, j, s) for b, graph in enumerate(edges) for i, j, s in graph], np.int64).reshape(-1, 4).T
    matrix = np.zeros((len(labels), max_nodes, max_nodes), np.int8)
    matrix[flat[0], flat[1], flat[2]] = matrix[flat[0], flat[2], flat[1]] = flat[3]
    return Graphs(torch.from_numpy(nodes), torch.from_numpy(matrix))


def to_lists(graphs: Graphs) -> list[tuple[list[int], list[tuple[int, int, int]]]]:
    """The inverse of `from_lists`, without virtual nodes: node labels and edges (i < j, label) of each graph."""
    graphs = compact(without_loose_edges(graphs).to("cpu"))
    sizes = graphs.sizes.tolist()
    labels = [row[:size] for row, size in zip(graphs.nodes.tolist(), sizes, strict=True)]
    edges: list[list[tuple[int, int, int]]] = [[] for _ in sizes]
    upper = graphs.edges.triu(1)
    where = upper.nonzero()
    for (b, i, j), s in zip(where.tolist(), upper[tuple(where.T)].tolist(), strict=True):
        edges[b].append((i, j, s))
    return list(zip(labels, edges, strict=True))


def keep_nodes(graphs: Graphs, keep: Tensor) -> Graphs:
    """Keep the nodes where `keep` (B, m) is true; the others become virtual and lose their edges."""
    mask = keep.to(graphs.nodes.dtype)
    return Graphs(graphs.nodes * mask, graphs.edges * mask[:, :, None] * mask[:, None, :])


def without_loose_edges(graphs: Graphs) -> Graphs:
    """Remove the edges of virtual nodes."""
    return keep_nodes(graphs, graphs.real)


def compact(graphs: Graphs) -> Graphs:
    """Move the real nodes of each graph to the front, in their order."""
    return permute(graphs, torch.argsort(graphs.nodes == 0, dim=1, stable=True))


def permute(graphs: Graphs, order: Tensor) -> Graphs:
    """Node i of the result is node order[b, i] of graph b; `order`: (B, m)."""
    rows = torch.arange(len(graphs), device=order.device)[:, None]
    return Graphs(graphs.nodes[rows, order], graphs.edges[rows[:, :, None], order[:, :, None], order[:, None, :]])


def component_counts(graphs: Graphs) -> Tensor:
    """(B,) int64: the number of connected components of each graph: each has one node that keeps its own index."""
    own = torch.arange(graphs.max_nodes, device=graphs.device)
    return ((components(graphs) == own) & graphs.real).sum(dim=1)


def components(graphs: Graphs) -> Tensor:
    """(B, m) int64: the least index of a node that each node can reach, equal within a connected component."""
    own = torch.arange(graphs.max_nodes, device=graphs.device)
    adjacent = (graphs.edges != 0) | torch.eye(graphs.max_nodes, dtype=torch.bool, device=graphs.device)
    least = own.expand(len(graphs), -1)
    for _ in range(graphs.max_nodes):
        least = torch.where(adjacent, least[:, None, :], graphs.max_nodes).amin(dim=2)
    return least
