"""Packed graphs: lists and back, padding, compaction, components."""

from __future__ import annotations

import networkx as nx
import torch
from random_graphs import assert_in_space, random_graphs, random_orders, same

from ele_graphs.graphs.batch import (
    CompactGraphs,
    Graphs,
    compact,
    component_counts,
    from_lists,
    keep_nodes,
    permute,
    to_lists,
)


def test_lists_become_graphs_and_lists_again() -> None:
    labels, edges = [[1, 2], [], [3]], [[(1, 0, 2)], [], []]
    graphs = from_lists(labels, edges, 3)
    assert graphs.nodes.tolist() == [[1, 2, 0], [0, 0, 0], [3, 0, 0]]
    assert_in_space(graphs)
    assert to_lists(graphs) == [([1, 2], [(0, 1, 2)]), ([], []), ([3], [])]


def test_no_graphs_at_all_are_a_batch() -> None:
    assert len(from_lists([], [], 4)) == 0
    assert to_lists(from_lists([], [], 4)) == []


def test_compact_codes_expand_to_the_same_graphs_at_any_index() -> None:
    graphs = random_graphs(20, 7)
    codes = CompactGraphs.of(graphs)
    assert codes.codes.shape == (20, 28)
    assert codes.max_nodes == 7
    rows = torch.tensor([3, 1, 19])
    assert same(codes[rows], graphs[rows])
    assert same(Graphs.cat(codes.chunks(6)), graphs)


def test_compaction_puts_real_nodes_first_and_keeps_their_order() -> None:
    graphs = random_graphs(50)
    dense = compact(graphs)
    assert not (dense.real[:, 1:] & ~dense.real[:, :-1]).any()
    assert to_lists(dense) == to_lists(graphs)


def test_dropped_nodes_take_their_edges_with_them() -> None:
    graphs = random_graphs(50)
    keep = torch.rand(50, 6, generator=torch.Generator().manual_seed(1)) < 0.5
    kept = keep_nodes(graphs, keep)
    assert_in_space(kept)
    assert torch.equal(kept.real, graphs.real & keep)


def test_permutation_moves_labels_and_edges_together() -> None:
    graphs, order = random_graphs(5), random_orders(5, 6)
    moved = permute(graphs, order)
    for b in range(5):
        for i in range(6):
            assert moved.nodes[b, i] == graphs.nodes[b, order[b, i]]
            for j in range(6):
                assert moved.edges[b, i, j] == graphs.edges[b, order[b, i], order[b, j]]


def test_components_are_counted_as_by_networkx() -> None:
    graphs = random_graphs(60, 8)
    expected = []
    for labels, edges in to_lists(graphs):
        graph = nx.Graph()
        graph.add_nodes_from(range(len(labels)))
        graph.add_edges_from((i, j) for i, j, _ in edges)
        expected.append(nx.number_connected_components(graph))
    assert component_counts(graphs).tolist() == expected
