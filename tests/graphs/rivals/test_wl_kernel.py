"""Graph kernels: equal to a plain Python reference on random graphs, and the surrogate that is made of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import networkx as nx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from linear import outputs_only
from random_graphs import random_graphs, random_orders, repad

from ele_core.errors import ConfigError
from ele_core.numerics.sparse import Products, SparseRows
from ele_core.runtime.context import Context
from ele_core.types import Candidates
from ele_graphs.graphs.batch import Graphs, from_lists, permute, to_lists
from ele_graphs.graphs.networkx_space import PaddedGraphSpace
from ele_graphs.graphs.wl import core_numbers, core_wl_features, wl_features
from ele_graphs.rivals.wl_kernel import WLKernelSurrogate
from ele_sequences.space import SequenceSpace


def as_networkx(graphs: Graphs) -> list[nx.Graph]:
    found = []
    for labels, edges in to_lists(graphs):
        graph = nx.Graph()
        graph.add_nodes_from((i, {"label": label}) for i, label in enumerate(labels))
        graph.add_edges_from((i, j, {"label": label}) for i, j, label in edges)
        found.append(graph)
    return found


def colours(graph: nx.Graph, iterations: int, edge_labels: bool) -> Counter[Any]:
    """How often each colour occurs: nested tuples, so that equal means equal."""
    colour = {node: graph.nodes[node]["label"] for node in graph}
    counts = Counter((0, value) for value in colour.values())
    for depth in range(1, iterations + 1):
        colour = {
            node: (
                colour[node],
                tuple(
                    sorted((graph[node][other]["label"] * edge_labels, repr(colour[other])) for other in graph[node])
                ),
            )
            for node in graph
        }
        counts += Counter((depth, value) for value in colour.values())
    return counts


def core_colours(graph: nx.Graph, iterations: int, edge_labels: bool) -> Counter[Any]:
    """The same for every core, side by side."""
    numbers = nx.core_number(graph)
    total: Counter[Any] = Counter()
    for core in range(max(numbers.values(), default=0) + 1):
        inside = graph.subgraph([node for node in graph if numbers[node] >= core])
        total += Counter({(core, key): count for key, count in colours(inside, iterations, edge_labels).items()})
    return total


def gram(features: SparseRows) -> torch.Tensor:
    return Products(features.double())(features.double())


@pytest.mark.parametrize(("ours", "reference"), [(wl_features, colours), (core_wl_features, core_colours)])
@given(st.integers(0, 10_000), st.integers(1, 7), st.integers(0, 4), st.booleans())
@settings(max_examples=25)
def test_the_kernel_is_that_of_the_reference(ours, reference, seed, size, iterations, edge_labels):
    graphs = random_graphs(8, size, seed)
    counts = [reference(graph, iterations, edge_labels) for graph in as_networkx(graphs)]
    expected = [[sum(a[key] * b[key] for key in a) for b in counts] for a in counts]
    features = ours(graphs, iterations, edge_labels=edge_labels)
    assert gram(features).tolist() == expected


@given(st.integers(0, 10_000), st.integers(1, 8))
@settings(max_examples=25)
def test_core_numbers_are_those_of_networkx(seed, size):
    graphs = random_graphs(8, size, seed)
    numbers = core_numbers(graphs)
    assert torch.equal(numbers == -1, ~graphs.real)
    for row, graph in enumerate(as_networkx(graphs)):
        expected = nx.core_number(graph)
        assert numbers[row][graphs.real[row]].tolist() == [expected[node] for node in range(len(graph))]


@given(st.integers(0, 10_000), st.integers(0, 3))
@settings(max_examples=25)
def test_order_and_padding_do_not_change_the_features(seed, more):
    graphs = random_graphs(8, 6, seed)
    moved = permute(repad(graphs, 6 + more), random_orders(8, 6 + more, seed))
    left, right = core_wl_features(graphs), core_wl_features(moved)
    assert torch.equal(left.keys, right.keys)
    assert torch.equal(left.values, right.values)


def test_features_do_not_depend_on_the_other_graphs_of_a_batch():
    graphs = random_graphs(20, 7, seed=5)
    alone = SparseRows.cat(core_wl_features(part) for part in graphs.chunks(1))
    together = core_wl_features(graphs)
    assert torch.equal(alone.keys, together.keys)
    assert torch.equal(alone.offsets, together.offsets)


def test_only_kernels_with_edge_labels_see_them():
    single, double = (from_lists([[1, 2]], [[(0, 1, label)]], 2) for label in (1, 2))
    both = Graphs.cat([single, double])
    blind, seeing = gram(wl_features(both)), gram(wl_features(both, edge_labels=True))
    assert blind[0, 1] == blind[0, 0]
    assert seeing[0, 1] < seeing[0, 0]


# -- the surrogate ------------------------------------------------------------------------------------------------


@pytest.fixture
def space() -> PaddedGraphSpace:
    options = {"node_labels": ("a", "b", "c"), "edge_labels": ("x", "y"), "max_nodes": 6}
    return PaddedGraphSpace(PaddedGraphSpace.Config(**options))


def test_a_complete_sketch_gives_the_normalised_kernel(space):
    graphs = random_graphs(30, 6)
    surrogate = WLKernelSurrogate(WLKernelSurrogate.Config(sketch={"size": 30}), space)
    surrogate.fit(outputs_only(graphs, graphs), Context())
    embeddings = surrogate.embed(graphs)
    expected = gram(core_wl_features(graphs).double().normalised()).float()
    torch.testing.assert_close(embeddings @ embeddings.T, expected, rtol=0, atol=1e-5)


def test_energies_are_squared_distances_in_the_space_of_the_kernel(space):
    graphs = random_graphs(30, 6)
    surrogate, complete = (WLKernelSurrogate(WLKernelSurrogate.Config(sketch={"size": m}), space) for m in (8, 30))
    surrogate.fit(outputs_only(graphs[:20], graphs[20:]), Context())
    complete.fit(outputs_only(graphs, graphs), Context())
    whole, sketched = complete.embed(graphs), surrogate.embed(graphs)
    span = torch.linalg.pinv(whole, rtol=1e-5) @ sketched  # the basis of the sketch, in the coordinates of the whole
    queries = torch.randn(5, 8, generator=torch.Generator().manual_seed(0))
    energies = surrogate.energy(queries).among(Candidates(graphs, sketched))
    distances = torch.cdist(queries @ span.T, whole) ** 2
    torch.testing.assert_close(energies, distances, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(surrogate.energy(queries).of(graphs[:5]), energies[:, :5].diagonal())


def test_graph_kernels_refuse_spaces_without_graphs():
    sequences = SequenceSpace(SequenceSpace.Config(alphabet=("a", "b"), length=3))
    with pytest.raises(ConfigError, match=r"compares graphs.*sketched-kernel"):
        WLKernelSurrogate(None, sequences)
