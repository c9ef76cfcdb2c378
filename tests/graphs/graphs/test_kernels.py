"""Compiled functions on graphs have the results of those on tensors."""

from __future__ import annotations

import pytest
import torch
from random_graphs import repad

from ele_core.numerics.sparse import PartEnergies
from ele_core.optional import PartMoves
from ele_graphs.graphs import keys as graph_keys_module
from ele_graphs.graphs.batch import Graphs
from ele_graphs.graphs.keys import graph_keys
from ele_graphs.graphs.networkx_space import PaddedGraphSpace
from ele_graphs.graphs.wl import PartKinds
from ele_graphs.molecules.space import MoleculeSpace

pytest.importorskip("numba")
SMILES = [
    "C",
    "CC",
    "CCO",
    "C1CC1",
    "C1CC2CCCC2C1",
    "CC(=O)Oc1ccccc1C(=O)O",
    "O=C(Nc1ccc(F)cc1)c1ccncc1",
    "N#Cc1ccc(-n2cccn2)cc1S(C)(=O)=O",
]
SPACE = MoleculeSpace(MoleculeSpace.Config(elements=("C", "N", "O", "F", "S"), max_atoms=22, radius=3))


@pytest.fixture
def molecules() -> Graphs:
    return SPACE.pack(SMILES)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_keys_module, "COMPILED_FROM", 0)


def on_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_keys_module, "COMPILED_FROM", 1 << 60)


def test_compiled_keys_are_those_on_tensors(molecules: Graphs, monkeypatch: pytest.MonkeyPatch) -> None:
    moved, _ = SPACE.moves.list(molecules)
    on_tensors(monkeypatch)
    expected = graph_keys(moved)
    monkeypatch.setattr(graph_keys_module, "COMPILED_FROM", 0)
    assert torch.equal(graph_keys(moved), expected)
    assert torch.equal(graph_keys(repad(moved, 30)), expected), "the padding changes the keys"


@pytest.mark.parametrize("legal_moves", ["valid", True, False])
@pytest.mark.parametrize("squares", [0.0, 0.5])
@pytest.mark.usefixtures("compiled")
def test_compiled_best_moves_are_those_on_tensors(molecules: Graphs, legal_moves: str | bool, squares: float) -> None:
    options = SPACE.config.model_copy(update={"legal_moves": legal_moves})
    space = MoleculeSpace(options)
    generator = torch.Generator().manual_seed(0)
    estimate = PartEnergies(torch.randn(len(molecules), 100, generator=generator), squares)
    limit = 30
    found, row = space.moves.best(molecules, estimate, limit)
    expected, expected_row = PartMoves.best(space.moves, molecules, estimate, limit)
    assert torch.equal(row, expected_row)
    energies, least = (estimate[row].of(space.features(batch)) for batch in (found, expected))
    torch.testing.assert_close(energies, least, rtol=1e-4, atol=1e-3)
    everything, _ = space.moves.best(molecules[-1:], estimate[torch.tensor([-1])], 100_000)
    assert len(everything) <= len(space.moves.list(molecules[-1:])[0])
    known = {tuple(key) for key in space.keys(space.moves.list(molecules[-1:])[0]).tolist()}
    listed = {tuple(key) for key in space.keys(everything).tolist()}
    assert listed <= known
    assert len(listed) > 0.99 * len(known), "moves with equal estimates are left out, but not other structures"


@pytest.mark.usefixtures("compiled")
def test_graphs_that_break_the_rules_have_best_moves_too() -> None:
    broken = SPACE.pack(["CCO", "CCO"])
    broken.edges[0] = 0  # three atoms without bonds
    estimate = PartEnergies(torch.randn(2, 8, generator=torch.Generator().manual_seed(0)))
    found, row = SPACE.moves.best(broken, estimate, 1000)
    assert SPACE.valence is not None
    assert SPACE.valence.hold(found).all()
    alone, _ = SPACE.moves.best(broken[1:], estimate[torch.tensor([1])], 1000)
    assert (row == 1).sum() == len(alone) > 20
    assert (row == 0).sum() == 0, "no single edit connects three atoms"


def test_resonance_forms_have_the_same_parts() -> None:
    space = MoleculeSpace(SPACE.config)
    first = space.pack(["CC1=CC=CC=C1O"])
    other = first.edges.clone()
    ring = [i for i in range(first.max_nodes) if (first.edges[0, i] == 2).any()]
    for i in ring:
        for j in ring:
            if first.edges[0, i, j]:
                other[0, i, j] = 3 - first.edges[0, i, j]
    second = Graphs(first.nodes, other)
    from ele_graphs.graphs.wl import graph_features

    plain = [graph_features(batch, PartKinds(2)) for batch in (first, second)]
    assert not torch.equal(plain[0].keys, plain[1].keys)
    shared = [graph_features(batch, PartKinds(2, double=2, triple=3)) for batch in (first, second)]
    assert torch.equal(shared[0].keys, shared[1].keys)
    assert torch.equal(shared[0].values, shared[1].values)


@pytest.mark.usefixtures("compiled")
def test_any_space_of_graphs_ranks_its_moves() -> None:
    space = PaddedGraphSpace(PaddedGraphSpace.Config(node_labels=("a", "b"), edge_labels=("x",), max_nodes=6))
    batch = space.pack(space.examples())
    estimate = PartEnergies(torch.randn(len(batch), 16, generator=torch.Generator().manual_seed(1)))
    found, row = space.moves.best(batch, estimate, 5)
    expected, expected_row = PartMoves.best(space.moves, batch, estimate, 5)
    assert torch.equal(row, expected_row)
    torch.testing.assert_close(
        estimate[row].of(space.features(found)), estimate[row].of(space.features(expected)), rtol=1e-4, atol=1e-4
    )


def test_resonance_forms_are_one_molecule() -> None:
    space = MoleculeSpace(SPACE.config.model_copy(update={"resonance": True}))
    first = space.pack(["CC1=CC=CC=C1O"])
    ring = (first.edges[0] == 2).any(dim=1).nonzero().flatten().tolist()
    other = first.edges.clone()
    for i in ring:
        for j in ring:
            if first.edges[0, i, j]:
                other[0, i, j] = 3 - first.edges[0, i, j]
    second = Graphs(first.nodes, other)
    assert torch.equal(space.keys(first), space.keys(second))
    assert not torch.equal(SPACE.keys(first), SPACE.keys(second))
    values = {metric.name: metric.function(second, first) for metric in space.metrics}
    assert values["exact"].item() == 1
    assert float(getattr(values["ged_with_edges"], "upper", values["ged_with_edges"])) == 0


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(("smiles", "alike"), [("C1CCCCCCC1", 0), ("CC(C)(C)C(C)(C)C", 0), ("C12C3C4C1C5C2C3C45", 2)])
def test_symmetric_molecules_have_their_neighbours_among_the_best_moves_two_of_those_with_equal_parts(
    smiles: str, alike: int
) -> None:
    batch = SPACE.pack([smiles])
    estimate = PartEnergies(torch.randn(1, 64, generator=torch.Generator().manual_seed(0)))
    found, _ = SPACE.moves.best(batch, estimate, 10_000)
    everything, _ = SPACE.moves.list(batch)
    distinct = {tuple(key) for key in SPACE.keys(everything).tolist()}
    kept = {tuple(key) for key in SPACE.keys(found).tolist()}
    assert kept <= distinct
    assert len(distinct - kept) == alike
    assert len(found) <= 2 * len(distinct)


def test_constants_of_the_compiled_functions_are_those_of_the_others() -> None:
    from ele_core.numerics import keys as core_keys
    from ele_graphs.graphs import key_kernels, move_kernels, wl

    assert (move_kernels.SHARED, int(move_kernels.UNSATURATED)) == (wl.SHARED, wl.UNSATURATED)
    assert key_kernels.REFINEMENTS == graph_keys_module.REFINEMENTS
    assert move_kernels.SAME == core_keys.SAME


def test_a_nitro_group_without_charges_is_compared_in_one_form() -> None:
    space = MoleculeSpace(SPACE.config.model_copy(update={"resonance": True}))
    first = space.pack(["CC1=CC=CC=C1[N+](=O)[O-]"])
    ring = [i for i in range(first.max_nodes) if first.nodes[0, i] == 1 and (first.edges[0, i] == 2).any()]
    other = first.edges.clone()
    for i in ring:
        for j in ring:
            if first.edges[0, i, j]:
                other[0, i, j] = 3 - first.edges[0, i, j]
    values = {metric.name: metric.function(Graphs(first.nodes, other), first) for metric in space.metrics}
    assert values["exact"].item() == 1
    assert float(getattr(values["ged_with_edges"], "upper", values["ged_with_edges"])) == 0
