"""`Molecule`: atoms and bonds, with a SMILES that is None if the molecule is not valid."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Self

from ele_core import InvalidOutput
from ele_graphs.molecules.labels import neutral

if TYPE_CHECKING:
    import networkx as nx
    from rdkit import Chem

LONGEST_SHOWN = 80
"""Maximum number of characters of a SMILES in an error message."""
Fragments = Literal["largest"] | None
"""What to do with a molecule of several fragments, such as a salt: take the largest, or refuse it (None)."""


@dataclass(frozen=True)
class Molecule:
    """A molecular graph without hydrogens and stereo; kekulized: each bond has an order.

    Read from a SMILES, atoms are in the order of the canonical SMILES, so equal molecules are equal objects.
    A graph need not be a valid molecule: then `valid` is false and `smiles` is None.
    """

    atoms: tuple[str, ...]
    """Elements, with their formal charges as a suffix: `C`, `N+`, `O-`, `Fe+2`."""
    bonds: tuple[tuple[int, int, str], ...]
    """Triples (atom, atom, "single" | "double" | "triple"), the lower atom first, sorted."""
    dropped: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """What was dropped when it was read: `fragments`, `stereo`, `isotopes`, `radicals`."""
    unusual: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """What does not come back from atoms and bonds, beside stereo and fragments: isotopes, radicals, and hydrogens that
    valence does not imply, each by name and place. Spaces with charges refuse these molecules."""

    @classmethod
    def from_smiles(cls, smiles: str, fragments: Fragments = None) -> Self:
        """Read a SMILES: canonical without stereo, kekulized, no hydrogens. Raises `InvalidOutput` with the reason.

        fragments: `largest` takes the largest of several fragments; by default they are refused.
        """
        from ele_graphs.molecules.rdkit_adapter import Limits, UnreadableMolecule, read

        try:
            reading = read(smiles, Limits(charges=True), largest=fragments == "largest")
        except UnreadableMolecule as refused:
            raise InvalidOutput(f"{shown(smiles)!r}: {refused}") from None
        return cls(reading.atoms, reading.bonds, reading.dropped, reading.unusual)

    @classmethod
    def from_rdkit(cls, molecule: Chem.Mol, fragments: Fragments = None) -> Self:
        """Convert an RDKit molecule, as `from_smiles` does. Raises `InvalidOutput` with the reason."""
        from ele_graphs.molecules.rdkit_adapter import Limits, UnreadableMolecule, read_molecule

        try:
            reading = read_molecule(molecule, Limits(charges=True), largest=fragments == "largest")
        except UnreadableMolecule as refused:
            raise InvalidOutput(str(refused)) from None
        return cls(reading.atoms, reading.bonds, reading.dropped, reading.unusual)

    @cached_property
    def smiles(self) -> str | None:
        """The canonical SMILES; None if the molecule is not valid.

        If no atom has a charge and valences need some, as in a nitro group without charges, it has these.
        """
        from ele_graphs.molecules.rdkit_adapter import canonical_smiles

        return canonical_smiles(self.atoms, self.bonds)

    @property
    def valid(self) -> bool:
        """Whether it is one connected molecule that RDKit sanitises."""
        return self.smiles is not None

    def without_charges(self) -> Molecule:
        """The same graph with neutral atoms."""
        return replace(self, atoms=neutral(self.atoms))

    def to_rdkit(self) -> Chem.Mol:
        """A sanitised RDKit molecule; if it is not valid, its atoms and bonds without sanitisation."""
        from ele_graphs.molecules.rdkit_adapter import assemble, build

        molecule = build(self.atoms, self.bonds)
        return assemble(self.atoms, self.bonds) if molecule is None else molecule

    def to_networkx(self) -> nx.Graph[Any]:
        """A graph with the node attribute `label` (element with charge) and the edge attribute `label` (bond)."""
        import networkx as nx

        graph: nx.Graph[Any] = nx.Graph()
        graph.add_nodes_from((i, {"label": label}) for i, label in enumerate(self.atoms))
        graph.add_edges_from((i, j, {"label": bond}) for i, j, bond in self.bonds)
        return graph

    def to_svg(self, against: Molecule | None = None) -> str:
        """Draw the molecule; atoms and bonds that `against` does not share are highlighted."""
        from ele_graphs.molecules.rdkit_adapter import draw

        return draw(self.to_rdkit(), None if against is None else against.to_rdkit())

    def to_png(self, against: Molecule | None = None) -> bytes:
        """The same picture as PNG."""
        from ele_graphs.molecules.rdkit_adapter import draw_png

        return draw_png(self.to_rdkit(), None if against is None else against.to_rdkit())

    def _repr_svg_(self) -> str:
        return self.to_svg()

    def __str__(self) -> str:
        from ele_graphs.molecules.rdkit_adapter import count_atoms

        return self.smiles or f"not a valid molecule ({count_atoms(len(self.atoms))})"


def shown(smiles: str) -> str:
    """A SMILES for a message, cut if it is long."""
    return smiles if len(smiles) <= LONGEST_SHOWN else f"{smiles[:LONGEST_SHOWN]}…"
