"""Augmentations: inside the space, seeded, and as strong as their rate says."""

from __future__ import annotations

import pytest
import torch
from random_graphs import ALPHABET, assert_in_space, random_graphs, same

from ele_graphs.graphs.augmentations import FUNCTIONS, Alphabet, Augmentation, augment
from ele_graphs.graphs.batch import Graphs, component_counts
from ele_graphs.graphs.networkx_space import PaddedGraphSpace

NAMES = sorted(FUNCTIONS)


def augmented(graphs: Graphs, name: str, rate: float, seed: int = 0) -> Graphs:
    return augment(graphs, [Augmentation(name=name, rate=rate)], ALPHABET, torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rate", [0.0, 0.05, 0.5, 1.0])
def test_views_stay_in_the_space_and_keep_a_node(name: str, rate: float) -> None:
    graphs = random_graphs(200, 7)
    view = augmented(graphs, name, rate)
    assert_in_space(view)
    assert (view.sizes >= 1).all()
    assert (view.real <= graphs.real).all()
    assert same(view, graphs) or rate > 0


@pytest.mark.parametrize("name", NAMES)
def test_the_seed_decides(name: str) -> None:
    graphs = random_graphs(200, 7)
    assert same(augmented(graphs, name, 0.3), augmented(graphs, name, 0.3))
    assert not same(augmented(graphs, name, 0.3), augmented(graphs, name, 0.3, seed=1))


def test_nodes_are_dropped_at_their_rate() -> None:
    graphs = random_graphs(5000, 9)
    view = augmented(graphs, "drop-nodes", 0.05)
    share = 1 - view.real.sum() / graphs.real.sum()
    assert 0.045 < share < 0.055
    assert torch.equal(view.nodes, graphs.nodes * view.real)


def test_certain_dropping_keeps_exactly_one_node() -> None:
    assert (augmented(random_graphs(100), "drop-nodes", 1.0).sizes == 1).all()


def test_edges_change_at_their_rate_and_their_number_hardly() -> None:
    graphs = random_graphs(5000, 9)
    view = augmented(graphs, "perturb-edges", 0.1)
    before, after = graphs.edges != 0, view.edges != 0
    changed = before & (graphs.edges != view.edges)
    assert 0.09 < changed.sum() / before.sum() < 0.11
    assert 0.08 < (after & ~before).sum() / before.sum() < 0.11
    assert torch.equal(view.nodes, graphs.nodes)


def test_relabelled_nodes_take_another_label() -> None:
    graphs = random_graphs(100)
    view = augmented(graphs, "relabel-nodes", 1.0)
    assert ((view.nodes != graphs.nodes) == graphs.real).all()
    assert torch.equal(view.edges, graphs.edges)


def test_with_a_single_label_there_is_nothing_to_relabel() -> None:
    single = Alphabet(1, 1)
    graphs = random_graphs(20, alphabet=single)
    step = Augmentation(name="relabel-nodes", rate=1.0)
    assert same(augment(graphs, [step], single, torch.Generator().manual_seed(0)), graphs)


def test_subgraphs_are_connected_and_as_large_as_asked() -> None:
    graphs = random_graphs(200, 8)
    view = augmented(graphs, "subgraph", 0.5)
    assert torch.equal(view.sizes, torch.ceil(graphs.sizes / 2).long())
    assert (component_counts(view) <= component_counts(graphs)).all()


def test_a_space_applies_its_augmentations_in_turn() -> None:
    steps = ({"name": "relabel-nodes", "rate": 1.0}, {"name": "drop-nodes", "rate": 1.0})
    space = PaddedGraphSpace(PaddedGraphSpace.Config(node_labels=(1, 2, 3), edge_labels=(1, 2), augmentations=steps))
    graphs = random_graphs(50)
    view = space.augment(graphs, torch.Generator().manual_seed(0))
    assert (view.sizes == 1).all()
    assert not (view.real & (view.nodes == graphs.nodes)).any()


def test_an_unknown_augmentation_or_rate_is_refused() -> None:
    with pytest.raises(ValueError, match="drop-nodes"):
        Augmentation(name="drop-node")
    with pytest.raises(ValueError, match="less than or equal to 1"):
        Augmentation(rate=2)
