"""The encoder: the paper's layer, invariant to order, differentiable everywhere, and the options' promises."""

from __future__ import annotations

from typing import Any

import networkx as nx
import pytest
import torch
from random_graphs import random_graphs, random_orders, repad

from ele_core.errors import ConfigError
from ele_graphs.graphs.batch import Graphs, permute
from ele_graphs.graphs.networkx_space import PaddedGraphSpace
from ele_graphs.rgcn import RelationalEncoder, closed_walks

PAPER: dict[str, Any] = {
    "self_connection": False,
    "residual": False,
    "normalise": "none",
    "mask_virtual": False,
    "closed_walks": 0,
}
FORMS = [{}, PAPER, {"residual": False}, {"mask_virtual": False}, {"activation": "gelu", "normalise": "none"}]


def space(max_nodes: int = 6) -> PaddedGraphSpace:
    return PaddedGraphSpace(
        PaddedGraphSpace.Config(node_labels=("a", "b", "c"), edge_labels=("x", "y"), max_nodes=max_nodes)
    )


def encoder(options: dict[str, Any], max_nodes: int = 6) -> RelationalEncoder:
    torch.manual_seed(0)
    config = RelationalEncoder.Config(**{"layers": 3, "width": 8, **options})
    return RelationalEncoder(config, space(max_nodes), 5).double()


def relaxed(graphs: Graphs) -> Graphs:
    return space(graphs.max_nodes).relax(graphs).to(torch.float64)


def soft_points(count: int = 3, seed: int = 0) -> Graphs:
    generator = torch.Generator().manual_seed(seed)
    return Graphs(**{name: s.sample(count, generator, torch.float64) for name, s in space().geometry.items()})


@pytest.mark.parametrize("form", FORMS)
def test_order_does_not_change_the_embedding(form: dict[str, Any]) -> None:
    point, order = soft_points(8), random_orders(8, 6)
    network = encoder(form)
    assert torch.allclose(network(permute(point, order)), network(point))
    assert network(point).shape == (8, 5)


@pytest.mark.parametrize("form", FORMS)
def test_gradients_agree_with_finite_differences(form: dict[str, Any]) -> None:
    network, point = encoder(form), soft_points()
    nodes, edges = point.nodes.requires_grad_(), point.edges.requires_grad_()
    assert torch.autograd.gradcheck(lambda n, e: network(Graphs(n, e)), (nodes, edges), fast_mode=True)


@pytest.mark.parametrize("form", FORMS)
def test_gradients_are_finite_at_vertices(form: dict[str, Any]) -> None:
    graphs = random_graphs(20)
    graphs.nodes[0], graphs.edges[0] = 0, 0  # nothing at all
    point = relaxed(graphs).map(lambda tensor: tensor.requires_grad_())
    network = encoder(form)
    network(point).square().sum().backward()
    gradients = [point.nodes.grad, point.edges.grad, *(p.grad for p in network.parameters())]
    assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients)
    assert point.edges.grad is not None
    assert point.edges.grad[1:].abs().sum() > 0


def test_the_papers_form_is_the_papers_formula() -> None:
    network, point = encoder(PAPER), soft_points()
    features = point.nodes
    for linear in network.weights:
        parts = linear.weight.T.reshape(3, features.shape[2], 8)
        messages = sum(point.edges[..., s] @ features @ parts[s] for s in range(3))
        features = torch.relu(messages + linear.bias)
    expected = network.leave(torch.relu(network.hidden(features.sum(dim=1))))
    assert torch.allclose(network(point), expected)


def test_padding_changes_the_papers_embedding_and_not_the_masked_one() -> None:
    graphs = random_graphs(10)
    larger = repad(graphs, 9)
    assert torch.allclose(encoder({})(relaxed(graphs)), encoder({}, 9)(relaxed(larger)))
    assert not torch.allclose(encoder(PAPER)(relaxed(graphs)), encoder(PAPER, 9)(relaxed(larger)))


def test_closed_walks_are_diagonals_of_powers() -> None:
    adjacency = torch.rand(4, 2, 5, 5, dtype=torch.float64)
    counts = closed_walks(adjacency, 7)
    for k in range(2, 8):
        power = torch.linalg.matrix_power(adjacency, k)
        assert torch.allclose(counts[..., k - 2], power.diagonal(dim1=-1, dim2=-2))
    assert closed_walks(adjacency, 1).shape == (4, 2, 5, 0)


def test_closed_walks_tell_apart_what_messages_cannot() -> None:
    ring = nx.cycle_graph(6)
    triangles = nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))
    plain = PaddedGraphSpace(PaddedGraphSpace.Config(max_nodes=6))
    point = plain.relax(plain.pack([ring, triangles]))
    for walks, apart in ((0, False), (6, True)):
        torch.manual_seed(0)
        network = RelationalEncoder(RelationalEncoder.Config(width=16, closed_walks=walks), plain, 4)
        first, second = network(point)
        assert torch.allclose(first, second, atol=1e-5) != apart


def test_spaces_without_graphs_are_refused() -> None:
    with pytest.raises(ConfigError, match="reads graphs"):
        RelationalEncoder(None, object(), 4)


@pytest.mark.parametrize("form", FORMS)
def test_no_graphs_give_no_embeddings(form: dict[str, Any]) -> None:
    assert encoder(form)(soft_points()[:0]).shape == (0, 5)
