"""The parts of graphs: the same for every order of the nodes, and few of them change with one edge."""

from __future__ import annotations

import networkx as nx
import torch

from ele_graphs.graphs.networkx_space import PaddedGraphSpace

SPACE = PaddedGraphSpace(PaddedGraphSpace.Config(node_labels=("C", "N"), edge_labels=("-", "="), max_nodes=9))


def labelled(graph: nx.Graph, nodes: str = "") -> nx.Graph:
    nx.set_node_attributes(graph, dict(enumerate(nodes or "C" * len(graph))), "label")
    nx.set_edge_attributes(graph, "-", "label")
    return graph


def parts(graph: nx.Graph) -> dict[int, float]:
    found = SPACE.features(SPACE.pack([graph]))
    return dict(zip(found.keys.tolist(), found.values.tolist(), strict=True))


def distance(left: nx.Graph, right: nx.Graph) -> float:
    one, other = parts(left), parts(right)
    return sum((one.get(key, 0.0) - other.get(key, 0.0)) ** 2 for key in one.keys() | other.keys())


def test_every_order_of_the_nodes_has_the_same_parts():
    batch = SPACE.pack([labelled(nx.path_graph(6), "CCNCCN"), labelled(nx.cycle_graph(5), "CNCCC")])
    other = SPACE.equivalents(batch, torch.Generator().manual_seed(0))
    assert not torch.equal(other.nodes, batch.nodes)
    one, same = SPACE.features(batch), SPACE.features(other)
    assert torch.equal(one.keys, same.keys)
    torch.testing.assert_close(one.values, same.values)


def test_labels_of_nodes_and_edges_are_parts():
    plain = labelled(nx.path_graph(4))
    double = labelled(nx.path_graph(4))
    double.edges[1, 2]["label"] = "="
    assert parts(plain) != parts(double)
    assert parts(plain) != parts(labelled(nx.path_graph(4), "CCCN"))


def test_more_edits_are_farther():
    path = labelled(nx.path_graph(8))
    assert distance(path, path) == 0
    one, four = (labelled(nx.path_graph(8), nodes) for nodes in ("CCCCCCCN", "NCNCCNCN"))
    assert distance(path, one) < distance(path, four)
    assert distance(path, labelled(nx.path_graph(7))) < distance(path, labelled(nx.path_graph(3)))
