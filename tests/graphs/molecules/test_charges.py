"""Formal charges as part of the labels of atoms: in and out, rules of search, refusals, pictures; and old options."""

from __future__ import annotations

import pytest
import torch
from rdkit import Chem

from ele_core import Context
from ele_core.errors import InvalidOutput
from ele_core.testing import check_output_space
from ele_graphs.molecules import sources
from ele_graphs.molecules.labels import atom_label, charge_of, element_of
from ele_graphs.molecules.molecule import Molecule
from ele_graphs.molecules.rdkit_adapter import largest_valence
from ele_graphs.molecules.reader import read_many
from ele_graphs.molecules.space import MoleculeSpace

CHARGED = [
    "C[N+](=O)[O-]",
    "C[NH3+]",
    "CC(=O)[O-]",
    "C[n+]1ccccc1",
    "c1cc[o+]cc1",
    "[NH3+]CC(=O)[O-]",
    "F[B-](F)(F)F",
    "C[S+](C)C",
    "C[P+](C)(C)C",
    "[C-]#[O+]",
    "[O-][Cl+3]([O-])([O-])O",
    "[Cl-]",
    "[Fe+2]",
    "c1cc[nH]c1",
    "C[PH](=O)O",
]


def inferred(*smiles: str, **options: object) -> MoleculeSpace:
    return MoleculeSpace(MoleculeSpace.infer(smiles, options))


@pytest.mark.parametrize("label", ["C", "N+", "O-", "Fe+2", "S-2", "Cl+3", "Na+"])
def test_a_label_is_an_element_and_a_charge(label: str) -> None:
    assert atom_label(element_of(label), charge_of(label)) == label


def test_charged_molecules_come_back_as_they_went_in() -> None:
    space = inferred(*CHARGED)
    molecules = space.unpack(space.pack(CHARGED))
    assert molecules == [Molecule.from_smiles(text) for text in CHARGED]
    wanted = [Chem.MolToSmiles(Chem.MolFromSmiles(text)) for text in CHARGED]
    assert [molecule.smiles for molecule in molecules] == wanted
    assert [space.parse(space.format(molecule)) for molecule in molecules] == molecules
    assert space.unpack(space.pack([molecule.to_rdkit() for molecule in molecules])) == molecules


def test_inferred_elements_hold_the_charges_of_the_data_after_all_elements() -> None:
    config = MoleculeSpace.infer(["C[N+](=O)[O-]", "CSBr", "[Fe+2]"], {})
    assert config.elements == ("C", "O", "Br", "S", "Fe+2", "N+", "O-")
    assert config.charges == "labels"
    assert MoleculeSpace.infer(["CC"], {"elements": ["C", "O-"]}).charges == "labels"


def test_charges_are_dropped_by_default_and_with_given_elements() -> None:
    for space in (MoleculeSpace(), inferred("C[NH3+]", elements=["C", "N", "O"]), inferred("C[NH3+]", charges=None)):
        assert space.config.charges is None
        assert [molecule.smiles for molecule in space.unpack(space.pack(["C[NH3+]", "[13CH3]N", "[CH2]N"]))] == [
            "CN"
        ] * 3
    assert MoleculeSpace().unpack(MoleculeSpace().pack(["C[N+](=O)[O-]"]))[0].atoms == ("C", "N", "O", "O")


def test_molecules_with_and_without_charges_are_cached_apart(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("ELE_CACHE", str(tmp_path))
    source = sources.Source("own", "0" * 64, 2, lambda: ["C[NH3+]", "CO"])
    space = MoleculeSpace()
    found = sources.load(source, space.limits(min_atoms=2), Context())
    assert [molecule.smiles for molecule in space.unpack(found.graphs[:])] == ["CN", "CO"]
    labels = inferred("C[NH3+]", "CO", max_atoms=9)
    charged = sources.load(source, labels.limits(min_atoms=2), Context())
    assert charged.folder != found.folder
    assert [molecule.smiles for molecule in labels.unpack(charged.graphs[:])] == ["C[NH3+]", "CO"]


def test_reading_into_arrays_refuses_what_the_space_refuses() -> None:
    texts = ["C[NH3+]", "C[13CH3]", "CC[O-]"]
    (block,) = read_many(texts, inferred("C[NH3+]", "CO", max_atoms=9).limits())
    assert block.rows == [0]
    assert [reason for *_, reason in block.rejected] == [
        "isotope 13C at atom 2: isotopes are not supported",
        "charge O- is not one of C O N+",
    ]


@pytest.mark.parametrize(
    ("label", "bonds"),
    [
        *[("C", 4), ("N", 3), ("N+", 4), ("O+", 3), ("O-", 1), ("C-", 3), ("C+", 3), ("N-", 2), ("B-", 4), ("P+", 4)],
        *[("S", 6), ("S+", 5), ("Cl-", 0), ("Br-", 0), ("F-", 0), ("O-2", 0), ("Si", 4), ("Fe+2", 8)],
    ],
)
def test_a_label_has_as_many_bonds_as_rdkit_accepts(label: str, bonds: int) -> None:
    assert largest_valence(label) == bonds


def test_neutral_elements_have_the_bonds_of_the_periodic_table() -> None:
    table = Chem.GetPeriodicTable()
    for symbol in map(table.GetElementSymbol, range(1, 119)):
        valences = table.GetValenceList(symbol)
        assert largest_valence(symbol) == (8 if -1 in valences else max(valences))


def test_search_reaches_charges_and_stays_with_valid_molecules() -> None:
    space = inferred("C[N+](=O)[O-]", "CN(O)O", "[Cl-]", max_atoms=5)
    moved, _ = space.moves.neighbours(space.pack(["CN(O)O", "C[N+](=O)[O-]", "C[NH2+]C"]))
    molecules = space.unpack(moved)
    assert all(molecule.valid for molecule in molecules)
    assert {"C[NH+](O)O", "CN([O-])O", "C[N+](=O)O"} <= {molecule.smiles for molecule in molecules}


def test_any_point_unrelaxes_to_a_valid_molecule_with_charges() -> None:
    space = inferred(*CHARGED[:7], "CC#N", "CCO", max_atoms=7)
    generator = torch.Generator().manual_seed(0)
    point = space.relax(space.pack(["C"] * 50))
    point = space.project(point.map(lambda part: torch.randn(part.shape, generator=generator)))
    assert all(molecule.valid for molecule in space.unpack(space.unrelax(point)))


@pytest.mark.parametrize(
    ("smiles", "reason"),
    [
        ("CC[N-]C", "charge N- is not one of C N O N\\+ O-"),
        ("C[Br+]C", "element Br is not one of C N O N\\+ O-"),
        ("OC[13CH3]", "isotope 13C at atom 3: isotopes"),
        ("[2H]OC", "isotope 2H at atom 1: isotopes"),
        ("CC(C)[O]", "radical at atom 4 \\(O\\): radicals"),
        ("[PH5]", "5 hydrogens at atom 1 \\(P\\): its bonds and charge imply 3"),
        ("[H][H]", "hydrogen that is not bound to one heavy atom"),
        ("[H+]", "hydrogen that is not bound to one heavy atom"),
        ("C[*+]", "dummy atom"),
        ("[NH3]->[Fe]", "bond dative is not one of"),
        ("C[NH3+].[Cl-]", "2 fragments, one expected"),
    ],
)
def test_what_a_space_with_charges_does_not_hold_is_refused_by_name(smiles: str, reason: str) -> None:
    space = inferred("C[N+](=O)[O-]", "NO", max_atoms=9)
    with pytest.raises(InvalidOutput, match=reason) as error:
        space.pack(["CC", smiles])
    assert error.value.index == 1
    assert str(error.value).count("\n") == 0


def test_what_is_refused_adds_no_element() -> None:
    assert MoleculeSpace.infer(["CC", "C[13CH2]Br", "C[S]"], {}).elements == ("C",)


def test_hydrogens_of_an_rdkit_molecule_are_left_out() -> None:
    molecule = Chem.AddHs(Chem.MolFromSmiles("C[NH3+]"))
    assert Molecule.from_rdkit(molecule) == Molecule.from_smiles("C[NH3+]")
    assert Molecule.from_rdkit(molecule).unusual == ()


def test_configurations_with_charges_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match=r"N\+ among the elements: this needs charges = .labels."):
        MoleculeSpace.Config(elements=("C", "N+"))
    for label in ("N++", "N+1", "N+-", "N2", "N+16", "Xx+"):
        with pytest.raises(ValueError, match=r"not chemical elements: .*write charges as in"):
            MoleculeSpace.Config(elements=("C", label), charges="labels")


def test_a_graph_with_charges_that_is_no_molecule_is_kept_as_json() -> None:
    invalid = Molecule(("C", "O-"), ((0, 1, "double"),))
    assert not invalid.valid
    text = MoleculeSpace.format(invalid)
    assert text == '{"nodes":["C","O-"],"edges":[[0,1,"double"]]}'
    assert MoleculeSpace.parse(text) == invalid
    for label in ("O--", "O1", "O+1", "O+999"):
        with pytest.raises(InvalidOutput, match="not a graph of atoms and bonds"):
            MoleculeSpace.parse(f'{{"nodes":["C","{label}"],"edges":[]}}')


def test_charges_are_not_guessed_if_atoms_have_some() -> None:
    nitro = Molecule.from_smiles("C[N+](=O)[O-]")
    assert Molecule(("C", "N", "O", "O-"), nitro.bonds).smiles is None
    assert nitro.without_charges().smiles == nitro.smiles


def test_graphs_pictures_and_properties_show_charges() -> None:
    ammonium, amine = Molecule.from_smiles("CC[NH3+]"), Molecule.from_smiles("CCN")
    assert [label for _, label in ammonium.to_networkx().nodes(data="label")] == list(ammonium.atoms)
    assert "N+" in ammonium.atoms
    assert ammonium.to_svg() != amine.to_svg()
    assert "#FFBC59" in ammonium.to_svg(amine)
    assert "#FFBC59" not in ammonium.to_svg(ammonium)
    space = inferred("[CH3-]", "C[NH3+]", "[CH2+]C[O-]")
    assert space.show.properties(space.pack(["[CH3-]", "C[NH3+]", "[CH2+]C[O-]"]))["hetero_atoms"].tolist() == [0, 1, 1]


def test_a_space_with_charges_keeps_the_laws_of_output_spaces() -> None:
    space = inferred(*CHARGED[:3], "CCO", "C#N", max_atoms=5)
    assert any("N+" in molecule.atoms for molecule in space.examples())
    assert [result for result in check_output_space(space) if not result.ok] == []
