"""The output space `cell-graph`: its parts, its moves and its keys."""

from __future__ import annotations

import itertools

import networkx as nx
import pytest
import torch

from ele_core.numerics.sparse import PartEnergies
from ele_core.optional import PartMoves
from ele_graphs.coloring.pictures import draw
from ele_graphs.coloring.space import CellGraphSpace, Motifs
from ele_graphs.coloring.task import graphs
from ele_graphs.graphs.batch import Graphs

NONE = dict.fromkeys(Motifs.model_fields, 0.0)


def space_of(max_nodes: int = 10, **motifs: float) -> CellGraphSpace:
    return CellGraphSpace(CellGraphSpace.Config(max_nodes=max_nodes, motifs=Motifs(**motifs)))


def cells(count: int, space: CellGraphSpace) -> Graphs:
    (block,) = draw(count, space.max_nodes, 11)
    return graphs(block, space)


@pytest.mark.parametrize("kind", list(Motifs.model_fields))
def test_parts_do_not_depend_on_the_order_of_nodes(kind: str) -> None:
    space = space_of(**{**NONE, kind: 1.0})
    batch = cells(50, space)
    other = space.equivalents(batch, torch.Generator().manual_seed(0))
    first, second = space.features(batch), space.features(other)
    assert torch.equal(first.keys, second.keys)
    assert torch.equal(first.values, second.values)


def counted(space: CellGraphSpace, batch: Graphs) -> list[list[float]]:
    """How often each part occurs in each graph, without saying which part."""
    found = space.features(batch)
    return [sorted(found.between(row, row + 1).values.tolist()) for row in range(len(batch))]


@pytest.mark.parametrize(
    ("kind", "subgraphs"),
    [
        ("colour", lambda g: [g.nodes[v]["label"] for v in g]),
        ("degree", lambda g: [(g.nodes[v]["label"], min(g.degree(v), 7)) for v in g]),
        ("around", lambda g: [(g.nodes[v]["label"], *sorted(g.nodes[u]["label"] for u in g[v])) for v in g]),
        ("edge", lambda g: [tuple(sorted(g.nodes[v]["label"] for v in edge)) for edge in g.edges]),
        ("triangle", lambda g: [tuple(sorted(g.nodes[v]["label"] for v in three)) for three in triangles(g)]),
        ("between", lambda g: [(ends(g, e), *sorted(g.nodes[w]["label"] for w in common(g, *e))) for e in g.edges]),
        ("flaps", lambda g: [tuple(sorted(flaps(g, three))) for three in triangles(g)]),
    ],
)
def test_parts_are_counted_as_networkx_counts_them(kind: str, subgraphs) -> None:
    space = space_of(**{**NONE, kind: 1.0})
    batch = cells(60, space)
    for graph, found in zip(space.unpack(batch), counted(space, batch), strict=True):
        expected: dict[object, int] = {}
        for part in subgraphs(graph):
            expected[part] = expected.get(part, 0) + 1
        assert found == sorted(expected.values())


def triangles(graph: nx.Graph) -> list[tuple[int, ...]]:
    return [three for three in itertools.combinations(graph, 3) if graph.subgraph(three).size() == 3]


def common(graph: nx.Graph, u: int, v: int) -> set[int]:
    return set(graph[u]) & set(graph[v])


def ends(graph: nx.Graph, edge: tuple[int, int]) -> tuple[str, ...]:
    return tuple(sorted(graph.nodes[v]["label"] for v in edge))


def flaps(graph: nx.Graph, three: tuple[int, ...]) -> list[tuple[object, ...]]:
    pairs = itertools.combinations(three, 2)
    return [(ends(graph, e), *sorted(graph.nodes[w]["label"] for w in common(graph, *e) - set(three))) for e in pairs]


def test_a_weight_multiplies_the_counts_of_its_kind() -> None:
    batch = cells(20, space_of())
    once, twice = (space_of(**{**NONE, "around": weight}).features(batch) for weight in (1.0, 2.0))
    assert torch.equal(2 * once.values, twice.values)


@pytest.mark.parametrize("squares", [0.0, 0.05])
def test_compiled_best_moves_are_those_on_tensors(squares: float) -> None:
    space = space_of(8, far=0.5, flaps=1.0, kite=1.0)
    batch = cells(12, space)
    estimate = PartEnergies(torch.randn(12, 64, generator=torch.Generator().manual_seed(0)), squares)
    found, row = space.moves.best(batch, estimate, 20)
    expected, expected_row = PartMoves.best(space.moves, batch, estimate, 20)
    assert torch.equal(row, expected_row)
    energies = [estimate[row].of(space.features(moved)) for moved in (found, expected)]
    assert torch.allclose(*energies, rtol=1e-3, atol=1e-3)


def test_moves_never_lead_to_neighbours_of_the_same_colour() -> None:
    space = space_of(8)
    moved, _ = space.moves.list(cells(10, space))
    assert len(moved) > 500
    assert not ((moved.nodes[:, :, None] == moved.nodes[:, None, :]) & (moved.edges != 0)).any()


@pytest.mark.parametrize("max_nodes", [10, 20])
def test_keys_are_equal_exactly_for_isomorphic_graphs(max_nodes: int) -> None:
    """Of drawn graphs and of all graphs one edit away from some of them."""
    space = space_of(max_nodes)
    drawn = cells(300, space)
    batch = Graphs.cat([drawn, space.moves.list(drawn[:2])[0]])
    objects, keys = space.unpack(batch), [tuple(key) for key in space.keys(batch).tolist()]
    similar: dict[object, list[int]] = {}
    for row, graph in enumerate(objects):
        outline = sorted((graph.nodes[v]["label"], graph.degree(v)) for v in graph)
        similar.setdefault(tuple(outline), []).append(row)
    compared = [pair for rows in similar.values() for pair in itertools.combinations(rows[:20], 2)]
    assert len(compared) > 100
    for first, second in compared:
        same = nx.is_isomorphic(objects[first], objects[second], lambda a, b: a["label"] == b["label"])
        assert same == (keys[first] == keys[second])


def test_nodes_are_drawn_in_the_colours_of_the_pictures() -> None:
    space = space_of()
    svg = space.show.render(space.unpack(cells(1, space))[0]).svg
    assert svg is not None
    assert "#4040bf" in svg or "#40bf40" in svg
