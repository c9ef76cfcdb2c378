"""The edit distance equals networkx's, obeys the laws of a metric, and gives honest bounds within a budget."""

import csv
import signal
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import networkx as nx
import pytest
import torch
from commands import PATIENCE
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ele_graphs.ged import MAX_NODES, default_budgets, edit_distance_bounds, edit_distances


@dataclass(frozen=True)
class Graphs:
    """What the engine asks of a batch."""

    nodes: Tensor
    edges: Tensor


def random_graphs(
    count: int, room: int, seed: int, *, virtual: float = 0.2, density: float = 0.4, labels: int = 3
) -> Graphs:
    """Virtual nodes anywhere, between none and all of them."""
    generator = torch.Generator().manual_seed(seed)
    nodes = torch.randint(1, labels + 1, (count, room), generator=generator, dtype=torch.int8)
    nodes[torch.rand(count, room, generator=generator) < virtual] = 0
    edges = torch.randint(1, labels + 1, (count, room, room), generator=generator, dtype=torch.int8)
    edges[torch.rand(count, room, room, generator=generator) >= density] = 0
    real = nodes > 0
    edges = edges.triu(1) * real[:, :, None] * real[:, None, :]
    return Graphs(nodes, edges + edges.transpose(1, 2))


def permuted(graphs: Graphs, seed: int) -> Graphs:
    """Each graph with its nodes in another order."""
    order = torch.rand(graphs.nodes.shape, generator=torch.Generator().manual_seed(seed)).argsort(1)
    rows = torch.arange(len(order))[:, None]
    return Graphs(graphs.nodes[rows, order], graphs.edges[rows[:, :, None], order[:, :, None], order[:, None, :]])


def to_networkx(graphs: Graphs, index: int) -> "nx.Graph[int]":
    """One graph of a batch, without its virtual nodes."""
    graph: nx.Graph[int] = nx.Graph()
    real = [i for i, label in enumerate(graphs.nodes[index].tolist()) if label]
    graph.add_nodes_from((i, {"label": int(graphs.nodes[index, i])}) for i in real)
    graph.add_edges_from(
        (i, j, {"label": int(graphs.edges[index, i, j])})
        for i in real
        for j in real
        if i < j and graphs.edges[index, i, j]
    )
    return graph


def networkx_distance(
    a: Graphs, b: Graphs, index: int, edge_labels: bool, upper_bound: int | None = None
) -> float | None:
    distance: float | None = nx.graph_edit_distance(
        to_networkx(a, index),
        to_networkx(b, index),
        node_match=lambda x, y: x["label"] == y["label"],
        edge_match=lambda x, y: x["label"] == y["label"] or not edge_labels,
        upper_bound=upper_bound,
    )
    return distance


@pytest.mark.parametrize("edge_labels", [True, False])
@pytest.mark.parametrize(("room_a", "room_b"), [(1, 1), (2, 5), (4, 4), (5, 3), (5, 5)])
def test_distance_equals_networkx(room_a: int, room_b: int, edge_labels: bool) -> None:
    a, b = random_graphs(25, room_a, seed=1), random_graphs(25, room_b, seed=2)
    expected = [networkx_distance(a, b, index, edge_labels) for index in range(25)]
    assert edit_distances(a, b, edge_labels=edge_labels).tolist() == expected


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**31), st.integers(0, 5), st.integers(0, 5), st.floats(0, 1), st.integers(1, 3), st.booleans())
def test_distance_equals_networkx_at_any_density(
    seed: int, room_a: int, room_b: int, density: float, labels: int, edge_labels: bool
) -> None:
    a = random_graphs(1, room_a, seed, density=density, labels=labels)
    b = random_graphs(1, room_b, seed + 1, density=density, labels=labels)
    assert edit_distances(a, b, edge_labels=edge_labels).item() == networkx_distance(a, b, 0, edge_labels)


@pytest.mark.slow
@pytest.mark.parametrize("edge_labels", [True, False])
def test_distance_of_nine_atom_molecules_equals_networkx(edge_labels: bool) -> None:
    a, b = nine_atom_pairs(100)
    ours = edit_distances(a, b, edge_labels=edge_labels).tolist()
    # With an upper bound networkx answers its own minimum, or None if that is larger: in a fraction of the time.
    assert [networkx_distance(a, b, index, edge_labels, upper_bound=ours[index]) for index in range(100)] == ours


@pytest.mark.parametrize("edge_labels", [True, False])
def test_distance_is_symmetric(edge_labels: bool) -> None:
    a, b = random_graphs(200, 8, seed=3), random_graphs(200, 7, seed=4)
    assert torch.equal(edit_distances(a, b, edge_labels=edge_labels), edit_distances(b, a, edge_labels=edge_labels))


@pytest.mark.parametrize("edge_labels", [True, False])
def test_distance_obeys_the_triangle_inequality(edge_labels: bool) -> None:
    a, b, c = (random_graphs(200, 6, seed) for seed in (5, 6, 7))
    ab, bc, ac = (edit_distances(x, y, edge_labels=edge_labels) for x, y in ((a, b), (b, c), (a, c)))
    assert (ac <= ab + bc).all()


@pytest.mark.parametrize("density", [0.2, 0.5, 0.9])
def test_distance_is_zero_exactly_for_isomorphic_graphs(density: float) -> None:
    a = random_graphs(100, 9, seed=8, density=density)
    assert edit_distances(a, permuted(a, seed=9)).eq(0).all()
    a, b = (random_graphs(300, 4, seed, density=density, labels=1) for seed in (10, 11))
    same = [
        nx.is_isomorphic(to_networkx(a, index), to_networkx(b, index), node_match=dict.__eq__, edge_match=dict.__eq__)
        for index in range(300)
    ]
    assert 0 < sum(same) < 300
    assert edit_distances(a, b).eq(0).tolist() == same


def test_distance_does_not_depend_on_node_order_nor_on_room() -> None:
    a, b = random_graphs(100, 7, seed=12), random_graphs(100, 7, seed=13)
    wide = Graphs(torch.nn.functional.pad(b.nodes, (2, 1)), torch.nn.functional.pad(b.edges, (2, 1, 2, 1)))
    assert torch.equal(edit_distances(a, b), edit_distances(permuted(a, seed=14), permuted(wide, seed=15)))


def test_each_kind_of_edit_costs_one() -> None:
    nodes = torch.tensor([[1, 2, 1, 0]], dtype=torch.int8)
    edges = torch.zeros(1, 4, 4, dtype=torch.int8)
    edges[0, [0, 1, 1, 2], [1, 0, 2, 1]] = 1
    path = Graphs(nodes, edges)

    def edited(node: tuple[int, int] | None = None, edge: tuple[int, int, int] | None = None) -> Graphs:
        graph = Graphs(nodes.clone(), edges.clone())
        if node:
            graph.nodes[0, node[0]] = node[1]
        if edge:
            graph.edges[0, edge[0], edge[1]] = graph.edges[0, edge[1], edge[0]] = edge[2]
        return graph

    for other in (edited(node=(1, 3)), edited(node=(3, 1)), edited(edge=(0, 1, 0)), edited(edge=(0, 2, 1))):
        assert edit_distances(path, other).tolist() == [1]
        assert edit_distances(other, path, edge_labels=False).tolist() == [1]
    relabelled = edited(edge=(0, 1, 2))
    assert edit_distances(path, relabelled).tolist() == [1]
    assert edit_distances(path, relabelled, edge_labels=False).tolist() == [0]


def test_large_label_values_are_told_apart() -> None:
    edges = torch.tensor([[[0, 127], [127, 0]], [[0, 126], [126, 0]]], dtype=torch.int8)
    graphs = Graphs(torch.full((2, 2), 127, dtype=torch.int8), edges)
    assert edit_distances(graphs, Graphs(graphs.nodes, edges[[1, 1]])).tolist() == [1, 0]


@pytest.mark.parametrize("edge_labels", [True, False])
def test_bounds_enclose_the_distance_and_meet_with_a_large_budget(edge_labels: bool) -> None:
    a, b = random_graphs(100, 8, seed=16, virtual=0.1), random_graphs(100, 8, seed=17, virtual=0.1)
    exact = edit_distances(a, b, edge_labels=edge_labels)
    shares: list[float] = []
    for budget in (1, 10, 100, 1_000_000):
        bounds = edit_distance_bounds(a, b, budget=budget, edge_labels=edge_labels)
        assert (bounds.lower <= exact).all()
        assert (exact <= bounds.upper).all()
        assert torch.equal(bounds.exact, bounds.lower == bounds.upper)
        shares.append(bounds.exact.float().mean().item())
    assert shares == sorted(shares)
    assert shares[0] < 1
    assert shares[-1] == 1


def test_pairs_of_drug_size_a_few_edits_apart_are_exact_within_the_default_budget() -> None:
    trees = random_trees(40, 26, seed=40)
    assert edit_distance_bounds(trees, permuted(edited(trees, edits=4), seed=42)).exact.all()


def test_the_default_budget_depends_on_the_larger_graph_of_a_pair_alone() -> None:
    sizes = [(9, 9), (12, 3), (26, 5), (5, 26), (64, 64)]
    a, b = (random_trees(1, 64, seed=43) for _ in range(2))
    found = [
        default_budgets(*(Graphs(x.nodes * (torch.arange(64) < size), x.edges) for x, size in ((a, m), (b, n)))).item()
        for m, n in sizes
    ]
    assert found == [100_000, 100_000, 2_094, 2_094, 23]


def test_what_the_passes_proved_is_the_lower_bound_if_the_budget_runs_out() -> None:
    a, b = random_trees(20, 20, seed=44), random_trees(20, 20, seed=45)
    root, more = (edit_distance_bounds(a, b, budget=budget) for budget in (1, 3_000))
    assert not more.exact.all()
    assert (more.lower >= root.lower).all()
    assert (more.lower - root.lower).float().mean() > 1
    assert (more.upper <= root.upper).all()


def random_trees(count: int, room: int, seed: int) -> Graphs:
    """Trees with a few further edges, as molecules are."""
    generator = torch.Generator().manual_seed(seed)
    nodes = torch.randint(1, 4, (count, room), generator=generator, dtype=torch.int8)
    edges = torch.zeros(count, room, room, dtype=torch.int8)
    for graph in edges:
        for node in range(1, room):
            graph[node, int(torch.randint(max(0, node - 3), node, (1,), generator=generator))] = 1
        for node in range(6, room, 8):
            graph[node, node - 5] = 2
    return Graphs(nodes, edges + edges.mT)


def edited(graphs: Graphs, edits: int) -> Graphs:
    """Graphs with another label at some nodes and edges."""
    nodes, edges = graphs.nodes.clone(), graphs.edges.clone()
    for graph in range(len(nodes)):
        for edit in range(edits // 2):
            place = (7 * graph + 11 * edit) % nodes.shape[1]
            nodes[graph, place] = nodes[graph, place] % 3 + 1
            i, j = edges[graph].nonzero()[place].tolist()
            edges[graph, i, j] = edges[graph, j, i] = 3
    return Graphs(nodes, edges)


def test_bounds_come_back_for_graphs_far_too_large_to_solve() -> None:
    a, b = (random_graphs(4, MAX_NODES, seed, density=0.1) for seed in (18, 19))
    bounds = edit_distance_bounds(a, b, budget=200)
    assert (bounds.lower > 0).all()
    assert (bounds.lower < bounds.upper).all()


def test_results_do_not_depend_on_the_number_of_threads_and_progress_adds_up() -> None:
    a, b = random_graphs(300, 7, seed=20), random_graphs(300, 7, seed=21)
    done: list[int] = []
    one = edit_distances(a, b, threads=1, progress=done.append)
    assert torch.equal(one, edit_distances(a, b, threads=3))
    assert sum(done) == 300
    assert len(done) > 1
    assert one.dtype == torch.int64
    assert one.shape == (300,)


INTERRUPTED = """
import signal
import torch
from types import SimpleNamespace
from ele_graphs.ged import edit_distances

signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background starts with it ignored
generator = torch.Generator().manual_seed(0)
edges = torch.randint(0, 2, (2, 1, 40, 40), generator=generator).triu(1)
a, b = (SimpleNamespace(nodes=torch.ones(65, 40), edges=torch.cat([torch.zeros(64, 40, 40), e + e.mT])) for e in edges)
edit_distances(a, b, threads=2, progress=lambda done: print(done, flush=True))
"""


def test_an_interruption_stops_a_search_that_would_take_years() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "64\n"  # the easy pairs are done, one is left
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert errors.rstrip().endswith("KeyboardInterrupt")


def test_no_pairs_give_no_distances() -> None:
    empty = random_graphs(0, 9, seed=25)
    assert edit_distances(empty, empty).shape == (0,)


def test_batches_that_do_not_fit_are_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match="batch_b: the graph at index 0 has 65 nodes"):
        edit_distances(random_graphs(1, 3, seed=26), random_graphs(1, MAX_NODES + 1, seed=27, virtual=0))
    with pytest.raises(ValueError, match="batch_a and batch_b differ in their numbers of graphs, 2 and 3"):
        edit_distances(random_graphs(2, 3, seed=28), random_graphs(3, 3, seed=29))
    with pytest.raises(ValueError, match=r"nodes \(2, 3\) and edges \(2, 4, 4\)"):
        edit_distances(Graphs(torch.ones(2, 3), torch.zeros(2, 4, 4)), random_graphs(2, 3, seed=30))
    with pytest.raises(ValueError, match="batch_a has labels below 0"):
        edit_distances(Graphs(torch.full((1, 2), -1), torch.zeros(1, 2, 2)), random_graphs(1, 3, seed=33))
    with pytest.raises(ValueError, match="budget is 0"):
        edit_distance_bounds(random_graphs(1, 3, seed=31), random_graphs(1, 3, seed=32), budget=0)


def test_importing_the_package_does_not_import_numba() -> None:
    code = "import sys, ele_graphs.ged; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def nine_atom_pairs(count: int) -> tuple[Graphs, Graphs]:
    """Pairs of QM9 molecules with nine heavy atoms, drawn with a fixed seed."""
    chem = pytest.importorskip("rdkit.Chem")
    package = find_spec("qm9pack")  # its own loader needs pkg_resources, which is gone
    if package is None or package.origin is None:
        pytest.skip("qm9pack is not installed")
    csv.field_size_limit(2**24)
    with (Path(package.origin).parent / "data" / "qm9_part2.csv").open() as file:
        smiles = [row["SMILES"] for row in csv.DictReader(file)]
    order = torch.randperm(len(smiles), generator=torch.Generator().manual_seed(0)).tolist()
    molecules = (chem.MolFromSmiles(smiles[index]) for index in order)
    nine = [m for _, m in zip(range(4 * count), molecules, strict=False) if m is not None and m.GetNumAtoms() == 9]
    packed = [
        (
            torch.tensor([6 <= atom.GetAtomicNum() <= 9 and atom.GetAtomicNum() - 5 for atom in molecule.GetAtoms()]),
            torch.from_numpy(chem.GetAdjacencyMatrix(molecule, useBO=True) * 2),
        )
        for molecule in nine[: 2 * count]
    ]
    nodes, edges = (torch.stack(list(field)).to(torch.int8) for field in zip(*packed, strict=True))
    return Graphs(nodes[:count], edges[:count]), Graphs(nodes[count:], edges[count:])
