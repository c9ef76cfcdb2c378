"""The spectra of a file with their molecules, what cannot be used and why, and which molecules are held out."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ele_core import DataError
from ele_core.data.objects import Rejected
from ele_core.errors import InvalidInput
from ele_graphs.graphs.batch import CompactGraphs
from ele_graphs.molecules.sources import Molecules, Source
from ele_graphs.ms2mol.files import Record, read
from ele_graphs.ms2mol.spectrum import Spectrum, merged

LARGE = 0.01
"""Scaffolds of more than this share of the molecules are for training: one could be most of a small test set."""
TRAIN, VALIDATION, TEST = 0, 1, 2


def by_hash(names: Sequence[str], validation: float, test: float) -> Tensor:
    """(M,) int64: 0, 1 or 2 for training, validation and test, by the hash of each name alone."""
    return torch.tensor([_part(name, validation, test) for name in names], dtype=torch.int64)


def by_scaffold(scaffolds: Sequence[str], names: Sequence[str], validation: float, test: float) -> Tensor:
    """(M,) as `by_hash`, with all molecules of a scaffold on the same side; those without one follow their names.

    Scaffolds of more than 1 % of the molecules are for training, which thereby gets more than its share.
    """
    counts = Counter(scaffolds)
    common = {scaffold for scaffold, count in counts.items() if scaffold and count > LARGE * len(scaffolds)}
    pairs = zip(scaffolds, names, strict=True)
    return torch.tensor(
        [TRAIN if scaffold in common else _part(scaffold or name, validation, test) for scaffold, name in pairs],
        dtype=torch.int64,
    )


def _part(name: str, validation: float, test: float) -> int:
    place = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") / 2**64
    return TEST if place < test else VALIDATION if place < test + validation else TRAIN


BLOCK = 14
"""The length of the first block of an InChIKey, which molecules that differ only in stereo share."""


@dataclass(frozen=True)
class Library:
    """Spectra, and the molecule that each is of."""

    spectra: list[Spectrum]
    molecule: Tensor
    """(N,) int64: the place of each spectrum's molecule."""
    rows: list[int]
    """The place of each spectrum in the file."""
    names: list[str]
    """The first block of the InChIKey of each molecule, or its SMILES if the file has none."""
    smiles: list[str]
    graphs: CompactGraphs
    rejected: list[Rejected]
    digest: str

    def groups(self) -> dict[tuple[int, str], list[int]]:
        """The places of the spectra of each molecule and adduct."""
        groups: dict[tuple[int, str], list[int]] = {}
        for place, (spectrum, molecule) in enumerate(zip(self.spectra, self.molecule.tolist(), strict=True)):
            groups.setdefault((molecule, spectrum.adduct.name), []).append(place)
        return groups

    def some(self, most: int | None, seed: int) -> list[int]:
        """The places of at most `most` spectra of each molecule and adduct, chosen by the seed, ascending."""
        order = torch.randperm(len(self.spectra), generator=torch.Generator().manual_seed(seed)).tolist()
        groups = self.groups().values()
        return sorted(place for places in groups for place in sorted(places, key=order.__getitem__)[:most])

    def merged(self) -> tuple[list[Spectrum], Tensor, list[int]]:
        """One spectrum for each molecule and adduct: the spectra, their molecules, the first row of each."""
        groups = self.groups()
        spectra = [merged([self.spectra[place] for place in places]) for places in groups.values()]
        molecules = torch.tensor([molecule for molecule, _ in groups], dtype=torch.int64)
        return spectra, molecules, [self.rows[places[0]] for places in groups.values()]


def load(path: str, read_molecules: Callable[[Source], Molecules]) -> Library:
    """Read the spectra of a file or folder; each that cannot be used is among `rejected`, with the reason.

    Spectra with the same first block of the InChIKey are of one molecule, which has the SMILES of the first.
    """
    records, digest = read(path)
    found, rejected = [], []
    smiles: dict[str, str] = {}
    for row, record in enumerate(records):
        try:
            spectrum, name = record.spectrum(), identity(record)
        except InvalidInput as error:
            rejected.append(Rejected(row, record.fields.get("name", ""), error.reason, record.line))
            continue
        found.append((row, spectrum, name))
        smiles.setdefault(name, record.smiles())
    molecules = read_molecules(source_of(path, list(smiles.values())))
    refused = {each.row: each.reason for each in molecules.rejected}
    names = [name for place, name in enumerate(smiles) if place not in refused]
    reasons = {name: refused[place] for place, name in enumerate(smiles) if place in refused}
    place_of = {name: place for place, name in enumerate(names)}
    kept = [(row, spectrum, place_of[name]) for row, spectrum, name in found if name in place_of]
    rejected += [
        Rejected(row, smiles[name], reasons[name], records[row].line) for row, _, name in found if name in reasons
    ]
    if not kept:
        what = "no spectrum can be used" + (f"; the first: {rejected[0]}" if rejected else ".")
        raise DataError(what, where=path)
    rows, spectra, place = map(list, zip(*kept, strict=True))
    return Library(spectra, torch.tensor(place), rows, names, molecules.smiles, molecules.graphs, rejected, digest)


def identity(record: Record) -> str:
    """What spectra of the same molecule share: the first block of the InChIKey, or else the SMILES."""
    smiles = record.smiles()
    return record.fields.get("inchikey", "")[:BLOCK] or smiles


def source_of(path: str, smiles: list[str]) -> Source:
    """The SMILES of the molecules, to be read and cached."""
    digest = hashlib.sha256("\n".join(smiles).encode()).hexdigest()
    return Source(path.rsplit("/", 1)[-1], digest, len(smiles), lambda: smiles)
