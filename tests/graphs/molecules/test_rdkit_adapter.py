"""SMILES to atoms and bonds and back: a reason for each refusal, an honest answer for graphs that are no molecules."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from itertools import pairwise

import pytest

from ele_core.errors import InvalidOutput
from ele_graphs.molecules import rdkit_adapter
from ele_graphs.molecules.molecule import Molecule
from ele_graphs.molecules.rdkit_adapter import Limits, UnreadableMolecule, canonical_smiles, compact, read, short_path

LIMITS = Limits(("C", "N", "O", "F"), ("single", "double", "triple"), max_atoms=9, min_atoms=2)

REFUSED = {
    "": "empty SMILES",
    "   ": "empty SMILES",
    "C(": "not a SMILES",
    "C1CC": "not a SMILES",
    "🙂": "not a SMILES",
    "C\ud800": "not a SMILES",
    "[13CH44444]": "not a molecule that RDKit accepts",
    "CC(C)(C)(C)C": "valence for atom # 1 C, 5",
    "c1cccc1": "kekulize",
    "CCCCCCCCCC": "10 atoms, more than max_atoms = 9",
    "CC.CC": "2 fragments, one expected",
    "CCCl": "element Cl is not one of C N O F",
    "[Na]C": "element Na",
    "*C": "dummy atom",
    "FC1~CC1": "bond unspecified is not one of single double triple",
    "C$C": "bond quadruple is not one of single double triple",
    "C": "1 atom only",
}


@pytest.mark.parametrize("smiles", REFUSED)
def test_what_cannot_be_used_is_refused_with_a_reason(smiles: str) -> None:
    with pytest.raises(UnreadableMolecule, match=REFUSED[smiles]):
        read(smiles, LIMITS)


HUGE = 100_000
GIANTS = {
    "rings": "c1ccccc1" * (HUGE // 6),
    "small rings": "C1CC1" * (HUGE // 3),
    "double bonds": "C=C" * (HUGE // 2),
    "branches": "C(F)" * (HUGE // 2),
    "stereo centres": "[C@H](F)" * (HUGE // 2),
    "charges": "[N+](C)(C)" * (HUGE // 3),
    "fragments": ".".join("C" * HUGE),
    "hydrogens": "[H]" * HUGE,
}


@pytest.mark.parametrize("name", GIANTS)
def test_a_molecule_of_a_hundred_thousand_atoms_is_refused_before_rdkit_reads_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rdkit_adapter.Chem, "MolFromSmiles", lambda *_, **__: pytest.fail("RDKit reads it"))
    for use in (read, lambda text: read(text, largest=True), lambda text: rdkit_adapter.morgan(text, 2, 64)):
        with pytest.raises(UnreadableMolecule, match=r"atoms, more than 10000?$|with hydrogens, more than"):
            use(GIANTS[name])


def test_a_long_text_of_a_small_molecule_is_read() -> None:
    written_out = "[13CH:1234](-[H])" * 60
    assert len(written_out) > rdkit_adapter.LARGEST
    assert len(read(written_out).atoms) == 60
    assert read(f"C {'name' * 1000}").atoms == ("C",)


def test_reading_is_canonical_kekulized_and_without_hydrogens_and_stereo() -> None:
    reading = read("[H]OC1=CC=C(C)C=C1")
    assert reading.smiles == "Cc1ccc(O)cc1"
    assert sorted(bond for *_, bond in reading.bonds) == ["double"] * 3 + ["single"] * 5
    assert read("C[C@H](O)F") == read("C[C@@H](F)O") == read("FC(C)O")


@pytest.mark.parametrize(
    "smiles",
    [
        "C",
        "CCO",
        "c1ccccc1",
        "c1cc[nH]c1",
        "C#CC(=O)N1CC1",
        "FC(F)(F)F",
        "C[N+](=O)[O-]",
        "[C-]#[N+]C",
        "[N-]=[N+]=N",
        "[O-][n+]1ccccc1",
        "[C-]#[O+]",
        "C[N+](C)(C)CC(=O)[O-]",
    ],
)
def test_graphs_go_back_to_their_smiles_with_charges_where_valence_needs_them(smiles: str) -> None:
    molecule = Molecule.from_smiles(smiles)
    for graph in (molecule, molecule.without_charges()):
        assert graph.valid
        assert graph.smiles == read(smiles).smiles
        assert Molecule.from_rdkit(graph.to_rdkit()) == molecule


@pytest.mark.parametrize(
    ("atoms", "bonds"),
    [
        (("C", "F"), ((0, 1, "double"),)),
        (("C", "O"), ()),
        ((), ()),
        (("C",) * 6, tuple((0, i, "single") for i in range(1, 6))),
    ],
)
def test_a_graph_that_is_no_molecule_is_kept_and_flagged(
    atoms: tuple[str, ...], bonds: tuple[tuple[int, int, str], ...]
) -> None:
    molecule = Molecule(atoms, bonds)
    assert not molecule.valid
    assert molecule.smiles is None is canonical_smiles(atoms, bonds)
    assert "not a valid molecule" in str(molecule)
    assert molecule.to_networkx().number_of_edges() == len(bonds)
    assert "<svg" in molecule.to_svg()


def test_zwitterions_without_charges_are_the_neutral_molecule_with_the_same_graph() -> None:
    molecule = Molecule.from_smiles("[NH3+]CC(=O)[O-]")
    assert sorted(molecule.atoms) == ["C", "C", "N+", "O", "O-"]
    assert molecule.smiles == "[NH3+]CC(=O)[O-]"
    assert molecule.without_charges().smiles == "NCC(=O)O"
    assert molecule.without_charges() == Molecule.from_smiles("NCC(=O)O")


@pytest.mark.parametrize("charges", [False, True])
@pytest.mark.parametrize("smiles", ["c1ccc2[nH]ccc2c1", "CC(=O)[O-]", "[CH2]C", "[13CH4]", "O=c1cc[nH]cc1"])
def test_a_canonical_text_is_parsed_once_and_read_alike(smiles: str, charges: bool, monkeypatch) -> None:
    parse, limits, parsed = rdkit_adapter.Chem.MolFromSmiles, Limits(charges=charges), []
    own = rdkit_adapter.Chem.MolToSmiles(parse(smiles), isomericSmiles=False)
    twice = read(f"{own} and its name", limits)
    monkeypatch.setattr(rdkit_adapter.Chem, "MolFromSmiles", lambda text: parsed.append(text) or parse(text))
    once = read(own, limits)
    assert (once, once.dropped, once.unusual) == (twice, twice.dropped, twice.unusual)
    assert parsed == [own]


@pytest.mark.parametrize(
    "smiles",
    [
        "c1ccc2cc3ccccc3cc2c1",
        "Cn1cnc2c1c(=O)n(C)c(=O)n2C",
        "O=c1ccc2ccccc2o1",
        "c1cc2cccc3ccc4cccc1c4c32",
        "c1cnoc1-c1ncco1",
        "Brc1ccc(Cl)s1",
        "C1=CC2=CC=CC=C2N=C1",
        "OB(O)c1ccccc1",
    ],
)
def test_a_text_in_any_order_is_read_as_its_canonical_one(smiles: str) -> None:
    canonical = read(smiles).smiles
    expected = read(canonical)  # is sanitised
    for seed in range(1, 9):
        text = rdkit_adapter.rewritten(smiles, seed)
        assert text is not None
        assert read(text) == expected  # is not sanitised a second time


def test_molecules_are_hashable_values() -> None:
    assert {Molecule.from_smiles("OCC"), Molecule.from_smiles("CCO")} == {Molecule.from_smiles("C(C)O")}


def test_a_bad_smiles_is_an_invalid_output() -> None:
    with pytest.raises(InvalidOutput, match="not a SMILES"):
        Molecule.from_smiles("CC(")


def test_differences_from_a_reference_are_highlighted() -> None:
    molecule = Molecule.from_smiles("CCO")
    plain, same, other = (molecule.to_svg(m) for m in (None, molecule, Molecule.from_smiles("CCN")))
    assert plain == same == molecule._repr_svg_()
    assert len(other) > len(plain)
    assert "<svg" in molecule.to_svg(Molecule(("F", "F"), ()))


def test_rdkit_is_loaded_by_whoever_uses_it_only() -> None:
    code = (
        "import sys, ele_graphs.plugin, ele_graphs.molecules.space, ele_graphs.smi2mol.task, ele_graphs.rgcn\n"
        "ele_graphs.molecules.space.MoleculeSpace()\n"
        "assert 'rdkit' not in sys.modules and 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_package_itself_imports_neither_torch_nor_rdkit() -> None:
    code = "import sys, ele_graphs; assert not {'torch', 'rdkit', 'networkx'} & set(sys.modules); ele_graphs.Molecule"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_equal_molecules_lie_alike_whatever_the_order_of_their_atoms() -> None:
    first = Molecule.from_smiles("OCCC1CC1C=O")
    last = len(first.atoms) - 1
    bonds = tuple(sorted((last - j, last - i, bond) for i, j, bond in first.bonds))
    second = Molecule(first.atoms[::-1], bonds)

    def far(svg: str) -> float:
        """How far the ends of lines are from those of the first picture."""
        return float(max(min(abs(p - q) for q in places(first.to_svg())) for p in places(svg)))

    assert far(second.to_svg(first)) < 2 < far(second.to_svg())


def places(svg: str) -> list[complex]:
    """The ends of all lines."""
    return [end for line in lines_of(svg) for end in line]


def lines_of(svg: str) -> list[tuple[complex, complex]]:
    """The ends of each line that is no outline or corner: M and l, once."""
    found = [tuple(map(float, ends)) for ends in LINE.findall(svg)]
    return [(complex(x, y), complex(x + dx, y + dy)) for x, y, dx, dy in found]


LINE = re.compile(r"M([\d.]+) ([\d.]+)l(-?[\d.]+) ?(-?[\d.]+)(?=[M\"])")


DRUGS = (
    "COc1ccc(-c2cc(=O)c3c(O)c(OC)c(OC)cc3o2)cc1OC",
    "CC1C2CCC(C2)C1CN(CCO)C(=O)c1ccc(Cl)cc1CCN",
    "Cc1cc(C(=O)Nc2ccc3c(c2)OCCO3)c2cnn(C(C)C)c2n1",
    "O=C(Nc1ccc(S(=O)(=O)N2CCCCC2)cc1)c1cc2ccccc2o1",
)


def test_pictures_do_not_depend_on_the_clock(monkeypatch) -> None:
    drug, other = map(Molecule.from_smiles, DRUGS[:2])
    picture = drug.to_svg(other)
    stop = rdkit_adapter._StopAfterSteps.__call__

    def slowly(self, *arguments):
        time.sleep(0.01)
        return stop(self, *arguments)

    monkeypatch.setattr(rdkit_adapter._StopAfterSteps, "__call__", slowly)
    started = time.monotonic()
    assert drug.to_svg(other) == picture
    assert time.monotonic() - started > 0.5, "slow enough for a limit in seconds to show"


def test_the_search_for_a_common_part_ends_after_some_steps(monkeypatch) -> None:
    calls = []
    stop = rdkit_adapter._StopAfterSteps.__call__
    monkeypatch.setattr(rdkit_adapter, "STEPS", 20)
    monkeypatch.setattr(rdkit_adapter._StopAfterSteps, "__call__", lambda self, *_: calls.append(1) or stop(self))
    assert "<svg" in Molecule.from_smiles(DRUGS[0]).to_svg(Molecule.from_smiles(DRUGS[1]))
    assert len(calls) == 20


def test_one_wrong_atom_in_the_middle_of_a_drug_is_marked_alone() -> None:
    truth, wrong = map(Molecule.from_smiles, ("CCCCc1ccc(CNCCCC2CCOCC2)cc1", "CCCCc1ccc(COCCCC2CCOCC2)cc1"))
    assert wrong.to_svg(truth).count("<ellipse") == 1
    here, there = places(wrong.to_svg(truth)), places(truth.to_svg())
    assert max(min(abs(p - q) for q in there) for p in here) < 6, "all else is in its place"


def test_pictures_of_drugs_are_short_and_rings_have_double_bonds() -> None:
    for smiles, other in pairwise(DRUGS):
        truth, prediction = Molecule.from_smiles(smiles), Molecule.from_smiles(other)
        pair = truth.to_svg(), prediction.to_svg(truth)
        assert "dasharray" not in "".join(pair)
        assert sum(map(len, pair)) < 12_000
        assert len(pair[0]) < 4_500


def test_pictures_hold_nothing_that_does_not_show() -> None:
    svg = Molecule.from_smiles("CCO").to_svg(Molecule.from_smiles("CCN"))
    assert svg.startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    assert not re.search(r"<!--|class=|xmlns:|\n|stroke-linejoin:miter", svg)
    assert "#FFBC59" in svg


def test_a_shorter_picture_keeps_what_shows() -> None:
    drawing = (
        "<?xml version='1.0' encoding='iso-8859-1'?>\n<svg version='1.1' xmlns='http://www.w3.org/2000/svg'\n"
        " xmlns:rdkit='http://www.rdkit.org/xml' xml:space='preserve' width='9px'>\n<!-- END OF HEADER -->\n"
        "<path class='atom-0' d='M 1 2\nL 3 4\n' style='fill:none;stroke-opacity:0.5;stroke-linecap:butt;' />\n"
        "<text class='a' fill='#000000'> A &lt; B </text></svg>\n"
    )
    path = '<path d="M1 2l2 2" style="fill:none;stroke-opacity:0.5"/>'
    body = f'{path}<text fill="#000000">A &lt; B</text>'
    assert compact(drawing) == f'<svg xmlns="http://www.w3.org/2000/svg" width="9px">{body}</svg>'


def test_lines_of_one_style_become_one_path_and_shapes_stay_apart() -> None:
    line = "<path d='M {}.0,2.5 L 3.0,-4.1 L 5,6' style='fill:none;fill-rule:evenodd;stroke:#000000' />"
    area = "<path d='M {},2 L 3,4 Z' style='fill:#FFBC59;fill-rule:evenodd;stroke:#FFBC59;stroke-width:0.0px' />"
    body = "".join([line.format(1), line.format(9), area.format(1), area.format(9), line.format(7)])
    style = 'style="fill:none;stroke:#000000"'
    lines, last = (
        f'<path d="M1 2.5l2-6.6 2 10.1M9 2.5l-6-6.6 2 10.1" {style}/>',
        f'<path d="M7 2.5l-4-6.6 2 10.1" {style}/>',
    )
    areas = "".join(f'<path d="{path}z" style="fill:#FFBC59;fill-rule:evenodd"/>' for path in ("M1 2l2 2", "M9 2l-6 2"))
    start = '<svg xmlns="http://www.w3.org/2000/svg">'
    assert compact(f"{start}{body}</svg>") == f"{start}{lines}{areas}{last}</svg>"


@pytest.mark.parametrize(
    ("smiles", "against"),
    [("CC1CCCCOO1", "CC1OCCCCO1"), ("CCCCCCCCO", "CCCCCCCN"), ("CCO", "CCCCCCN"), ("CCCCCCCN", "CCO")],
)
def test_a_molecule_is_drawn_at_the_scale_of_the_one_it_is_compared_with(smiles, against) -> None:
    molecule, reference = Molecule.from_smiles(smiles), Molecule.from_smiles(against)
    assert max(lengths(molecule.to_svg(reference))) == pytest.approx(max(lengths(reference.to_svg())), rel=0.02)


def test_what_two_molecules_share_is_in_the_same_place() -> None:
    molecule, reference = Molecule.from_smiles("CC(C)(C)C1CC1"), Molecule.from_smiles("CCC(C)(C)C1CC1C")
    shared, there = places(molecule.to_svg(reference)), places(reference.to_svg())
    assert all(min(abs(p - q) for q in there) < 3 for p in shared)


@pytest.mark.parametrize(("smiles", "against"), [("C1CCCCCCC1", "CCCCCCCC"), ("CC1(C)CC1", "CC1(C)CCC1")])
def test_a_ring_is_not_drawn_on_what_is_no_ring(smiles, against) -> None:
    found = lengths(Molecule.from_smiles(smiles).to_svg(Molecule.from_smiles(against)))
    assert max(found) < 1.3 * min(found)


def lengths(svg: str) -> list[float]:
    """The lengths of the black lines between two ends: bonds between atoms without symbols."""
    black = re.findall(r'd="[^"]+" style="fill:none;stroke:#000000', svg)
    return [abs(one - other) for one, other in lines_of("".join(black))]


@pytest.mark.parametrize(
    ("path", "short"),
    [
        ("M 1.0,2.0 L 3.5,4.0", "M1 2l2.5 2"),
        ("M 1,2 L 3,4 5,5 L 5.1,5.2 Z", "M1 2l2 2 2 1 0.1 0.2z"),
        ("M 1,2 Q 3,4, 5,6 Q 7,8 9.5,9", "M1 2q2 2 4 4 2 2 4.5 3"),
        ("M 1,2 A 3,4 0 0 1 5,6", "M 1,2 A 3,4 0 0 1 5,6"),
    ],
)
def test_a_path_is_written_shorter_and_goes_the_same_way(path, short) -> None:
    assert short_path(path) == short
