"""Random packed graphs for tests."""

from __future__ import annotations

import torch
from torch import Tensor

from ele_graphs.graphs.augmentations import Alphabet
from ele_graphs.graphs.batch import Graphs, compact, without_loose_edges

ALPHABET = Alphabet(node_labels=3, edge_labels=2)


def random_graphs(count: int = 32, size: int = 6, seed: int = 0, alphabet: Alphabet = ALPHABET) -> Graphs:
    """Sparse graphs with virtual nodes anywhere; at least one node is real."""
    generator = torch.Generator().manual_seed(seed)
    nodes = torch.randint(0, alphabet.node_labels + 1, (count, size), generator=generator, dtype=torch.int8)
    nodes[:, 0] = nodes[:, 0].clamp(min=1)
    edges = torch.randint(1, alphabet.edge_labels + 1, (count, size, size), generator=generator, dtype=torch.int8)
    edges = (edges * (torch.rand(edges.shape, generator=generator) < 0.4)).triu(1)
    return without_loose_edges(Graphs(nodes, edges + edges.transpose(1, 2)))


def random_orders(count: int, size: int, seed: int = 0) -> Tensor:
    """One random permutation per row."""
    return torch.rand(count, size, generator=torch.Generator().manual_seed(seed)).argsort(dim=1)


def repad(graphs: Graphs, max_nodes: int) -> Graphs:
    """The same graphs, real nodes first, with room for `max_nodes`."""
    graphs = compact(graphs)
    more = max_nodes - graphs.max_nodes
    pad = torch.nn.functional.pad
    return Graphs(pad(graphs.nodes, (0, more)), pad(graphs.edges, (0, more, 0, more)))


def assert_in_space(graphs: Graphs, alphabet: Alphabet = ALPHABET) -> None:
    """Assert small labels, symmetric edges, and no edges on the diagonal or at virtual nodes."""
    assert graphs.nodes.dtype == graphs.edges.dtype == torch.int8
    assert 0 <= int(graphs.nodes.min()) <= int(graphs.nodes.max()) <= alphabet.node_labels
    assert 0 <= int(graphs.edges.min()) <= int(graphs.edges.max()) <= alphabet.edge_labels
    assert torch.equal(graphs.edges, graphs.edges.transpose(1, 2))
    assert not graphs.edges.diagonal(dim1=1, dim2=2).any()
    assert torch.equal(without_loose_edges(graphs).edges, graphs.edges)


def same(a: Graphs, b: Graphs) -> bool:
    """Whether two batches are equal entry by entry."""
    return torch.equal(a.nodes, b.nodes) and torch.equal(a.edges, b.edges)
