"""Moves: every graph one edit away, inside the space, ranked by a gradient."""

from __future__ import annotations

import torch
from random_graphs import ALPHABET, assert_in_space, random_graphs

from ele_graphs.ged import edit_distances
from ele_graphs.graphs.batch import Graphs, compact, from_lists, without_loose_edges
from ele_graphs.graphs.moves import graph_moves
from ele_graphs.graphs.networkx_space import PaddedGraphSpace

SPACE = PaddedGraphSpace(PaddedGraphSpace.Config(node_labels=("a", "b", "c"), edge_labels=("x", "y"), max_nodes=5))


def test_neighbours_are_in_the_space_and_differ_from_their_graph() -> None:
    graphs = random_graphs(20, 5)
    found, owner = graph_moves(graphs, ALPHABET, None)
    assert_in_space(found)
    assert (found.sizes >= 1).all()
    assert torch.equal(owner, owner.sort().values)
    assert set(owner.tolist()) == set(range(20))
    changed = (found.nodes != graphs.nodes[owner]).any(1) | (found.edges != graphs.edges[owner]).flatten(1).any(1)
    assert changed.all()


def test_all_graphs_at_distance_one_and_all_one_node_larger_are_found() -> None:
    everything = all_graphs_of_three_nodes()
    start = from_lists([[1, 2]], [[(0, 1, 1)]], 3)
    distance = edit_distances(
        Graphs(start.nodes.expand(len(everything), -1), start.edges.expand(len(everything), -1, -1)), everything
    )
    added_with_an_edge = (everything.sizes == 3) & (distance == 2)
    near = everything[(distance == 1) & (everything.sizes <= 2) | added_with_an_edge & connected(everything, 2)]
    found, _ = SPACE.moves.neighbours(start)
    keys = {tuple(key) for key in SPACE.keys(found).tolist()}
    assert {tuple(key) for key in SPACE.keys(near).tolist()} <= keys


def test_the_gradient_of_a_linear_loss_ranks_moves_by_its_true_change() -> None:
    graphs = random_graphs(12, 5, seed=3)
    generator = torch.Generator().manual_seed(0)
    point = SPACE.relax(graphs)
    weights = Graphs(
        torch.randn(point.nodes.shape, generator=generator), torch.randn(point.edges.shape, generator=generator)
    )

    def loss(batch: Graphs, rows: torch.Tensor) -> torch.Tensor:
        relaxed, own = SPACE.relax(batch), weights[rows]
        return (relaxed.nodes * own.nodes).sum(dim=(1, 2)) + (relaxed.edges * own.edges).sum(dim=(1, 2, 3))

    found, owner = SPACE.moves.neighbours(graphs, weights)
    change = loss(found, owner) - loss(graphs[owner], owner)
    for row in range(12):
        own = change[owner == row]
        assert (own[1:] >= own[:-1] - 1e-4).all()
    best, best_owner = SPACE.moves.neighbours(graphs, weights, limit=3)
    assert torch.equal(best_owner, torch.arange(12).repeat_interleave(3))
    first = change[torch.searchsorted(owner, torch.arange(12))]
    assert torch.allclose((loss(best, best_owner) - loss(graphs[best_owner], best_owner))[::3], first, atol=1e-4)


def test_a_full_graph_does_not_grow_and_a_single_node_does_not_go() -> None:
    full = from_lists([[1] * 5], [[(i, i + 1, 1) for i in range(4)]], 5)
    assert SPACE.moves.neighbours(full)[0].sizes.max() == 5
    single = from_lists([[1]], [[]], 5)
    assert SPACE.moves.neighbours(single)[0].sizes.min() == 1


def test_ends_of_two_edges_of_one_label_are_exchanged() -> None:
    start = from_lists([[1, 1, 2, 3]], [[(0, 1, 1), (2, 3, 1)]], 5)
    keys = {tuple(key) for key in SPACE.keys(SPACE.moves.list(start)[0]).tolist()}
    cases = {True: [(0, 2, 1), (1, 3, 1)], False: [(0, 2, 2), (1, 3, 2)]}
    for is_one, edges in cases.items():
        there = from_lists([[1, 1, 2, 3]], [edges], 5)
        assert (tuple(SPACE.keys(there)[0].tolist()) in keys) is is_one


def test_no_graphs_have_no_neighbours() -> None:
    found, owner = SPACE.moves.neighbours(from_lists([], [], 5))
    assert len(found) == len(owner) == 0


def all_graphs_of_three_nodes() -> Graphs:
    values = torch.cartesian_prod(*[torch.arange(4)] * 3, *[torch.arange(3)] * 3).char()
    edges = torch.zeros(len(values), 3, 3, dtype=torch.int8)
    for column, (i, j) in enumerate(((0, 1), (0, 2), (1, 2)), 3):
        edges[:, i, j] = edges[:, j, i] = values[:, column]
    return compact(without_loose_edges(Graphs(values[:, :3].contiguous(), edges)))


def connected(graphs: Graphs, edges: int) -> torch.Tensor:
    return (graphs.edges != 0).sum(dim=(1, 2)) == 2 * edges


def test_a_node_is_inserted_into_an_edge_of_each_label() -> None:
    start = from_lists([[1, 2]], [[(0, 1, 2)]], 3)
    wanted = from_lists([[1, 2, label] for label in (1, 2, 3)], [[(0, 2, 2), (1, 2, 2)]] * 3, 3)
    keys = {tuple(key) for key in SPACE.keys(SPACE.moves.neighbours(start)[0]).tolist()}
    assert {tuple(key) for key in SPACE.keys(wanted).tolist()} <= keys
