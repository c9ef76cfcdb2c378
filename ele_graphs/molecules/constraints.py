"""Constraints on molecules: a molecular formula, a mass, a substructure; atoms are counted in batches."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

import torch
from pydantic import Field, field_validator, model_validator
from torch import Tensor

from ele_core import ComponentConfig, Rules
from ele_graphs.graphs.batch import Graphs
from ele_graphs.molecules.inputs import BITS, RADIUS
from ele_graphs.molecules.labels import charge_of, element_of

if TYPE_CHECKING:
    from ele_graphs.molecules.space import MoleculeSpace

CHUNK = 8192
"""Molecules whose atoms are counted at once: bounds the memory."""
HYDROGEN = 0.25
"""What a hydrogen too many or too few counts, where another atom counts 1: an edit changes several hydrogens."""
ELECTRON = 0.00054857990943
"""The mass of an electron, in dalton."""
DALTONS = 12.0
"""A mass that is wrong by so many dalton counts as much as one atom."""
NEAR = 0.5
"""The violation by a mass that is only a little wrong."""
POSITIVE = {"N": 4, "O": 3}
"""The number of bonds with which a label without charge stands for a positive atom."""
NEGATIVE = {"O": (1,), "N": (1, 2), "C": (3,)}
"""The numbers of bonds with which an atom with one neighbour may become negative."""
FORMULA = re.compile(r"(?:[A-Z][a-z]?\d*)+")
CHARGE = re.compile(r"([+-])(\d*)")

_COUNTED: WeakKeyDictionary[Graphs, tuple[tuple[Any, ...], Tensor]] = WeakKeyDictionary()
"""The labels and the atoms counted of large batches."""


class MoleculeConstraint(ComponentConfig):
    """What a predicted molecule must satisfy; options that are not given do not matter."""

    formula: str | None = None
    """The molecular formula, such as `C9H8O4`; for an ion with its charge, as in `C2H3O2-` and `C4H14N2+2`."""
    mass: float | None = Field(default=None, gt=0)
    """The monoisotopic mass in dalton, of an ion without its missing electrons."""
    ppm: float = Field(default=10.0, gt=0)
    """How many millionths of `mass` the mass may differ from it."""
    substructure: str | None = None
    """A SMARTS that must match."""
    fingerprint: str | None = None
    """The bits of the Morgan fingerprint, as numbers with spaces between them, such as `1 80 807`."""
    fingerprint_radius: int = Field(default=2, ge=0, le=16)
    """The radius of the neighbourhoods that are bits of `fingerprint`."""
    fingerprint_bits: int = Field(default=2048, ge=16, le=1 << 24)
    """The length of `fingerprint`."""

    @field_validator("formula")
    @classmethod
    def _is_formula(cls, formula: str | None) -> str | None:
        return None if formula is None else str(Composition.parse(formula))

    @field_validator("substructure")
    @classmethod
    def _is_smarts(cls, smarts: str | None) -> str | None:
        if smarts is not None:
            from ele_graphs.molecules.rdkit_adapter import read_pattern

            read_pattern(smarts)
        return smarts

    @model_validator(mode="after")
    def _in_range(self) -> Self:
        bits = [int(word) for word in (self.fingerprint or "").split()]
        if bits and max(bits) >= self.fingerprint_bits:
            raise ValueError(f"fingerprint: there is no bit {max(bits)}; it has {self.fingerprint_bits:,}, from 0")
        return self

    @field_validator("fingerprint")
    @classmethod
    def _is_fingerprint(cls, bits: str | None) -> str | None:
        if bits is None:
            return None
        words = bits.replace(",", " ").split()
        if not words or not all(word.isdecimal() for word in words):
            raise ValueError(f"{bits[:40]!r} is not a list of bits such as '1 80 807'")
        return " ".join(map(str, sorted(set(map(int, words)))))


@dataclass(frozen=True)
class Composition:
    """How many atoms of each element a molecule has, with its charge."""

    counts: dict[str, int]
    charge: int = 0

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a formula such as `C9H8O4` or `C2H3O2-`, in any order of elements. Raises `ValueError`."""
        from ele_graphs.molecules.rdkit_adapter import unknown_labels

        stripped = text.strip()
        formula = FORMULA.match(stripped)
        rest = stripped[formula.end() :] if formula else stripped
        charge = CHARGE.fullmatch(rest)
        if formula is None or (rest and charge is None):
            raise ValueError(f"{text!r} is not a molecular formula such as C9H8O4")
        counts: Counter[str] = Counter()
        for element, number in re.findall(r"([A-Z][a-z]?)(\d*)", formula.group()):
            counts[element] += int(number or 1)
        if unknown := unknown_labels(list(counts)):
            raise ValueError(f"{text!r} is not a molecular formula: {unknown[0]} is not an element")
        return cls(dict(counts), int(f"{charge[1]}{charge[2] or 1}") if charge else 0)

    def __str__(self) -> str:
        """The formula in Hill's order: carbon, hydrogen, then other elements by name; without carbon all by name."""
        first = ["C", "H"] if self.counts.get("C") else []
        order = [*first, *sorted(set(self.counts) - set(first))]
        atoms = "".join(
            f"{name}{self.counts[name] if self.counts[name] > 1 else ''}" for name in order if self.counts.get(name)
        )
        sign = (
            "" if not self.charge else f"{self.charge:+}" if abs(self.charge) > 1 else "+" if self.charge > 0 else "-"
        )
        return f"{atoms}{sign}"


class AtomCounter:
    """Counts the atoms of molecules with given labels of nodes and edges; bonds and charges imply hydrogens."""

    def __init__(self, labels: Sequence[str], orders: Sequence[int]) -> None:
        self.labels = tuple(labels)
        self.orders = tuple(orders)
        self.elements = tuple(dict.fromkeys([*map(element_of, labels), "H"]))

    def __call__(self, batch: Graphs) -> Tensor:
        """(N, elements + 1) int64: the number of atoms of each of `elements`, then the charge.

        Those of a large batch, such as the candidates, are kept as long as the batch is.
        """
        known = _COUNTED.get(batch)
        if known is not None and known[0] == (self.labels, self.orders):
            return known[1]
        parts = [self._count(batch[first : first + CHUNK]) for first in range(0, len(batch), CHUNK)]
        counts = torch.cat(parts) if parts else torch.zeros(0, len(self.elements) + 1, dtype=torch.long)
        if len(parts) > 1:
            _COUNTED[batch] = (self.labels, self.orders), counts
        return counts

    def target(self, formula: str) -> tuple[Tensor, int]:
        """The row that a molecule of this formula has, and the number of atoms of other elements that it would need."""
        wanted = Composition.parse(formula)
        others = sum(number for element, number in wanted.counts.items() if element not in self.elements)
        return torch.tensor([*(wanted.counts.get(element, 0) for element in self.elements), wanted.charge]), others

    @cached_property
    def masses(self) -> Tensor:
        """(elements + 1,) float64: the mass of each element, and of the electron that a charge lacks."""
        from ele_graphs.molecules.rdkit_adapter import isotope_mass

        return torch.tensor([*map(isotope_mass, self.elements), -ELECTRON], dtype=torch.float64)

    def _count(self, batch: Graphs) -> Tensor:
        """As `__call__`, all at once.

        As in `rdkit_adapter.build`, a nitrogen with four bonds and an oxygen with three are positive in a molecule
        without labelled charges, and each takes a hydrogen from an atom that becomes negative, if there is one.
        """
        nodes = batch.nodes.long()
        table = {name: value.to(nodes.device) for name, value in self._tables.items()}
        orders = table["orders"].index_select(0, batch.edges.flatten().int()).view(batch.edges.shape)
        used = orders.sum(dim=2).clamp(max=table["hydrogens"].shape[1] - 1)
        degree = (batch.edges != 0).sum(dim=2)
        kinds = table["element"][nodes]
        counts = torch.zeros(len(nodes), len(self.elements) + 1, dtype=torch.long, device=nodes.device)
        counts.scatter_add_(1, kinds, (nodes != 0).long())
        charges = table["charge"][nodes]
        uncharged = (charges == 0).all(dim=1)
        positive = (table["positive"][nodes] == used).logical_and(nodes != 0).sum(dim=1) * uncharged
        negative = (table["negative"][nodes, used] & (degree == 1)).sum(dim=1)
        moved = torch.minimum(positive, negative)
        counts[:, self.elements.index("H")] += table["hydrogens"][nodes, used].sum(dim=1) - moved
        counts[:, -1] = charges.sum(dim=1) + positive - moved
        return counts

    @cached_property
    def _tables(self) -> dict[str, Tensor]:
        """By label, 0 for a virtual node: element, charge, hydrogens by bonds, bonds that imply a charge."""
        from ele_graphs.molecules.rdkit_adapter import implied_hydrogens

        hydrogens = torch.tensor([[0] * 9, *map(implied_hydrogens, self.labels)])
        negative = torch.zeros(hydrogens.shape, dtype=torch.bool)
        for code, label in enumerate(self.labels, 1):
            negative[code, list(NEGATIVE.get(label, ()))] = True
        return {
            "orders": torch.tensor(self.orders, dtype=torch.int8),
            "element": torch.tensor([0, *(self.elements.index(element_of(label)) for label in self.labels)]),
            "charge": torch.tensor([0, *map(charge_of, self.labels)]),
            "hydrogens": hydrogens,
            "positive": torch.tensor([-1, *(POSITIVE.get(label, -1) for label in self.labels)]),
            "negative": negative,
        }


class MoleculeRules(Rules[Graphs]):
    """Molecules judged by formula, mass, substructure and fingerprint."""

    space: MoleculeSpace
    Constraint = MoleculeConstraint

    def violation(self, batch: Graphs, constraint: MoleculeConstraint) -> Tensor:
        """(N,) floats: atoms too many or too few, a scaled distance of the mass, and 1 for a missing substructure.

        The substructure is looked for only where all else is right.
        """
        found, counter = torch.zeros(len(batch), device=batch.device), self.space.atom_counter
        if constraint.formula is not None:
            found += formula_violation(counter(batch), counter, constraint.formula)
        if constraint.mass is not None:
            found += mass_violation(counter(batch), counter, constraint.mass, constraint.ppm)
        if constraint.substructure is not None:
            rows = (found == 0).nonzero().flatten()
            found += 1
            found[rows[self._contains(batch[rows], constraint.substructure).to(rows.device)]] = 0
        if constraint.fingerprint is not None:
            known = self._bits(batch, constraint.fingerprint_radius, constraint.fingerprint_bits)
            wanted = frozenset(map(int, constraint.fingerprint.split()))
            found += torch.tensor([len(bits ^ wanted) / 8 for bits in known]).to(found)  # an edit changes about eight
        return found

    def costly(self, constraint: MoleculeConstraint) -> bool:
        """Fingerprints are computed by RDKit, molecule by molecule."""
        return constraint.fingerprint is not None

    def of(self, batch: Graphs, names: Sequence[str]) -> list[MoleculeConstraint]:
        """The formula, the mass or the Morgan fingerprint (radius 2, 2,048 bits) of each molecule."""
        if "fingerprint" in names:
            own = ({"fingerprint": " ".join(map(str, sorted(bits)))} for bits in self._bits(batch, RADIUS, BITS))
            others = [name for name in names if name != "fingerprint"]
            rest = self.of(batch, others)
            return [
                MoleculeConstraint.model_validate({**other.model_dump(), **bits})
                for other, bits in zip(rest, own, strict=True)
            ]
        counter = self.space.atom_counter
        counts = counter(batch)
        formulas = (
            str(Composition(dict(zip(counter.elements, row, strict=False)), row[-1])) for row in counts.tolist()
        )
        masses = (counts.double() @ counter.masses.to(batch.device)).tolist()
        found = ({"formula": formula, "mass": mass} for formula, mass in zip(formulas, masses, strict=True))
        return [MoleculeConstraint.model_validate({name: own[name] for name in names}) for own in found]

    def _contains(self, batch: Graphs, smarts: str) -> Tensor:
        from ele_graphs.molecules.rdkit_adapter import has_pattern, read_pattern

        pattern = read_pattern(smarts)
        found = [has_pattern(molecule.atoms, molecule.bonds, pattern) for molecule in self.space.unpack(batch)]
        return torch.tensor(found, dtype=torch.bool)

    def _bits(self, batch: Graphs, radius: int, bits: int) -> list[frozenset[int]]:
        """The bits of the Morgan fingerprint of each molecule; none for what is not a valid molecule."""
        from ele_graphs.molecules.rdkit_adapter import morgan_bits

        return [morgan_bits(molecule.atoms, molecule.bonds, radius, bits) for molecule in self.space.unpack(batch)]


def formula_violation(counts: Tensor, counter: AtomCounter, formula: str) -> Tensor:
    """(N,) floats: how many atoms and charges are too many or too few, a hydrogen counting less."""
    target, others = counter.target(formula)
    weights = torch.tensor([HYDROGEN if element == "H" else 1.0 for element in (*counter.elements, "charge")])
    return (counts - target.to(counts)).abs().float() @ weights.to(counts.device) + others


def mass_violation(counts: Tensor, counter: AtomCounter, mass: float, ppm: float) -> Tensor:
    """(N,) floats: 0 within the tolerance, else at least `NEAR` and larger the larger the distance."""
    off = (counts.double() @ counter.masses.to(counts.device) - mass).abs()
    return torch.where(off <= mass * ppm * 1e-6, 0.0, NEAR + off / DALTONS).float()
