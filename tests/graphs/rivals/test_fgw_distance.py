"""The fused Gromov-Wasserstein distance and its barycenters: what holds by definition, and what POT says."""

from __future__ import annotations

import importlib.util
import re

import pytest
import torch
from random_graphs import random_graphs, random_orders
from torch import Tensor

from ele_core.errors import ConfigError
from ele_core.extras import pip_install
from ele_graphs.graphs.batch import Graphs, compact, permute
from ele_graphs.graphs.networkx_space import PaddedGraphSpace
from ele_graphs.rivals.fgw.distance import SoftGraphs, fused_distances, harden, objective, soften
from ele_graphs.rivals.fgw.surrogate import FusedSurrogate, average, barycenters

LABELS = 3
needs_pot = pytest.mark.skipif(importlib.util.find_spec("ot") is None, reason="POT is not installed")


def surrogate(**options: object) -> FusedSurrogate:
    space = PaddedGraphSpace(PaddedGraphSpace.Config(node_labels=("a", "b", "c"), edge_labels=("x", "y"), max_nodes=6))
    return FusedSurrogate(FusedSurrogate.Config(**options), space)


def soft(count: int, seed: int = 0) -> SoftGraphs:
    return soften(random_graphs(count, seed=seed), LABELS)


def double(graphs: SoftGraphs) -> SoftGraphs:
    return graphs.replace(features=graphs.features.double(), structure=graphs.structure.double())


def marginals(graphs: SoftGraphs) -> Tensor:
    return graphs.real / graphs.sizes.unsqueeze(1).double()


@pytest.mark.parametrize("tradeoff", [0.0, 0.5, 0.9, 1.0])
def test_a_graph_has_distance_zero_to_itself_in_any_order(tradeoff: float) -> None:
    graphs = random_graphs(60)
    other = permute(graphs, random_orders(60, 6))
    found = fused_distances(soften(graphs, LABELS), soften(other, LABELS), tradeoff=tradeoff, starts=8)
    assert found.values.max() < 1e-9


def test_different_graphs_are_apart() -> None:
    graphs = random_graphs(2)
    graphs.nodes[0], graphs.nodes[1] = torch.tensor([1, 1, 0, 0, 0, 0]), torch.tensor([1, 2, 0, 0, 0, 0])
    graphs.edges.zero_()
    one, two = soften(graphs[:1], LABELS), soften(graphs[1:], LABELS)
    assert fused_distances(one, two, tradeoff=0.25).values.item() == pytest.approx(0.75 * 2 / 2)


def test_plans_have_the_marginals_and_the_value_that_is_returned() -> None:
    first, second = soft(50), soft(50, seed=1)
    found = fused_distances(first, second, tradeoff=0.7)
    assert torch.allclose(found.plans.sum(dim=2), marginals(first))
    assert torch.allclose(found.plans.sum(dim=1), marginals(second))
    assert found.plans.min() >= 0
    assert torch.allclose(objective(double(first), double(second), found.plans, 0.7), found.values)


def test_the_distance_is_symmetric_from_the_same_plan() -> None:
    first, second = soft(50), soft(50, seed=1)
    there = fused_distances(first, second, tradeoff=0.7)
    back = fused_distances(second, first, tradeoff=0.7, plans=there.plans.mT)
    assert torch.allclose(objective(double(second), double(first), there.plans.mT, 0.7), there.values)
    assert (back.values <= there.values + 1e-9).all()
    assert torch.allclose(there.values, back.values, atol=0.02)  # a tie may be broken otherwise, and a descent go on


def test_more_starts_are_never_worse() -> None:
    first, second = soft(50), soft(50, seed=1)
    few, many = (fused_distances(first, second, tradeoff=0.7, starts=starts).values for starts in (1, 6))
    assert (many <= few + 1e-9).all()
    assert (many < few - 1e-6).any()


def test_pairs_choose_the_rows() -> None:
    first, second = soft(3), soft(4, seed=1)
    pairs = torch.tensor([[2, 0], [0, 3]])
    chosen = fused_distances(first, second, pairs, tradeoff=0.5).values
    one_by_one = fused_distances(first[pairs[:, 0]], second[pairs[:, 1]], tradeoff=0.5).values
    assert torch.equal(chosen, one_by_one)


def test_nothing_is_at_zero_from_nothing_and_far_from_something() -> None:
    graphs = random_graphs(2)
    graphs.nodes[0], graphs.edges[0] = 0, 0
    both = soften(graphs, LABELS)
    pairs = torch.tensor([[0, 0], [0, 1], [1, 0]])
    assert fused_distances(both, both, pairs, tradeoff=0.5).values.tolist() == [0.0, 1.5, 1.5]


@needs_pot
@pytest.mark.parametrize("tradeoff", [0.5, 0.9])
def test_the_compiled_solver_agrees_with_pot(tradeoff: float) -> None:
    first, second = soft(25), soft(25, seed=1)
    ours = fused_distances(first, second, tradeoff=tradeoff, starts=4)
    theirs = fused_distances(first, second, tradeoff=tradeoff, solver="pot")
    measured = objective(double(first), double(second), theirs.plans, tradeoff)
    assert torch.allclose(measured, theirs.values, atol=1e-7)  # the same objective
    from_theirs = fused_distances(first, second, tradeoff=tradeoff, plans=theirs.plans).values
    assert (from_theirs <= theirs.values + 1e-9).all()
    assert (from_theirs > theirs.values - 1e-4).float().mean() > 0.9  # where POT stops, we stop, but for ties
    assert ours.values.mean() <= theirs.values.mean() + 1e-9  # several starts find no worse ends
    from_ours = fused_distances(first, second, tradeoff=tradeoff, plans=ours.plans, solver="pot").values
    assert (from_ours > ours.values - 1e-4).float().mean() > 0.9  # and where we stop, POT stops


@needs_pot
def test_the_barycenter_step_is_no_worse_than_pots_barycenter() -> None:
    import ot

    graphs, weights = soft(40).map(lambda tensor: tensor), torch.tensor([[0.5, 0.3, 0.2]])
    rows = (graphs.sizes == 4).nonzero().flatten()[:3]
    graphs, plain = double(graphs[rows]), surrogate(tradeoff=0.7, starts=6)
    mine = barycenters(graphs[:1], graphs, weights.double(), plain, rounds=20)
    arrays = [[t[:4].numpy() for t in graphs.features], [t[:4, :4].numpy() for t in graphs.structure]]
    features, structure = ot.gromov.fgw_barycenters(
        4, *arrays, lambdas=weights[0].double().numpy(), alpha=0.7, random_state=0
    )
    theirs = SoftGraphs(mine.features.clone(), mine.structure.clone(), mine.sizes)
    theirs.features[0, :4], theirs.structure[0, :4, :4] = torch.from_numpy(features), torch.from_numpy(structure)

    def energy(center: SoftGraphs) -> float:
        pairs = torch.tensor([[0, 0], [0, 1], [0, 2]])
        return float(fused_distances(center, graphs, pairs, tradeoff=0.7, starts=6).values @ weights[0].double())

    assert energy(mine) <= energy(theirs) + 1e-6


def test_the_barycenter_of_copies_of_a_graph_is_that_graph() -> None:
    graphs = compact(random_graphs(20))
    copies = soften(graphs, LABELS)[torch.arange(20).repeat_interleave(3)]
    weights = torch.rand(20, 3, generator=torch.Generator().manual_seed(0))
    found = barycenters(soften(graphs, LABELS), copies, weights, surrogate(), rounds=5)
    shape = (graphs.edges != 0).char()
    assert torch.equal(harden(found).nodes, graphs.nodes)
    assert torch.equal(harden(found).edges, shape)


def test_rounds_lower_the_energy_of_the_barycenter() -> None:
    graphs, weights, loss = soft(30), torch.full((10, 3), 1 / 3), surrogate(starts=6)

    def energy(rounds: int) -> Tensor:
        center = barycenters(graphs[::3], graphs, weights, loss, rounds)
        query = loss.layout.pack(weights, graphs)
        owner = torch.arange(10).repeat_interleave(3)
        values = loss.distances(center[owner], loss.layout.unpack(query)[1]).values
        return values.reshape(10, 3).mean(dim=1)

    assert energy(8).mean() < energy(1).mean()


def test_averaging_is_the_best_graph_for_given_plans() -> None:
    graphs, weights = double(soft(3)), torch.tensor([[0.5, 0.3, 0.2]], dtype=torch.float64)
    every = torch.zeros(3, dtype=torch.long)
    center = double(soft(1, seed=5))
    plans = fused_distances(center[every], graphs, tradeoff=0.6).plans
    best = average(graphs, weights, plans, center.sizes)
    point = best.map(lambda tensor: tensor.clone())
    point.features.requires_grad_()
    point.structure.requires_grad_()
    value = (objective(point[every], graphs, plans, 0.6) * weights[0]).sum()
    value.backward()
    assert point.features.grad is not None
    assert point.structure.grad is not None
    assert point.features.grad.abs().max() < 1e-9
    assert point.structure.grad.abs().max() < 1e-9


def test_rounding_gives_back_a_softened_graph_with_the_first_edge_label() -> None:
    graphs = compact(random_graphs(20))
    back = harden(soften(graphs, LABELS))
    assert torch.equal(back.nodes, graphs.nodes)
    assert torch.equal(back.edges, (graphs.edges != 0).char())
    assert isinstance(back, Graphs)


def test_missing_pot_is_one_sentence_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ot", None)
    with pytest.raises(ConfigError, match=re.escape(pip_install("baselines"))):
        surrogate(solver="pot")
