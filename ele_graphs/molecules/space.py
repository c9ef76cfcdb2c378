"""`molecule`: molecules as graphs of atoms and bonds, read from SMILES or RDKit; predictions are valid by default."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor

from ele_core import Drawing, InvalidOutput, Metric, TextFormat
from ele_graphs.graphs.batch import Graphs, from_lists, to_lists
from ele_graphs.graphs.space import MAX_LABELS, MAX_NODES, GraphShow, GraphSpace
from ele_graphs.graphs.valence import Valence, mended
from ele_graphs.graphs.wl import PartKinds
from ele_graphs.molecules.constraints import AtomCounter, MoleculeRules
from ele_graphs.molecules.labels import element_of, is_charged, neutral, not_among
from ele_graphs.molecules.molecule import Fragments, Molecule, shown

if TYPE_CHECKING:
    from rdkit import Chem

    from ele_graphs.molecules.rdkit_adapter import Limits

Bond = Literal["single", "double", "triple", "quadruple"]
Charges = Literal["labels"] | None
"""Whether the charge of an atom is part of its label, or dropped (None)."""
ELEMENTS = ("C", "N", "O", "F")
BONDS: tuple[Bond, ...] = ("single", "double", "triple")
DROPPED = ("stereo", "charges", "isotopes", "radicals")
ORDERS: dict[str, int] = {"single": 1, "double": 2, "triple": 3, "quadruple": 4}


class MoleculeTexts(TextFormat[Molecule]):
    """SMILES, with several fragments read as the option `fragments` says."""

    def parse(self, text: str) -> Molecule:
        """A molecule from its SMILES, or from a graph as JSON."""
        return MoleculeSpace.read(text, self.options.get("fragments"))


class MoleculeShow(GraphShow[Any]):
    """Molecules as RDKit draws them."""

    space: MoleculeSpace

    def render(self, obj: Molecule | str | Chem.Mol, against: Molecule | str | Chem.Mol | None = None) -> Drawing:
        """RDKit's picture, with what `against` does not share highlighted; the text says if it is not valid."""
        molecule = as_molecule(obj)
        reference = None if against is None else as_molecule(against)
        text = self.space.format(molecule) if molecule.valid else str(molecule)
        if not molecule.atoms:
            return Drawing(text)
        return Drawing(text, molecule.to_svg(reference), lambda: molecule.to_png(reference))

    def properties(self, batch: Graphs) -> dict[str, Tensor]:
        """The numbers of atoms, rings and hetero atoms (neither virtual nor carbon)."""
        numbers = super().properties(batch)
        hetero = torch.tensor([False, *(element_of(label) != "C" for label in self.space.config.elements)])
        hetero = hetero.to(batch.device)[batch.nodes.long()].sum(dim=1)
        return {"atoms": numbers["nodes"], "rings": numbers["cycles"], "hetero_atoms": hetero}

    def describe(self) -> str:
        """The elements and the size."""
        return f"molecules of {' '.join(self.space.config.elements)}, at most {self.space.config.max_atoms} heavy atoms"

    def dropped_note(self, objects: Sequence[Molecule | str | Chem.Mol]) -> str:
        """How many molecules lost stereo or fragments when they were read; if charges are dropped, what else was."""
        lost = Counter(name for obj in objects if not _loses_nothing(obj) for name in self._lost(obj))
        dropped = [f"{name} from {lost[name]:,}" for name in DROPPED if lost[name]]
        said = [f"dropped {', '.join(dropped)}"] if dropped else []
        if lost["fragments"]:
            said.append(f"kept the largest fragment of {lost['fragments']:,}")
        if lost["needed charges"]:
            said.append(f"not valid without their charges, which are dropped: {lost['needed charges']:,}")
        return f"molecules: {'; '.join(said)}" if said else ""

    def _lost(self, obj: Molecule | str | Chem.Mol) -> list[str]:
        molecule = as_molecule(obj, self.space.config.fragments)
        if self.space.config.charges:
            return [name for name in molecule.dropped if name in ("fragments", "stereo")]
        from ele_graphs.molecules.rdkit_adapter import lost_charges

        return [*molecule.dropped, lost_charges(molecule.atoms, molecule.bonds) or ""]


class MoleculeSpace(GraphSpace[Molecule]):
    """Molecules of at most `max_atoms` heavy atoms: nodes are elements, edges are bonds of a kekulized structure.

    `pack` takes `Molecule`, SMILES or RDKit molecules, `unpack` returns `Molecule`. Charges are part of the labels of
    atoms, as in `N+`, if `charges = "labels"`; hydrogens follow from valence, and stereo is not part of the graph. As
    text a molecule is its SMILES, or the graph as JSON if it is not valid.
    """

    class Config(GraphSpace.Config):
        """Elements, bonds and size."""

        elements: tuple[str, ...] = Field(default=ELEMENTS, min_length=1, max_length=MAX_LABELS)
        """The allowed elements, with charges as in `N+`, `O-` and `Fe+2`; neutral atoms are listed without."""
        bonds: tuple[Bond, ...] = Field(default=BONDS, min_length=1)
        """The allowed bonds."""
        max_atoms: int = Field(default=9, ge=1, le=MAX_NODES)
        """The largest number of heavy atoms."""
        fragments: Fragments = None
        """`largest`: of a molecule of several fragments, such as a salt, take the largest. None: refuse it."""
        charges: Charges = None
        """`labels`: atoms have charges, and isotopes and radicals are refused; used if `elements` are inferred from
        data. None: charges, isotopes and radicals are dropped, as in 0.1.0."""
        resonance: bool | None = None
        """Whether forms that differ only in how double bonds alternate, as the two of an aromatic ring, are the same
        molecule, with the same key and the same parts; true if inferred from data. None: they differ, as in 0.1.0."""
        legal_moves: Literal["valid"] | bool = "valid"
        """`valid`: `search` visits, and `pgd` rounds to, connected molecules in which no atom has more bonds than its
        element and charge allow. As in 0.1.0, true: `search` keeps to the bonds, but a molecule may fall apart; false:
        any graph."""

        @field_validator("elements")
        @classmethod
        def _known(cls, elements: tuple[str, ...]) -> tuple[str, ...]:
            if len(set(elements)) < len(elements):
                raise ValueError("an element is listed twice")
            if not set(elements) <= set(ELEMENTS):  # the default elements need no import of rdkit
                from ele_graphs.molecules.rdkit_adapter import unknown_labels

                if unknown := unknown_labels(elements):
                    how = " (write charges as in N+, O- and Fe+2)" if any(map(is_charged, unknown)) else ""
                    raise ValueError(f"not chemical elements: {' '.join(unknown)}{how}")
            return elements

        @model_validator(mode="after")
        def _charges_are_labels(self) -> Self:
            charged = [label for label in self.elements if is_charged(label)]
            if charged and self.charges is None:
                raise ValueError(f'{" ".join(charged)} among the elements: this needs charges = "labels"')
            return self

    config: Config

    takes = "a SMILES, an RDKit molecule or a Molecule"
    Texts = MoleculeTexts
    Rules = MoleculeRules
    Show = MoleculeShow

    @property
    def node_labels(self) -> Sequence[str]:
        """The elements, with their charges."""
        return self.config.elements

    @property
    def edge_labels(self) -> Sequence[str]:
        """The bonds."""
        return self.config.bonds

    @property
    def max_nodes(self) -> int:
        """The largest number of heavy atoms."""
        return self.config.max_atoms

    def limits(self, min_atoms: int = 1) -> Limits:
        """The limits of this space, for the functions that read SMILES."""
        from ele_graphs.molecules.rdkit_adapter import Limits

        config = self.config
        return Limits(config.elements, config.bonds, config.max_atoms, min_atoms, charges=config.charges == "labels")

    def pack(self, objects: Sequence[Molecule | str | Chem.Mol]) -> Graphs:
        """Molecules, SMILES or RDKit molecules → nodes (B, m), edges (B, m, m)."""
        elements = {symbol: code for code, symbol in enumerate(self.config.elements, 1)}
        bonds = {name: code for code, name in enumerate(self.edge_labels, 1)}
        labels, edges = [], []
        for index, obj in enumerate(objects):
            molecule = self._checked(obj, index)
            labels.append([elements[symbol] for symbol in molecule.atoms])
            edges.append([(i, j, bonds[name]) for i, j, name in molecule.bonds])
        return from_lists(labels, edges, self.max_nodes)

    def unpack(self, batch: Graphs) -> list[Molecule]:
        """One `Molecule` per row; its `valid` tells whether it is a valid molecule."""
        return [
            Molecule(
                tuple(self.config.elements[code - 1] for code in labels),
                tuple((i, j, self.config.bonds[code - 1]) for i, j, code in edges),
            )
            for labels, edges in to_lists(batch)
        ]

    @classmethod
    def parse(cls, text: str) -> Molecule:
        """A molecule from its SMILES, or from a graph as JSON. Raises `InvalidOutput` with the reason."""
        return cls.read(text)

    @classmethod
    def read(cls, text: str, fragments: Fragments = None) -> Molecule:
        """As `parse`, with several fragments read as the option `fragments` says."""
        if not text.lstrip().startswith("{"):
            return Molecule.from_smiles(text, fragments)
        from ele_graphs.graphs.networkx_space import read_json  # imports networkx, as below: few molecules need it
        from ele_graphs.molecules.rdkit_adapter import NOT_ATOMS_AND_BONDS, in_order

        atoms, bonds = read_json(text)
        molecule = Molecule(tuple(map(str, atoms)), in_order((i, j, str(bond)) for i, j, bond in bonds))
        try:
            molecule.to_rdkit()
        except NOT_ATOMS_AND_BONDS as error:
            raise InvalidOutput(f"not a graph of atoms and bonds: {text[:60]!r}") from error
        return molecule

    @classmethod
    def format(cls, obj: Molecule | str | Chem.Mol) -> str:
        """Its canonical SMILES, or its graph as JSON if it is not a valid molecule."""
        molecule = as_molecule(obj)
        if molecule.smiles:
            return molecule.smiles
        from ele_graphs.graphs.networkx_space import write_json

        return write_json(molecule.atoms, molecule.bonds)

    def unrelax(self, point: Graphs) -> Graphs:
        """The likeliest atoms and bonds; with `legal_moves = "valid"` mended to a connected molecule within valence."""
        nearest = super().unrelax(point)
        rules = self.valence
        return mended(nearest, point, rules) if rules and rules.connected else nearest

    @property
    def valence(self) -> Valence | None:
        """What `search` keeps, by the option `legal_moves`."""
        legal = self.config.legal_moves
        orders = (ORDERS[bond] for bond in self.config.bonds)
        return Valence((0, *orders), (0, *self._valences), legal == "valid") if legal else None

    @property
    def part_kinds(self) -> PartKinds:
        """Neighbourhoods of atoms, the same for all resonance forms if `resonance` is true."""
        codes = {bond: code for code, bond in enumerate(self.config.bonds, 1)}
        if not self.config.resonance or "double" not in codes:
            return super().part_kinds
        return PartKinds(self.radius, codes["double"], codes.get("triple", 0))

    @cached_property
    def _valences(self) -> list[int]:
        from ele_graphs.molecules.rdkit_adapter import largest_valence

        return [largest_valence(label) for label in self.config.elements]

    @property
    def metrics(self) -> Sequence[Metric[Graphs]]:
        """The metrics of graphs, and the share of predictions that are valid molecules."""
        return (*super().metrics, Metric("valid", "max", self._valid, "share of predictions that are valid molecules"))

    def comparable(self, batch: Graphs) -> Graphs:
        """Molecules in the resonance form that is read from their SMILES, if all forms are the same molecule."""
        if not self.config.resonance:
            return batch
        return self.pack([self._read_form(molecule) for molecule in self.unpack(batch)])

    def _read_form(self, molecule: Molecule) -> Molecule:
        if molecule.smiles is None:
            return molecule
        try:
            read = Molecule.from_smiles(molecule.smiles)
        except InvalidOutput:
            return molecule
        read = read if self.config.charges else read.without_charges()
        return read if self._reason(read) is None else molecule

    @cached_property
    def atom_counter(self) -> AtomCounter:
        """Counts the atoms of molecules, hydrogens included."""
        return AtomCounter(self.config.elements, (0, *(ORDERS[bond] for bond in self.config.bonds)))

    @classmethod
    def infer(cls, objects: Sequence[Molecule | str | Chem.Mol], options: Mapping[str, Any]) -> Config:
        """Find elements with charges, bonds and size in `objects`; `options` take precedence.

        C N O F come first, then elements by name, then those with charges. If elements are given and none has a charge,
        charges are dropped, as in 0.1.0.
        """
        charges = options.get("charges", _charges_for(options.get("elements")))
        molecules = [as_molecule(obj, options.get("fragments")) for obj in objects]
        taken = [molecule for molecule in molecules if not (charges and molecule.unusual)]
        elements = {label for molecule in taken for label in (molecule.atoms if charges else neutral(molecule.atoms))}
        bonds = {bond for molecule in taken for *_, bond in molecule.bonds}
        found = {
            "elements": _in_order(elements or ELEMENTS, ELEMENTS),
            "bonds": _in_order(bonds or BONDS, (*BONDS, "quadruple")),
            "max_atoms": min(max((len(molecule.atoms) for molecule in taken), default=9) or 1, MAX_NODES),
            "charges": charges,
            "resonance": True,
        }
        return cls.Config(**{**found, **options})

    def examples(self) -> list[Molecule]:
        """The molecules of a short list that the configuration allows."""
        smiles = ("CO", "C=O", "C#N", "CCO", "C1CC1", "CC(C)O", "NC=O", "FC=C", "C", "N", "O", "CC", "CCC", "CC(=O)O")
        charged = ("C[N+](=O)[O-]", "C[NH3+]", "CC(=O)[O-]") if self.config.charges else ()
        return [
            molecule for molecule in map(Molecule.from_smiles, (*smiles, *charged)) if self._reason(molecule) is None
        ]

    def _valid(self, predicted: Graphs, _true: Graphs) -> Tensor:
        return torch.tensor([float(molecule.valid) for molecule in self.unpack(predicted)])

    def _checked(self, obj: Molecule | str | Chem.Mol, index: int) -> Molecule:
        """The object as a `Molecule` of this space. Raises `InvalidOutput` with the index and the reason."""
        try:
            molecule = as_molecule(obj, self.config.fragments)
        except InvalidOutput as refused:
            raise self.invalid(refused.what, index) from None
        if not self.config.charges:
            molecule = molecule.without_charges()
        if reason := self._reason(molecule):
            raise self.invalid(f"{shown(molecule.smiles or 'molecule')}: {reason}", index)
        return molecule

    def _reason(self, molecule: Molecule) -> str | None:
        """The reason why a molecule is not in this space, or None if it is."""
        size, config = len(molecule.atoms), self.config
        if config.charges and molecule.unusual:
            return molecule.unusual[0]
        if size > config.max_atoms:
            return f"{size} atoms, more than max_atoms = {config.max_atoms}"
        if reason := not_among(molecule.atoms, config.elements):
            return reason
        if unknown := [bond for *_, bond in molecule.bonds if bond not in config.bonds]:
            return f"bond {unknown[0]} is not one of {' '.join(config.bonds)}"
        if any(i == j for i, j, _ in molecule.bonds):
            return "an atom is bound to itself"
        if not all(0 <= end < size for i, j, _ in molecule.bonds for end in (i, j)):
            return "a bond leads to an atom that does not exist"
        return None


def as_molecule(obj: object, fragments: Fragments = None) -> Molecule:
    """Convert a SMILES or an RDKit molecule to a `Molecule`, or return a `Molecule`. Raises `InvalidOutput`."""
    if isinstance(obj, Molecule):
        return obj
    if isinstance(obj, str):
        return Molecule.from_smiles(obj, fragments)
    from ele_graphs.molecules.rdkit_adapter import is_molecule

    if is_molecule(obj):
        return Molecule.from_rdkit(obj, fragments)  # type: ignore[arg-type]  # checked above
    raise InvalidOutput(f"expected a SMILES, an RDKit molecule or a Molecule, not {type(obj).__name__}")


def _loses_nothing(obj: object) -> bool:
    """Whether a SMILES has no brackets, stereo or fragments: then there is no need to read it."""
    return isinstance(obj, str) and not set(obj) & set("[/\\.")


def _charges_for(elements: Sequence[str] | None) -> Charges:
    """Whether charges are part of the labels if only `elements` are given, or nothing (None)."""
    return "labels" if elements is None or any(map(is_charged, elements)) else None


def _in_order(found: Iterable[str], first: Sequence[str]) -> tuple[str, ...]:
    """Sort names: those of `first` in its order, the others alphabetically, then those with a charge."""
    rank = {name: place for place, name in enumerate(first)}
    return tuple(sorted(found, key=lambda name: (is_charged(name), rank.get(name, len(rank)), name)))
