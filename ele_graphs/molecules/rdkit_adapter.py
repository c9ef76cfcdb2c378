"""The only module that imports rdkit: SMILES to atoms and bonds, back to molecules, and drawings.

It imports neither torch nor ele_core, so the workers of `reader` start fast.
A molecule is its atoms, with or without their charges, and its bonds; hydrogens, stereo, isotopes and radicals are left
out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import eq
from typing import Any, BinaryIO
from xml.etree import ElementTree

import numpy as np

try:
    import rdkit
except ModuleNotFoundError as error:
    from ele_core.extras import how_to_install

    what = f"molecules need RDKit, which is not installed. {how_to_install('molecules')}"
    raise ModuleNotFoundError(what) from error
from rdkit import Chem, rdBase
from rdkit.Chem import rdDepictor, rdFingerprintGenerator, rdFMCS, rdMolAlign
from rdkit.Chem.Draw import rdMolDraw2D
from rdkit.Geometry import Point2D

from ele_graphs.molecules.labels import atom_label, charge_of, element_of, neutral, not_among

VERSION = rdkit.__version__
BOND_TYPES = {
    "single": Chem.BondType.SINGLE,
    "double": Chem.BondType.DOUBLE,
    "triple": Chem.BondType.TRIPLE,
    "quadruple": Chem.BondType.QUADRUPLE,
}
NO_STEREO = (Chem.BondStereo.STEREONONE, Chem.BondStereo.STEREOANY)
LARGEST = 1000
"""Maximum number of heavy atoms that are read: writing a canonical SMILES takes quadratic time."""
ATOM = re.compile(r"\[[^\]]*\]|Br|Cl|[BCNOPSFIbcnops*]")
"""An atom of a SMILES."""
NOT_PLAIN = "[/\\ \t|"
"""Signs of a SMILES that may tell more than atoms and bonds."""
HYDROGEN = re.compile(r"\[\d*H\d*[+-]?\d*(:\d+)?\]")
"""A hydrogen of a SMILES."""
HIGHLIGHT = (1.0, 0.74, 0.35)
"""Orange: different from the colours of all elements, also for people with red-green blindness."""
LABEL, ROOM, SMALLEST = 0.7, 0.9, 4.5
"""In ångström: the space that the symbol of an atom needs, the space around a molecule, and the smallest picture."""
WIDEST = 2.5
"""How many times wider or higher a picture may be than asked for, to be at the scale of another one."""
STEPS = 5_000
"""Maximum number of steps of the search for the common part of two molecules; most drugs need some hundreds."""
LEAST_APART, BOND = 0.6, (1.0, 1.9)
"""How far apart two atoms of a readable picture are at least, and how long its bonds are; RDKit draws bonds of 1.5."""
Pair = tuple[int, int]
"""An atom of a molecule and the atom of a reference that it is paired with."""
_BOND_NAMES = {kind: name for name, kind in BOND_TYPES.items()}

MOST_BONDS = 8
"""The capacity of an atom whose number of bonds RDKit does not limit."""

Atoms = tuple[str, ...]
"""Elements, with their charges as a suffix: see `labels`."""
Bonds = tuple[tuple[int, int, str], ...]
"""Triples of atom, atom, bond name, the lower atom first, sorted."""


NOT_ATOMS_AND_BONDS = (RuntimeError, KeyError, ValueError)
"""What `assemble` raises: no such element, charge or bond, or an atom bound to itself."""


class UnreadableMolecule(ValueError):
    """A SMILES or molecule that is refused; the message is the reason."""


@dataclass(frozen=True)
class Limits:
    """The allowed elements, bonds and sizes; None allows anything that RDKit knows."""

    elements: Collection[str] | None = None
    bonds: Collection[str] | None = None
    max_atoms: int | None = None
    min_atoms: int = 1
    charges: bool = False
    """Whether atoms keep their charges; otherwise these are dropped."""


@dataclass(frozen=True)
class Reading:
    """A molecule that was read: canonical SMILES without stereo, and the kekulized graph in its order."""

    smiles: str
    atoms: Atoms
    bonds: Bonds
    dropped: tuple[str, ...] = field(default=(), compare=False)
    """What the graph does not hold of it, beside charges: see `_dropped`."""
    unusual: tuple[str, ...] = field(default=(), compare=False)
    """If charges are kept, what does not come back from the graph, each by name and place: see `_unusual`."""


def read(smiles: str, limits: Limits = Limits(), *, largest: bool = False) -> Reading:  # noqa: B008  # frozen
    """Parse, write canonically without stereo, parse again, kekulize, drop hydrogens. Raises `UnreadableMolecule`.

    largest: of several fragments read the largest; by default they are refused.
    """
    text = smiles.strip() if isinstance(smiles, str) else ""
    if not text:
        raise UnreadableMolecule("empty SMILES")
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode()  # half of a pair of surrogates, which RDKit cannot take
    _check_length(text, 10 * LARGEST if largest else LARGEST)
    with quiet():
        molecule = Chem.MolFromSmiles(text)
        if molecule is None:
            raise UnreadableMolecule(_why_not(text))
        return read_molecule(molecule, limits, largest=largest, text=text)


@dataclass(frozen=True)
class SdfRecord:
    """One molecule of an SDF file; `smiles` is None if RDKit cannot read the structure."""

    title: str
    fields: dict[str, str]
    smiles: str | None


def sdf_records(stream: BinaryIO) -> Iterator[SdfRecord]:
    """Read the molecules of an SDF file one after the other."""
    lines: list[str] = []
    for raw in stream:
        line = raw.decode("utf-8", errors="replace").replace("\r\n", "\n")
        if line.startswith("$$$$"):
            yield sdf_record("".join(lines))
            lines = []
        else:
            lines.append(line)
    if any("M  END" in line for line in lines):  # the last molecule without its end
        yield sdf_record("".join(lines))


def sdf_record(text: str) -> SdfRecord:
    """Read one molecule: a molfile, then `>  <name>` lines, each with the lines of its value up to an empty one."""
    structure, _, data = text.partition("M  END")
    parts = re.split(r"^>.*?<([^>]*)>.*$", data, flags=re.MULTILINE)
    fields = {name: value.strip() for name, value in zip(parts[1::2], parts[2::2], strict=True)}
    with quiet():
        molecule = Chem.MolFromMolBlock(f"{structure}M  END\n")
        smiles = None if molecule is None else Chem.MolToSmiles(molecule)
    return SdfRecord(structure.partition("\n")[0].strip(), fields, smiles)


def rewritten(smiles: str, seed: int) -> str | None:
    """Write the same molecule with its atoms in a random order; None if it cannot be read."""
    with quiet():
        molecule = Chem.MolFromSmiles(smiles)
        return None if molecule is None else str(Chem.MolToRandomSmilesVect(molecule, 1, randomSeed=seed)[0])


def morgan(smiles: str, radius: int, bits: int) -> dict[int, int]:
    """The Morgan fingerprint of a SMILES: how often each of `bits` bits occurs. Raises `UnreadableMolecule`."""
    smiles = smiles.encode("utf-8", "replace").decode()  # as in `read`
    _check_length(smiles, LARGEST)
    with quiet():
        molecule = Chem.MolFromSmiles(smiles.strip())
        if molecule is None or not molecule.GetNumAtoms():
            raise UnreadableMolecule(_why_not(smiles) if smiles.strip() else "empty SMILES")
        counts: dict[int, int] = _morgan_generator(radius, bits).GetCountFingerprint(molecule).GetNonzeroElements()
    return counts


def morgan_bits(atoms: Sequence[str], bonds: Sequence[tuple[int, int, str]], radius: int, bits: int) -> frozenset[int]:
    """The bits of the Morgan fingerprint of a graph; none if it is not a valid molecule."""
    molecule = build(atoms, bonds)
    if molecule is None:
        return frozenset()
    with quiet():
        return frozenset(_morgan_generator(radius, bits).GetFingerprint(molecule).GetOnBits())


@lru_cache
def _morgan_generator(radius: int, bits: int) -> Any:
    return rdFingerprintGenerator.GetMorganGenerator(radius=radius, fpSize=bits)


def read_molecule(
    molecule: Chem.Mol,
    limits: Limits = Limits(),  # noqa: B008  # frozen
    *,
    largest: bool = False,
    text: str = "",
) -> Reading:
    """Read an RDKit molecule as `read` does a SMILES; `text` is the SMILES that it was parsed from."""
    with quiet():
        if largest and len(fragments := Chem.GetMolFrags(molecule, asMols=True)) > 1:
            reading = read_molecule(max(fragments, key=_size), limits)
            return replace(reading, dropped=("fragments", *reading.dropped))
        if molecule.GetNumHeavyAtoms() > LARGEST:
            raise UnreadableMolecule(f"{count_atoms(molecule.GetNumHeavyAtoms())}, more than {LARGEST}")
        canonical = Chem.MolToSmiles(molecule, isomericSmiles=False)
        _check_size(canonical, molecule, limits)
        if "~" in canonical:  # where it closes a ring, RDKit reads a single bond in its own canonical form
            raise UnreadableMolecule(f"bond unspecified is not one of {' '.join(limits.bonds or BOND_TYPES)}")
        again = _kekulized_again(molecule, canonical, text)
        plain = "[" not in canonical  # no charges, isotopes, radicals and hydrogens, and atoms are single words
        labels = _plain_labels(canonical) if plain else _labels(again)
        if len(labels) < limits.min_atoms:
            raise UnreadableMolecule(f"{count_atoms(len(labels))} only, fewer than {limits.min_atoms}")
        atoms = labels if limits.charges else neutral(labels)
        _check_elements(atoms, limits)
        bonds = _bonds(again, limits)
        unusual = _unusual(molecule, again, atoms, bonds) if limits.charges and not (plain and _is_plain(text)) else ()
        return Reading(canonical, atoms, bonds, () if _is_plain(text) else _dropped(molecule), unusual)


def _kekulized_again(molecule: Chem.Mol, canonical: str, text: str) -> Chem.Mol:
    """The molecule with its atoms in the order of its canonical SMILES, and with double bonds in aromatic rings.

    Without brackets its atoms and bonds are all that is asked of it: then it need not be sanitised a second time.
    """
    if text == canonical:
        return _kekulized(Chem.Mol(molecule))
    if "[" not in canonical and (unchecked := _kekulized_unchecked(canonical)) is not None:
        return unchecked
    again = Chem.MolFromSmiles(canonical)
    if again is None:
        raise UnreadableMolecule(f"RDKit cannot read its own canonical form {canonical}: {_why_not(canonical)}")
    return _kekulized(again)


def _kekulized_unchecked(smiles: str) -> Chem.Mol | None:
    """A molecule that is not sanitised, with double bonds in aromatic rings; None if there is no way to place them."""
    molecule = Chem.MolFromSmiles(smiles, sanitize=False)
    try:
        return _kekulized(molecule)
    except Chem.KekulizeException:
        return None


def _is_plain(text: str) -> bool:
    """Whether a SMILES tells nothing beside atoms and bonds: no stereo, isotope, radical, charge, name or extension."""
    return bool(text) and not any(sign in text for sign in NOT_PLAIN)


def _labels(molecule: Chem.Mol) -> Atoms:
    return tuple(atom_label(atom.GetSymbol(), atom.GetFormalCharge()) for atom in _atoms(molecule))


def _plain_labels(smiles: str) -> Atoms:
    """The labels of the atoms of a SMILES without brackets."""
    return tuple(map(str.capitalize, ATOM.findall(smiles)))


def build(atoms: Sequence[str], bonds: Sequence[tuple[int, int, str]]) -> Chem.Mol | None:
    """Build a sanitised molecule; None if it is not connected or has valences that no charge explains.

    The charges are those of the labels. Only if no atom has one and the neutral molecule is not valid, N of valence 4
    and O of valence 3 become positive and another atom negative for each, a neighbour if possible (see `_donor`), as in
    nitro groups, N-oxides, isocyanides, azides and zwitterions.
    """
    with quiet():
        try:
            molecule = assemble(atoms, bonds)
        except NOT_ATOMS_AND_BONDS:
            return None
        if not atoms or len(Chem.GetMolFrags(molecule)) > 1:
            return None
        if _sanitised(molecule):
            return molecule
        if neutral(atoms) != tuple(atoms):
            return None
        molecule = assemble(atoms, bonds)
        _charge(molecule)
        return molecule if _sanitised(molecule) else None


def assemble(atoms: Sequence[str], bonds: Sequence[tuple[int, int, str]]) -> Chem.Mol:
    """Build a molecule without sanitising it: enough for drawing, whatever the valences."""
    molecule = Chem.RWMol()
    for label in atoms:
        atom = Chem.Atom(element_of(label))
        atom.SetFormalCharge(charge_of(label))
        molecule.AddAtom(atom)
    for i, j, name in bonds:
        molecule.AddBond(i, j, BOND_TYPES[name])
    return molecule.GetMol()


def canonical_smiles(atoms: Sequence[str], bonds: Sequence[tuple[int, int, str]]) -> str | None:
    """The canonical SMILES of a graph, or None if it is not a valid molecule."""
    molecule = build(atoms, bonds)
    return None if molecule is None else Chem.MolToSmiles(molecule, isomericSmiles=False)


def lost_charges(atoms: Atoms, bonds: Bonds) -> str | None:
    """What a molecule loses without the charges of its atoms: `charges`, `needed charges`, or None for nothing.

    Charges that `build` finds again, as in nitro groups, are not lost. `needed charges`: not valid without them.
    """
    charges = sorted(label for label in atoms if charge_of(label))
    if not charges:
        return None
    built = build(neutral(atoms), bonds)
    if built is None:
        return "needed charges"
    found = (atom_label(atom.GetSymbol(), atom.GetFormalCharge()) for atom in built.GetAtoms())
    return None if sorted(label for label in found if charge_of(label)) == charges else "charges"


def scaffold(smiles: str) -> str:
    """The Murcko scaffold of a molecule, its rings with what links them, as SMILES; empty if it has no ring."""
    with quiet():
        from rdkit.Chem.Scaffolds.MurckoScaffold import MurckoScaffoldSmiles  # imports slowly, and workers need it not

        return str(MurckoScaffoldSmiles(smiles))  # type: ignore[no-untyped-call]


def in_order(bonds: Iterable[tuple[int, int, str]]) -> Bonds:
    """Each bond with its lower atom first, sorted."""
    return tuple(sorted((min(i, j), max(i, j), name) for i, j, name in bonds))


def is_molecule(obj: object) -> bool:
    """Whether `obj` is an RDKit molecule."""
    return isinstance(obj, Chem.Mol)


def largest_valence(label: str) -> int:
    """Maximum number of bonds that RDKit accepts at an atom of an element and charge, at most 8."""
    with quiet():
        return max((bonds for bonds, atom in enumerate(_with_bonds(label)) if atom is not None), default=0)


def implied_hydrogens(label: str) -> list[int]:
    """The hydrogens at an atom of an element and charge with 0, 1, … 8 other bonds; 0 if these are too many."""
    with quiet():
        return [0 if atom is None else atom.GetTotalNumHs() for atom in _with_bonds(label)]


def _with_bonds(label: str) -> Iterator[Chem.Atom | None]:
    """An atom with 0, 1, … 8 single bonds; None if RDKit does not accept it."""
    for bonds in range(MOST_BONDS + 1):
        molecule = assemble((label, *"C" * bonds), [(0, other + 1, "single") for other in range(bonds)])
        yield molecule.GetAtomWithIdx(0) if _sanitised(molecule) else None


def isotope_mass(element: str) -> float:
    """The mass of the most common isotope of an element, in dalton."""
    return float(Chem.GetPeriodicTable().GetMostCommonIsotopeMass(element))


def read_pattern(smarts: str) -> Chem.Mol:
    """Read a substructure. Raises `UnreadableMolecule` if it is not a SMARTS, or empty."""
    with quiet():
        pattern = Chem.MolFromSmarts(smarts)
    if pattern is None or not pattern.GetNumAtoms():
        raise UnreadableMolecule(f"{smarts!r} is not a SMARTS that RDKit can read")
    return pattern


def has_pattern(atoms: Atoms, bonds: Bonds, pattern: Chem.Mol) -> bool:
    """Whether a graph is a valid molecule that contains a substructure."""
    molecule = build(atoms, bonds)
    return molecule is not None and molecule.HasSubstructMatch(pattern)


def unknown_labels(labels: Collection[str]) -> list[str]:
    """The `labels` that are not chemical elements, with or without a charge."""
    table = Chem.GetPeriodicTable()
    known = {table.GetElementSymbol(number) for number in range(1, 119)}
    return [label for label in labels if element_of(label) not in known or not _has_charge(label)]


def draw(molecule: Chem.Mol, reference: Chem.Mol | None = None, size: tuple[int, int] = (220, 180)) -> str:
    """Draw a molecule, sanitised or not, as SVG; what it does not share with `reference` is highlighted.

    It has the scale of the picture of the reference, and the common part lies as there, if that is readable.
    The picture is larger than `size` if the molecule does not fit at that scale.
    """
    return compact(_drawn(rdMolDraw2D.MolDraw2DSVG, molecule, reference, size))


def draw_png(molecule: Chem.Mol, reference: Chem.Mol | None = None, size: tuple[int, int] = (440, 360)) -> bytes:
    """As `draw`, but PNG."""
    png: bytes = _drawn(rdMolDraw2D.MolDraw2DCairo, molecule, reference, size)
    return png


@contextmanager
def quiet() -> Iterator[None]:
    """Silence RDKit's messages on standard error: errors repeat them."""
    block = rdBase.BlockLogs()
    try:
        yield
    finally:
        del block


def _drawn(
    kind: Callable[[int, int], Any], molecule: Chem.Mol, reference: Chem.Mol | None, size: tuple[int, int]
) -> Any:
    """Draw a molecule on a canvas of RDKit and return the picture, text or bytes."""
    with quiet():
        molecule, reference = _laid_out(molecule), None if reference is None else _laid_out(reference)
        atoms, bonds = ([], []) if reference is None else _compared(molecule, reference)
        corners, shape = _frame(molecule, reference, size)
        canvas = kind(*shape)
        canvas.SetScale(*shape, *corners)
        options = canvas.drawOptions()
        options.prepareMolsBeforeDrawing = False
        options.clearBackground = False
        options.setHighlightColour(HIGHLIGHT)
        canvas.DrawMolecule(_kekulized(molecule), highlightAtoms=atoms, highlightBonds=bonds)
        canvas.FinishDrawing()
        return canvas.GetDrawingText()


def _kekulized(molecule: Chem.Mol) -> Chem.Mol:
    """The molecule with the double bonds of its aromatic rings, as in the graphs that are predicted."""
    Chem.Kekulize(molecule, clearAromaticFlags=True)
    return molecule


def _laid_out(molecule: Chem.Mol) -> Chem.Mol:
    """A copy with two-dimensional coordinates."""
    copy = Chem.Mol(molecule)
    copy.UpdatePropertyCache(strict=False)
    Chem.FastFindRings(copy)
    rdDepictor.Compute2DCoords(copy)
    return copy


def _check_size(canonical: str, molecule: Chem.Mol, limits: Limits) -> None:
    """Refuse molecules without atoms, of several fragments or with too many atoms, before the second parse."""
    if not canonical:
        raise UnreadableMolecule("no atoms")
    if "." in canonical:
        how = 'output.fragments = "largest" takes the largest'
        raise UnreadableMolecule(f"{canonical.count('.') + 1} fragments, one expected: {canonical} ({how})")
    heavy = molecule.GetNumHeavyAtoms()
    if limits.max_atoms is not None and heavy > limits.max_atoms:
        raise UnreadableMolecule(f"{count_atoms(heavy)}, more than max_atoms = {limits.max_atoms}")


def _size(molecule: Chem.Mol) -> tuple[int, str]:
    """The number of heavy atoms, then the SMILES, which puts fragments of one size in an order."""
    heavy = molecule.GetNumHeavyAtoms()
    return heavy, Chem.MolToSmiles(molecule) if heavy <= LARGEST else ""


def _dropped(molecule: Chem.Mol) -> tuple[str, ...]:
    """What a graph does not hold of a molecule, beside charges: `stereo`, `isotopes`, `radicals`."""
    own, unspecified = _atoms(molecule), Chem.ChiralType.CHI_UNSPECIFIED
    found = {
        "stereo": any(atom.GetChiralTag() != unspecified for atom in own)
        or any(bond.GetStereo() not in NO_STEREO for bond in _bonds_of(molecule)),
        "isotopes": any(atom.GetIsotope() for atom in own),
        "radicals": any(atom.GetNumRadicalElectrons() for atom in own),
    }
    return tuple(name for name, lost in found.items() if lost)


def _unusual(molecule: Chem.Mol, again: Chem.Mol, atoms: Atoms, bonds: Bonds) -> tuple[str, ...]:
    """Isotopes, radicals and hydrogens that do not come back from atoms and bonds, each by name and place.

    Places are those of `molecule`, counted from 1; `again` was read from its canonical SMILES.
    """
    isotopes = [atom for atom in _atoms(molecule) if atom.GetIsotope()]
    if isotopes:
        return tuple(
            f"isotope {atom.GetIsotope()}{atom.GetSymbol()} at atom {atom.GetIdx() + 1}: isotopes are not supported"
            for atom in isotopes
        )
    read = _atoms(again)
    if any(atom.GetAtomicNum() == 1 for atom in read):
        return ("hydrogen that is not bound to one heavy atom: it cannot be left out",)
    if not any(atom.GetNoImplicit() for atom in read):  # no atom in brackets
        return ()
    built = build(atoms, bonds)
    if built is None:
        return ("RDKit does not accept its atoms and bonds without their hydrogens",)
    order = molecule.GetPropsAsDict(includePrivate=True, includeComputed=True)["_smilesAtomOutputOrder"]
    heavy = (place for place in order if molecule.GetAtomWithIdx(place).GetAtomicNum() > 1)
    atoms_of = zip(heavy, read, _atoms(built), strict=True)
    return tuple(what for place, own, other in atoms_of if (what := _differs(own, other, place + 1)))


def _differs(atom: Chem.Atom, built: Chem.Atom, place: int) -> str | None:
    """Why an atom is not the one that was built from its label and bonds; None if it is."""
    count, implied = atom.GetTotalNumHs(), built.GetTotalNumHs()
    if count == implied:
        return None
    where = f"at atom {place} ({atom.GetSymbol()})"
    if atom.GetNumRadicalElectrons():
        return f"radical {where}: radicals are not supported"
    return f"{count} hydrogens {where}: its bonds and charge imply {implied}"


def _atoms(molecule: Chem.Mol) -> list[Chem.Atom]:
    """The atoms by their index, which is several times as fast as to iterate over `GetAtoms`."""
    return [molecule.GetAtomWithIdx(index) for index in range(molecule.GetNumAtoms())]


def _bonds_of(molecule: Chem.Mol) -> list[Chem.Bond]:
    """The bonds by their index, likewise."""
    return [molecule.GetBondWithIdx(index) for index in range(molecule.GetNumBonds())]


def _has_charge(label: str) -> bool:
    """Whether the suffix of a label is a charge, or empty."""
    try:
        charge_of(label)
    except ValueError:
        return False
    return True


def _check_elements(atoms: Atoms, limits: Limits) -> None:
    if "*" in neutral(atoms):
        raise UnreadableMolecule("holds a dummy atom (*)")
    if limits.elements is not None and (reason := not_among(atoms, limits.elements)):
        raise UnreadableMolecule(reason)


def _bonds(molecule: Chem.Mol, limits: Limits) -> Bonds:
    bonds = []
    for bond in _bonds_of(molecule):
        kind = bond.GetBondType()
        name = _BOND_NAMES.get(kind)
        if name is None or (limits.bonds is not None and name not in limits.bonds):
            known = " ".join(limits.bonds if limits.bonds is not None else BOND_TYPES)
            raise UnreadableMolecule(f"bond {name or str(kind).lower()} is not one of {known}")
        bonds.append((bond.GetBeginAtomIdx(), bond.GetEndAtomIdx(), name))
    return in_order(bonds)


def _check_length(smiles: str, most: int) -> None:
    """Refuse a text with more than `most` heavy atoms before RDKit reads it, for which it needs minutes."""
    if len(smiles) <= most:
        return
    atoms = ATOM.findall(smiles.partition(" ")[0])
    heavy = sum(not HYDROGEN.fullmatch(atom) for atom in atoms)
    if heavy > most:
        raise UnreadableMolecule(f"{count_atoms(heavy)}, more than {most}")
    if len(atoms) > 5 * most:
        raise UnreadableMolecule(f"{count_atoms(len(atoms))} with hydrogens, more than {5 * most}")


def _why_not(smiles: str) -> str:
    """RDKit's own reason, in one line."""
    molecule = Chem.MolFromSmiles(smiles, sanitize=False)
    if molecule is None:
        return "not a SMILES that RDKit can read"
    try:
        problems = Chem.DetectChemistryProblems(molecule)
    except RuntimeError:  # of an atom with thousands of hydrogens RDKit computes no valence
        problems = ()
    return problems[0].Message() if problems else "not a molecule that RDKit accepts"


def count_atoms(atoms: int) -> str:
    """A number of atoms with its noun: `1 atom`, `2 atoms`."""
    return "1 atom" if atoms == 1 else f"{atoms} atoms"


def _sanitised(molecule: Chem.Mol) -> bool:
    return Chem.SanitizeMol(molecule, catchErrors=True) == Chem.SanitizeFlags.SANITIZE_NONE


def _charge(molecule: Chem.Mol) -> None:
    """Make N of valence 4 and O of valence 3 positive, and for each an atom negative if one can be (see `_donor`)."""
    order = {atom.GetIdx(): sum(int(b.GetBondTypeAsDouble()) for b in atom.GetBonds()) for atom in molecule.GetAtoms()}
    for atom in molecule.GetAtoms():
        if (atom.GetSymbol(), order[atom.GetIdx()]) not in {("N", 4), ("O", 3)}:
            continue
        atom.SetFormalCharge(1)
        donor = _donor(atom.GetNeighbors(), order) or _donor(molecule.GetAtoms(), order)
        if donor is not None:
            donor.SetFormalCharge(-1)


def _donor(atoms: Iterable[Chem.Atom], order: dict[int, int]) -> Chem.Atom | None:
    """The first atom that can take a negative charge: a terminal O–, N=, or C≡."""
    places = list(atoms)
    for symbol, valence in (("O", 1), ("N", 2), ("C", 3), ("N", 1)):
        for atom in places:
            fits = atom.GetSymbol() == symbol and order[atom.GetIdx()] == valence and atom.GetDegree() == 1
            if fits and atom.GetFormalCharge() == 0:
                return atom
    return None


def _compared(molecule: Chem.Mol, reference: Chem.Mol) -> tuple[list[int], list[int]]:
    """Atoms and bonds of `molecule` that `reference` does not share.

    Both are laid on each other by their largest common connected part, and from there on atom by atom. Moves `molecule`
    so that what is paired lies as in `reference`, mirrored if that fits better; equal molecules get equal coordinates.
    """
    pattern: Any = Chem.MolFromSmarts(_common_part(molecule, reference) or "[#0]")  # [#0] matches nothing
    matches = molecule.GetSubstructMatches(pattern, uniquify=False, maxMatches=24)
    there = reference.GetSubstructMatch(pattern)
    maps = [list(zip(match, there, strict=True)) for match in matches if there]
    pairs = maps[0] if maps else []
    if len(pairs) > 2:
        common = min(maps, key=lambda each: _apart(molecule, reference, each))
        pairs = _continued(molecule, reference, common)
        _lay_on(molecule, reference, pairs, common)
    return _unshared(molecule, reference, dict(pairs))


def _apart(molecule: Chem.Mol, reference: Chem.Mol, pairs: Sequence[Pair]) -> tuple[int, float]:
    """How many atoms of `pairs` differ in charge, and how far apart they lie when one molecule is laid on the other."""
    charged = sum(_label(molecule, own) != _label(reference, other) for own, other in pairs)
    return charged, rdMolAlign.AlignMol(Chem.Mol(molecule), reference, atomMap=pairs)


def _label(molecule: Chem.Mol, place: int) -> tuple[int, int]:
    """The element and the charge of an atom."""
    atom = molecule.GetAtomWithIdx(place)
    return atom.GetAtomicNum(), atom.GetFormalCharge()


def _common_part(molecule: Chem.Mol, reference: Chem.Mol) -> str:
    """The largest common connected part that is found in `STEPS` steps, as SMARTS; empty if there is none."""
    parameters = rdFMCS.MCSParameters()
    parameters.ProgressCallback = _StopAfterSteps()
    return str(rdFMCS.FindMCS([molecule, reference], parameters).smartsString)


class _StopAfterSteps(rdFMCS.MCSProgress):
    """Stops a search after `STEPS` steps: a limit in seconds would give other pictures on other machines."""

    def __init__(self) -> None:
        super().__init__()
        self.left = STEPS

    def __call__(self, *_: Any) -> bool:
        self.left -= 1
        return self.left > 0


def _continued(molecule: Chem.Mol, reference: Chem.Mol, pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs of atoms, then pairs of their neighbours, the most alike first, then of the neighbours of those."""
    found, here, there = list(pairs), {own for own, _ in pairs}, {other for _, other in pairs}
    for own, other in found:  # grows on the way
        beside = _bonded(molecule, own), _bonded(reference, other)
        alike = sorted((-sum(map(eq, a, b)), i, j) for i, a in beside[0].items() for j, b in beside[1].items())
        for _, i, j in alike:
            if i not in here and j not in there:
                here.add(i)
                there.add(j)
                found.append((i, j))
    return found


def _bonded(molecule: Chem.Mol, atom: int) -> dict[int, tuple[Any, ...]]:
    """Each neighbour of an atom, and what tells it from others: element, bond, ring, its own neighbours."""
    found = {}
    for bond in molecule.GetAtomWithIdx(atom).GetBonds():
        other = bond.GetOtherAtom(molecule.GetAtomWithIdx(atom))
        around = sorted(each.GetAtomicNum() for each in other.GetNeighbors())
        found[other.GetIdx()] = other.GetAtomicNum(), bond.GetBondType(), other.IsInRing(), len(around), around
    return found


def _unshared(molecule: Chem.Mol, reference: Chem.Mol, paired: dict[int, int]) -> tuple[list[int], list[int]]:
    """Atoms without a partner of equal element and charge, and bonds that the partners of their atoms do not have."""
    atoms = [
        place
        for place in range(molecule.GetNumAtoms())
        if place not in paired or _label(molecule, place) != _label(reference, paired[place])
    ]
    bonds = []
    for bond in molecule.GetBonds():
        ends = bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()
        known = all(end in paired for end in ends)
        there = reference.GetBondBetweenAtoms(*(paired[end] for end in ends)) if known else None
        if there is None or there.GetBondType() != bond.GetBondType():
            bonds.append(bond.GetIdx())
    return atoms, bonds


def _lay_on(molecule: Chem.Mol, reference: Chem.Mol, *choices: Sequence[Pair]) -> None:
    """Give the atoms of the first choice of pairs the places they have in `reference`, if the result is readable.

    Else those of the next choice; if none is readable, only turn the molecule.
    """
    for pairs in choices:
        fixed = Chem.Mol(molecule)
        rdDepictor.GenerateDepictionMatching2DStructure(fixed, reference, [(other, own) for own, other in pairs])
        if _readable(fixed):
            molecule.RemoveAllConformers()
            molecule.AddConformer(fixed.GetConformer())
            return
    rdMolAlign.AlignMol(molecule, reference, atomMap=list(choices[-1]))


def _readable(molecule: Chem.Mol) -> bool:
    """Whether no two atoms lie on each other and no bond is much longer or shorter than usual."""
    places = molecule.GetConformer().GetPositions()
    apart = ((places[:, None] - places[None]) ** 2).sum(axis=2) ** 0.5
    lengths = [apart[bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()] for bond in molecule.GetBonds()]
    atoms = range(len(places))
    return all(BOND[0] < length < BOND[1] for length in lengths) and all(
        apart[i, j] > LEAST_APART for i in atoms for j in atoms if i < j
    )


def _frame(
    molecule: Chem.Mol, reference: Chem.Mol | None, size: tuple[int, int]
) -> tuple[tuple[Point2D, Point2D], tuple[int, int]]:
    """The corners of a picture of `molecule`, in ångström, and its size, at the scale at which `reference` fits `size`.

    The corners are those of the reference if the molecule fits, else around the molecule; the picture may be larger.
    """
    pixels = np.array(size, float)
    middle, extent = _extent(reference or molecule)
    scale = float((pixels / (extent + 2 * ROOM).clip(min=SMALLEST)).min())
    half = pixels / scale / 2
    own, needed = _extent(molecule)
    needed = needed / 2 + LABEL
    moved = abs(own - middle) + needed > half
    middle = np.where(moved, own, middle)
    larger = np.maximum(half, needed)
    width, height = (pixels * (larger / half).clip(max=WIDEST)).round().astype(int).tolist()
    return (Point2D(*(middle - larger).tolist()), Point2D(*(middle + larger).tolist())), (width, height)


def _extent(molecule: Chem.Mol) -> tuple[Any, Any]:
    """The middle of the atoms' coordinates, and how far they extend: two vectors."""
    places = molecule.GetConformer().GetPositions()[:, :2]
    if not len(places):
        return np.zeros(2), np.zeros(2)
    low, high = places.min(axis=0), places.max(axis=0)
    return (low + high) / 2, high - low


# Most bytes of RDKit's SVG pictures are comments, classes, default styles and spaces: `compact` leaves them out.
SVG = "http://www.w3.org/2000/svg"
PATH = f"{{{SVG}}}path"
UNSEEN = {"class", "version", "baseProfile", "{http://www.w3.org/XML/1998/namespace}space"}
"""Attributes that do not change a picture."""
DEFAULTS = {
    "stroke-linecap:butt",
    "stroke-linejoin:miter",
    "stroke-miterlimit:10",  # the default, 4, differs at angles below 29° only
    "stroke-opacity:1",
    "fill-opacity:1",
}
"""Styles that can be omitted."""
NO_FILL = "fill:none"
UNUSED = {NO_FILL: "fill-rule", "stroke-width:0px": "stroke"}
"""Style → prefix of attributes it makes irrelevant."""
POINTS = {"M": 1, "L": 1, "Q": 2, "C": 3, "Z": 1}
"""How many points each command takes."""
PLAIN = re.compile(r"[MLQCZ\d\s.,-]*")
COMMAND, NUMBER = re.compile(r"([MLQCZ])([^A-Za-z]*)"), re.compile(r"-?[\d.]+")

ElementTree.register_namespace("", SVG)  # tags are written without a prefix


def compact(svg: str) -> str:
    """The same picture with fewer bytes: without what does not show, and with lines of the same style as one path."""
    root = ElementTree.fromstring(svg)  # leaves comments out
    for element in root.iter():
        element.text, element.tail = (element.text or "").strip(), None
        kept = {name: " ".join(value.split()) for name, value in element.items() if name not in UNSEEN}
        if "style" in kept:
            kept["style"] = short_style(kept["style"])
        if element.tag == PATH:
            kept["d"] = short_path(kept["d"])
        element.attrib = kept
    join_lines(root)
    return ElementTree.tostring(root, encoding="unicode").replace(" />", "/>")


def short_style(style: str) -> str:
    """A style without defaults, and without the fill rule of lines and the stroke of width 0."""
    parts = [re.sub(r"\.0px$", "px", part) for part in style.split(";") if part and part not in DEFAULTS]
    unseen = [prefix for sign, prefix in UNUSED.items() if sign in parts]
    return ";".join(part for part in parts if not part.startswith(tuple(unseen)))


def short_path(path: str) -> str:
    """Path data in tenths, relative after each `M`, without unneeded characters: `M 1.0,2.0 L 3.5,4.0` → `M1 2l2.5 2`.

    RDKit writes absolute points with one decimal: their differences are exact, so no error adds up.
    """
    if not PLAIN.fullmatch(path):
        return path
    text, last, here = "", "", (0, 0)
    for command, numbers in COMMAND.findall(path):
        values = [round(10 * float(number)) for number in NUMBER.findall(numbers)]
        points = list(zip(values[::2], values[1::2], strict=True))
        written = command if command == "M" else command.lower()
        text += written if written != last or written == "M" else ""
        for first in range(0, len(points), POINTS[command]):
            x, y = (0, 0) if command == "M" else here
            for here in points[first : first + POINTS[command]]:
                text += tenths(here[0] - x, text)
                text += tenths(here[1] - y, text)
        last = written
    return text


def tenths(value: int, before: str) -> str:
    """A number of tenths as a decimal, with a space if the text before ends with a number that it would lengthen."""
    whole = f"{value / 10:.1f}".removesuffix(".0")
    return f" {whole}" if before[-1:].isdigit() and whole[0] != "-" else whole


def join_lines(root: ElementTree.Element) -> None:
    """Join the lines of the same style within each row of opaque lines: bonds only touch, so their order does not show.

    Lines of another width, such as highlights below the bonds, end a row.
    """
    row: dict[str, ElementTree.Element] = {}
    width = ""
    for element in list(root):
        parts = element.get("style", "").split(";")
        own = next((part for part in parts if part.startswith("stroke-width")), "")
        line = element.tag == PATH and NO_FILL in parts and not any("opacity" in part for part in parts)
        if not line or own != width:
            row, width = {}, own
        if not line:
            continue
        first = row.setdefault(element.get("style", ""), element)
        if first is not element:
            first.set("d", first.get("d", "") + element.get("d", ""))
            root.remove(element)
