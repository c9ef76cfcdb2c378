"""`padded-graph`: objects, text, relaxation, and reasons for what is not in the space."""

from __future__ import annotations

import networkx as nx
import pytest
import torch
from random_graphs import assert_in_space, random_graphs, same

from ele_core.errors import InvalidOutput
from ele_graphs.graphs.batch import Graphs, without_loose_edges
from ele_graphs.graphs.networkx_space import PaddedGraphSpace

SPACE = PaddedGraphSpace(PaddedGraphSpace.Config(node_labels=("a", "b", 7), edge_labels=("x", "y"), max_nodes=6))


def isomorphic(a: nx.Graph, b: nx.Graph) -> bool:
    nodes, edges = (
        nx.isomorphism.categorical_node_match("label", None),
        nx.isomorphism.categorical_edge_match("label", None),
    )
    return nx.is_isomorphic(a, b, node_match=nodes, edge_match=edges)


def labelled(nodes: list[object], edges: list[tuple[int, int, object]]) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from((i, {"label": label}) for i, label in enumerate(nodes))
    graph.add_edges_from((i, j, {"label": label}) for i, j, label in edges)
    return graph


def test_packing_and_unpacking_gives_the_same_graphs() -> None:
    examples = [*SPACE.examples(), nx.Graph()]
    batch = SPACE.pack(examples)
    assert_in_space(batch)
    assert all(map(isomorphic, SPACE.unpack(batch), examples))
    assert torch.equal(SPACE.keys(SPACE.pack(SPACE.unpack(batch))), SPACE.keys(batch))


def test_examples_are_different() -> None:
    assert len(torch.unique(SPACE.keys(SPACE.pack(SPACE.examples())), dim=0)) == len(SPACE.examples()) > 3


def test_relaxing_and_back_gives_the_same_batch() -> None:
    batch = random_graphs(40)
    point = SPACE.relax(batch)
    assert point.nodes.shape == (40, 6, 4)
    assert point.edges.shape == (40, 6, 6, 3)
    assert all(s.contains(getattr(point, name)) for name, s in SPACE.geometry.items())
    assert same(SPACE.unrelax(point), batch)
    assert same(SPACE.unrelax(SPACE.project(point)), batch)


def test_any_point_unrelaxes_to_a_graph_of_the_space() -> None:
    generator = torch.Generator().manual_seed(0)
    point = Graphs(**{name: s.sample(64, generator) for name, s in SPACE.geometry.items()})
    found = SPACE.unrelax(point)
    assert_in_space(found)
    assert torch.equal(found.nodes.long(), point.nodes.argmax(dim=2))
    assert same(SPACE.pack(SPACE.unpack(found))[:1], SPACE.pack(SPACE.unpack(without_loose_edges(found)))[:1])


def test_text_is_read_back() -> None:
    for graph in [*SPACE.examples(), nx.Graph(), nx.path_graph(3)]:
        assert isomorphic(PaddedGraphSpace.parse(PaddedGraphSpace.format(graph)), graph)
    assert SPACE.format(labelled(["a", 7], [(0, 1, "y")])) == '{"nodes":["a",7],"edges":[[0,1,"y"]]}'


@pytest.mark.parametrize(
    "text", ["", "CCO", "[]", "{}", '{"nodes":["a"],"edges":[[0,1,"x"]]}', '{"nodes":3,"edges":[]}']
)
def test_text_that_is_no_graph_is_refused(text: str) -> None:
    with pytest.raises(InvalidOutput):
        PaddedGraphSpace.parse(text)


@pytest.mark.parametrize(
    ("graph", "reason"),
    [
        (nx.path_graph(7), "7 nodes, more than max_nodes = 6"),
        (labelled(["a", "z"], []), "node 1 has label 'z', not one of: a b 7"),
        (labelled(["a", ["a"]], []), "has label \\['a'\\]"),
        (labelled(["a", "b"], [(0, 1, "w")]), "edge \\(0, 1\\) has label 'w'"),
        (labelled(["a"], [(0, 0, "x")]), "edge to itself"),
        (nx.DiGraph(), "undirected"),
        (nx.MultiGraph(), "undirected"),
        ("a", "not str"),
    ],
)
def test_what_is_not_in_the_space_is_refused_with_its_place_and_reason(graph: nx.Graph, reason: str) -> None:
    with pytest.raises(InvalidOutput, match=reason) as error:
        SPACE.pack([*SPACE.examples(), graph])
    assert error.value.index == len(SPACE.examples())


def test_unlabelled_graphs_need_no_labels() -> None:
    space = PaddedGraphSpace(PaddedGraphSpace.infer([nx.cycle_graph(5), nx.path_graph(2)], {}))
    assert space.max_nodes == 5
    assert space.pack([nx.cycle_graph(5)]).edges.sum() == 10


def test_labels_and_size_are_inferred_and_options_win() -> None:
    objects = [labelled(["b", 7], [(0, 1, "y")]), labelled(["a"], [])]
    config = PaddedGraphSpace.infer(objects, {"max_nodes": 9})
    assert config.node_labels == (7, "a", "b")
    assert config.edge_labels == ("y",)
    assert config.max_nodes == 9
    assert PaddedGraphSpace.infer(objects, {}).max_nodes == 2


def test_a_label_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="a label is listed twice"):
        PaddedGraphSpace.Config(node_labels=("a", "a"))


def test_distance_is_the_primary_metric_and_exact_agrees_with_it() -> None:
    a, b = random_graphs(30, 4, seed=1), random_graphs(30, 4, seed=2)
    values = {metric.name: metric.values(a, b) for metric in SPACE.metrics}
    assert next(iter(values)) == "ged_with_edges"
    assert torch.equal(values["exact"] == 1, values["ged_with_edges"] == 0)
    assert (values["ged_without_edges"] <= values["ged_with_edges"]).all()


def test_graphs_are_drawn_with_their_labels() -> None:
    drawing = SPACE.show.render(SPACE.examples()[2])
    assert drawing.svg is not None
    assert drawing.svg.startswith("<svg")
    assert drawing.text == SPACE.format(SPACE.examples()[2])
    assert SPACE.show.render(nx.Graph()).svg is not None


def test_properties_count_nodes_edges_and_cycles() -> None:
    space = PaddedGraphSpace(PaddedGraphSpace.Config(max_nodes=6))
    properties = space.show.properties(space.pack([nx.cycle_graph(4), nx.path_graph(3), nx.complete_graph(4)]))
    assert {name: values.tolist() for name, values in properties.items()} == {
        "nodes": [4, 3, 4],
        "edges": [4, 2, 6],
        "cycles": [1, 0, 3],
    }
