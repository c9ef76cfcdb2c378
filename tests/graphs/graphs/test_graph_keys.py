"""Keys: equal for isomorphic graphs, different for others, whatever the order and the padding."""

from __future__ import annotations

import networkx as nx
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networkx.generators.atlas import graph_atlas_g
from random_graphs import random_graphs, random_orders, repad

from ele_graphs.graphs.augmentations import Alphabet
from ele_graphs.graphs.batch import Graphs, from_lists, permute, to_lists
from ele_graphs.graphs.keys import graph_keys


def unlabelled(graphs: list[nx.Graph], size: int) -> Graphs:
    return from_lists([[1] * len(g) for g in graphs], [[(i, j, 1) for i, j in g.edges] for g in graphs], size)


def colours(graph: nx.Graph) -> str:
    """What colour refinement sees."""
    nx.set_node_attributes(graph, "a", "label")
    return nx.weisfeiler_lehman_graph_hash(graph, node_attr="label", iterations=6)


def distinct(keys: torch.Tensor) -> int:
    return len(torch.unique(keys, dim=0))


@given(st.integers(0, 10_000), st.integers(1, 10), st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_order_and_padding_do_not_change_keys(seed: int, size: int, more: int) -> None:
    graphs = random_graphs(16, size, seed)
    moved = permute(repad(graphs, size + more), random_orders(16, size + more, seed))
    assert torch.equal(graph_keys(moved), graph_keys(graphs))


def test_all_graphs_of_up_to_seven_nodes_are_told_apart() -> None:
    graphs = graph_atlas_g()
    assert distinct(graph_keys(unlabelled(graphs, 7))) == len(graphs) == 1253


def test_equal_keys_mean_isomorphic_labelled_graphs() -> None:
    graphs = random_graphs(400, 4, alphabet=Alphabet(2, 2))  # small enough that many are isomorphic
    objects = []
    for labels, edges in to_lists(graphs):
        graph = nx.Graph()
        graph.add_nodes_from((i, {"label": label}) for i, label in enumerate(labels))
        graph.add_edges_from((i, j, {"label": label}) for i, j, label in edges)
        objects.append(graph)
    classes: list[nx.Graph] = []
    match = nx.isomorphism.categorical_node_match("label", 0), nx.isomorphism.categorical_edge_match("label", 0)
    for graph in objects:
        if not any(nx.is_isomorphic(graph, other, *match) for other in classes):
            classes.append(graph)
    assert distinct(graph_keys(graphs)) == len(classes) < 400


def test_graphs_of_equal_colours_are_told_apart() -> None:
    decalin = nx.Graph([(i, (i + 1) % 10) for i in range(10)] + [(0, 5)])
    bicyclopentyl = nx.disjoint_union(nx.cycle_graph(5), nx.cycle_graph(5))
    bicyclopentyl.add_edge(0, 5)
    two_rings = nx.disjoint_union(nx.cycle_graph(7), nx.cycle_graph(7))
    prism, bipartite = nx.circular_ladder_graph(3), nx.complete_bipartite_graph(3, 3)
    for pair in ([decalin, bicyclopentyl], [nx.cycle_graph(14), two_rings], [prism, bipartite]):
        assert colours(pair[0]) == colours(pair[1])
        assert distinct(graph_keys(unlabelled(pair, 14))) == 2


def test_a_label_a_bond_or_a_node_more_changes_the_key() -> None:
    path = ([1, 1, 2], [(0, 1, 1), (1, 2, 1)])
    others = [([1, 1, 1], path[1]), (path[0], [(0, 1, 1), (1, 2, 2)]), (path[0], path[1][:1]), ([1, 1, 2, 1], path[1])]
    graphs = [path, *others, ([], [])]
    assert distinct(graph_keys(from_lists([g[0] for g in graphs], [g[1] for g in graphs], 4))) == len(graphs)


def test_an_empty_batch_has_no_keys() -> None:
    assert graph_keys(from_lists([], [], 4)).shape == (0, 2)
