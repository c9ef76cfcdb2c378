"""`molecule`: SMILES, RDKit molecules and `Molecule`s in, `Molecule`s out."""

from __future__ import annotations

import pytest
import torch
from rdkit import Chem

from ele_core.errors import InvalidOutput
from ele_graphs.graphs.batch import Graphs, component_counts, from_lists
from ele_graphs.molecules.molecule import Molecule
from ele_graphs.molecules.space import MoleculeSpace

SPACE = MoleculeSpace()


def test_smiles_rdkit_molecules_and_molecules_pack_alike() -> None:
    batch = SPACE.pack(["OCC", Chem.MolFromSmiles("CCO"), Molecule.from_smiles("C(O)C")])
    assert len(torch.unique(SPACE.keys(batch), dim=0)) == 1
    assert [molecule.smiles for molecule in SPACE.unpack(batch)] == ["CCO"] * 3


def test_molecules_come_back_as_they_went_in() -> None:
    examples = SPACE.examples()
    assert SPACE.unpack(SPACE.pack(examples)) == examples
    point = SPACE.relax(SPACE.pack(examples))
    assert [m.smiles for m in SPACE.unpack(SPACE.unrelax(point))] == [m.smiles for m in examples]


def test_text_is_a_smiles_or_a_graph_where_there_is_none() -> None:
    invalid = Molecule(("C", "F"), ((0, 1, "double"),))
    for molecule in (*SPACE.examples(), invalid, Molecule((), ())):
        assert SPACE.parse(SPACE.format(molecule)) == molecule
    assert SPACE.format(Molecule.from_smiles("OCC")) == "CCO"
    assert SPACE.format(invalid) == '{"nodes":["C","F"],"edges":[[0,1,"double"]]}'
    assert "not a valid molecule" in SPACE.show.render(invalid).text
    assert "<svg" in (SPACE.show.render("CCO", "CCN").svg or "")


@pytest.mark.parametrize(
    "text", ["", "CC(", "CC.C", '{"nodes":["Xx"],"edges":[]}', '{"nodes":["C","C"],"edges":[[0,1,"hydrogen"]]}']
)
def test_text_that_is_no_molecule_is_refused(text: str) -> None:
    with pytest.raises(InvalidOutput):
        SPACE.parse(text)


@pytest.mark.parametrize(
    ("obj", "reason"),
    [
        ("CCCCCCCCCC", "CCCCCCCCCC: 10 atoms, more than max_atoms = 9"),
        ("CCBr", "element Br is not one of C N O F"),
        ("C$C", "bond quadruple"),
        ("C(", "not a SMILES"),
        (42, "not int"),
        (Molecule(("C",), ((0, 0, "single"),)), "bound to itself"),
    ],
)
def test_what_is_not_in_the_space_is_refused_with_its_place_and_reason(obj: object, reason: str) -> None:
    with pytest.raises(InvalidOutput, match=reason) as error:
        SPACE.pack(["CC", obj])
    assert error.value.index == 1


def test_validity_is_measured_on_predictions_alone() -> None:
    predicted = from_lists([[1, 3], [1, 4], [1, 1], []], [[(0, 1, 2)], [(0, 1, 2)], [], []], 9)
    valid = next(metric for metric in SPACE.metrics if metric.name == "valid")
    assert valid.function(predicted, predicted).tolist() == [1, 0, 0, 0]


def test_elements_bonds_and_size_are_inferred_and_options_win() -> None:
    config = MoleculeSpace.infer(
        ["CCCl", "C#N", Molecule.from_smiles("O=S")], {"bonds": ["single", "double", "triple"]}
    )
    assert config.elements == ("C", "N", "O", "Cl", "S")
    assert config.bonds == ("single", "double", "triple")
    assert config.max_atoms == 3


def test_configurations_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="not chemical elements: Xx"):
        MoleculeSpace.Config(elements=("C", "Xx"))
    with pytest.raises(ValueError, match="an element is listed twice"):
        MoleculeSpace.Config(elements=("C", "C"))


def test_properties_describe_molecules() -> None:
    properties = SPACE.show.properties(SPACE.pack(["c1ccncc1", "C1CC1C2CC2", "CCO"]))
    assert {name: values.tolist() for name, values in properties.items()} == {
        "atoms": [6, 6, 3],
        "rings": [1, 2, 0],
        "hetero_atoms": [1, 0, 1],
    }


def test_views_may_be_no_molecules_and_are_still_in_the_space() -> None:
    space = MoleculeSpace(MoleculeSpace.Config(augmentations=({"name": "perturb-edges", "rate": 0.5},)))
    view: Graphs = space.augment(space.pack(["c1ccccc1"] * 20), torch.Generator().manual_seed(0))
    assert torch.equal(space.keys(space.pack(space.unpack(view))), space.keys(view))


def test_legal_moves_leave_no_atom_with_too_many_bonds() -> None:
    start = ["CCO", "C#N", "CC(=O)F"]
    free, legal = (MoleculeSpace(MoleculeSpace.Config(legal_moves=legal)) for legal in (False, True))
    everything, some = free.moves.neighbours(free.pack(start)), legal.moves.neighbours(legal.pack(start))
    assert legal.valence is not None
    within = legal.valence.hold(everything[0])
    assert 0 < int(within.sum()) < len(within)
    assert torch.equal(some[0].edges, everything[0].edges[within])
    assert torch.equal(some[1], everything[1][within])
    assert legal.valence.hold(legal.pack(["C#N", "FC(F)(F)F", "O=C=O"])).all()


def test_a_huge_smiles_is_refused_before_it_is_written_canonically(monkeypatch):
    from ele_graphs.molecules import rdkit_adapter

    def never(*_, **__):
        raise AssertionError("this takes quadratic time")

    monkeypatch.setattr(rdkit_adapter.Chem, "MolToSmiles", never)
    with pytest.raises(InvalidOutput, match="100000 atoms, more than 1000") as caught:
        MoleculeSpace.parse("C" * 100_000)
    assert len(str(caught.value)) < 200


def test_one_molecule_too_large_for_any_space_is_refused_alone():
    space = MoleculeSpace(MoleculeSpace.infer(["CCO", "C" * 70], {}))
    assert space.config.max_atoms == 64
    with pytest.raises(InvalidOutput, match=r"output 1: .*70 atoms, more than max_atoms = 64"):
        space.pack(["CCO", "C" * 70])


def with_broken_ones(smiles: list[str]) -> Graphs:
    """Molecules, and graphs that are not connected, have too many bonds, or both."""
    broken = from_lists([[1, 1, 3], [4, 1, 4], [4, 1, 1]], [[(0, 1, 1)], [(0, 1, 2), (1, 2, 1)], [(0, 1, 2)]], 9)
    return Graphs.cat([SPACE.pack(smiles), broken])


def listed(space, batch, gradient):
    return space.moves.list(batch) if gradient is None else space.moves.along(batch, gradient)


def test_valid_moves_are_all_moves_to_connected_molecules_within_valence() -> None:
    start = with_broken_ones(["CCO", "C#N", "CC(=O)F", "C1CC1CO", "C1CC1C2CC2", "C[N+](=O)[O-]", "c1ccccc1", "C"])
    free, bonds = (MoleculeSpace(MoleculeSpace.Config(legal_moves=legal)) for legal in (False, True))
    point = SPACE.relax(start)
    gradient = point.map(lambda part: torch.randn(part.shape, generator=torch.Generator().manual_seed(0)))
    for ranked_by in (None, gradient):
        everything, owner = listed(free, start, ranked_by)
        assert bonds.valence is not None
        within, connected = bonds.valence.hold(everything), component_counts(everything) == 1
        assert (within & ~connected).any()
        assert (connected & ~within).any()
        for space, kept in ((bonds, within), (SPACE, within & connected)):
            moved, row = listed(space, start, ranked_by)
            assert torch.equal(row, owner[kept])
            assert torch.equal(moved.nodes, everything.nodes[kept])
            assert torch.equal(moved.edges, everything.edges[kept])


def test_every_valid_move_leads_to_a_valid_molecule() -> None:
    space = MoleculeSpace(MoleculeSpace.Config(elements=("C", "N", "O", "S", "P", "Cl"), max_atoms=7))
    moved, _ = space.moves.neighbours(space.pack(["CS(=O)(=O)C", "OP(O)O", "C1CC1Cl", "C#N", "C[N+](=O)[O-]"]))
    assert len(moved) > 100
    assert all(molecule.valid for molecule in space.unpack(moved))


def test_any_point_unrelaxes_to_a_valid_molecule() -> None:
    generator = torch.Generator().manual_seed(0)
    point = SPACE.relax(SPACE.pack(["C"] * 100))
    point = SPACE.project(point.map(lambda part: torch.randn(part.shape, generator=generator)))
    point.nodes[0] = torch.nn.functional.one_hot(torch.zeros(9, dtype=torch.long), 5)  # no atom at all
    free = MoleculeSpace(MoleculeSpace.Config(legal_moves=True))
    assert not all(molecule.valid for molecule in free.unpack(free.unrelax(point)))
    found = SPACE.unrelax(point)
    assert all(molecule.valid for molecule in SPACE.unpack(found))
    alone = Graphs.cat([SPACE.unrelax(point[row : row + 1]) for row in range(20)])
    assert torch.equal(SPACE.keys(alone), SPACE.keys(found[:20]))


def test_the_least_likely_bond_gives_way_and_the_largest_part_stays() -> None:
    atoms = [1, 4, 3, 1, 1]
    point = SPACE.relax(from_lists([atoms], [[(0, 1, 1), (1, 2, 1), (2, 3, 1), (3, 4, 2)]], 9))
    point.edges[0, 0, 1] = point.edges[0, 1, 0] = torch.tensor([0.4, 0.6, 0, 0])  # C–F is less likely than F–O
    assert [molecule.smiles for molecule in SPACE.unpack(SPACE.unrelax(point))] == ["C=COF"]


def test_options_of_version_0_1_0_keep_their_meaning() -> None:
    chain = SPACE.pack(["CCC"])
    old = MoleculeSpace(MoleculeSpace.Config.model_validate({"legal_moves": True}))
    assert (component_counts(old.moves.list(chain)[0]) > 1).any()
    apart = from_lists([[1, 1]], [[]], 9)
    assert component_counts(old.unrelax(old.relax(apart))).tolist() == [2]


@pytest.mark.parametrize(
    ("smiles", "dropped"),
    [
        ("CCO", ()),
        ("C[C@H](O)N", ("stereo",)),
        ("F/C=C/F", ("stereo",)),
        ("[13CH3]O", ("isotopes",)),
        ("C[CH2]", ("radicals",)),
        ("CC(=O)[O-]", ()),
        ("C[N+](=O)[O-]", ()),
        ("F[B-](F)(F)F", ()),
        ("CC(=O)[O-].[Na+]", ("fragments",)),
    ],
)
def test_a_molecule_knows_what_was_dropped_when_it_was_read(smiles: str, dropped: tuple[str, ...]) -> None:
    molecule = Molecule.from_smiles(smiles, "largest")
    assert molecule.dropped == dropped
    assert Molecule.from_rdkit(Chem.MolFromSmiles(smiles), "largest").dropped == dropped
    assert molecule == Molecule(molecule.atoms, molecule.bonds)


def test_losses_are_counted_in_one_line() -> None:
    smiles = ["C[C@H](O)N", "C[C@@H](O)F", "CC(=O)[O-].[Na+]", "[13CH3]O", "C[CH2]", "F[B-](F)(F)F", "CCO"]
    space = MoleculeSpace(MoleculeSpace.infer(smiles, {"fragments": "largest", "charges": None}))
    assert space.config.elements == ("C", "N", "O", "F", "B")
    assert space.show.dropped_note(smiles) == (
        "molecules: dropped stereo from 2, charges from 1, isotopes from 1, radicals from 1; "
        "kept the largest fragment of 1; not valid without their charges, which are dropped: 1"
    )
    assert SPACE.show.dropped_note(["CCO", "CCN", "C[N+](=O)[O-]"]) == ""
    labels = MoleculeSpace(MoleculeSpace.infer(smiles, {"fragments": "largest"}))
    assert labels.show.dropped_note(smiles) == "molecules: dropped stereo from 2; kept the largest fragment of 1"


def test_several_fragments_are_refused_or_the_largest_is_taken() -> None:
    with pytest.raises(InvalidOutput, match=r"2 fragments, one expected: CCO\.Cl .*fragments = .largest."):
        SPACE.pack(["CCO.Cl"])
    largest = MoleculeSpace(MoleculeSpace.Config(fragments="largest"))
    assert [molecule.smiles for molecule in largest.unpack(largest.pack(["Cl.CCO", "CC.OO", "OO.CC"]))] == [
        "CCO",
        "OO",
        "OO",
    ]
    assert MoleculeSpace.Texts(MoleculeSpace, {"fragments": "largest"}).parse("CCO.Cl").smiles == "CCO"
    with pytest.raises(InvalidOutput):
        MoleculeSpace.Texts(MoleculeSpace, {}).parse("CCO.Cl")


def test_options_newer_than_0_1_0_are_off_so_that_its_runs_resume() -> None:
    stored = {"augmentations", "ged_budget", "elements", "bonds", "max_atoms", "legal_moves"}
    newer = set(MoleculeSpace.Config.model_fields) - stored
    assert {name: getattr(SPACE.config, name) for name in newer} == dict.fromkeys(newer)
