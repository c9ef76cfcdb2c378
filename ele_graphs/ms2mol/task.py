"""`ms2mol`: from the tandem mass spectrum of a molecule to the molecule."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from ele_core import ConfigError, Context, DataError, DataSet, Reference, Row, Scale, Study, Table
from ele_core.data.objects import Rejected
from ele_core.errors import InvalidInput
from ele_graphs.graphs.batch import CompactGraphs
from ele_graphs.molecules.sources import Molecules, Source, smiles_files
from ele_graphs.molecules.space import MoleculeSpace
from ele_graphs.molecules.task import MoleculeTask
from ele_graphs.ms2mol.files import Record, read
from ele_graphs.ms2mol.rivals import FingerprintNetwork, ModifiedCosine
from ele_graphs.ms2mol.spectrum import Spectrum, merged

FILES = ("spectra",)
"""The file of spectra is given as a path: `ele reproduce ms2mol --file spectra=FILE.msp`."""
SISOKR = (
    "surrogate=wl-kernel",
    "regressor=sketched-ridge",
    "regressor.weigh_errors=false",
    "regressor.kernel=gaussian",
    "regressor.width=1",
    "regressor.sketch.size=4000",
    "regressor.penalties=[1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6]",
    "decoder=candidates",
)

NETWORK = (
    "task.merge=held-out",
    "regressor=neural",
    "regressor.weigh_errors=false",
    "regressor.backbone=peaks",
    "regressor.backbone.dropout=0.3",
    "regressor.training.epochs=40",
    "regressor.training.batch_size=256",
    "regressor.training.learning_rate=2e-3",
    "regressor.training.weight_decay=0.01",
)

TABLE = Table(
    name="ms2mol",
    title="Molecules from tandem mass spectra",
    scales={
        "full": Scale("all molecules of the file, 100 test spectra; half an hour on two cores.", limit=100),
        "scaffold": Scale("the same with a split by Murcko scaffolds.", ("task.split=scaffold",), limit=100),
    },
    files={"spectra": "task.path"},
    metrics=("exact", "ged_with_edges"),
    rows=(
        Row("modified cosine", rival=ModifiedCosine(), files=FILES, minutes={"full": 1, "scaffold": 1}),
        Row("network to fingerprints", rival=FingerprintNetwork(), files=FILES, minutes={"full": 6, "scaffold": 6}),
        Row("SISOKR", SISOKR, files=FILES, minutes={"full": 2, "scaffold": 2}),
        Row("ours, network", NETWORK, files=FILES, minutes={"full": 10, "scaffold": 10}),
        Row("ours", files=FILES, minutes={"full": 4, "scaffold": 4}),
        Row("ours, true embedding", oracle=True, files=FILES, minutes={"full": 2, "scaffold": 2}),
    ),
)
STUDIES = (TABLE,)


ELEMENTS = ("C", "N", "O", "F", "S", "Cl", "Br", "I", "P", "Si", "N+", "O-")
"""The elements of more than a handful of MassBank's molecules, with the charges of nitro groups and quaternary ions."""


class SpectrumToMolecule(MoleculeTask):
    """Tandem mass spectrum in, molecular graph out.

    The spectra come from a file of the user: MSP, MGF or MassBank records, with the SMILES of each. A tenth of the
    molecules, chosen by a hash, is for the test and a tenth for validation; no molecule is on two sides.
    """

    class Config(MoleculeTask.Config):
        """Where the spectra are, how they are split, and which are merged."""

        path: str | None = None
        """The spectra: an MSP or MGF file, a MassBank record, each also as .gz, or a folder of MassBank records."""
        split: Literal["molecule", "scaffold"] = "molecule"
        """`molecule`: by a hash of the first block of the InChIKey, or of the SMILES without one. `scaffold`: molecules
        with the same Murcko scaffold are on the same side, which is harder."""
        validation: float = Field(default=0.1, gt=0, lt=0.5)
        """The share of molecules to validate on."""
        test: float = Field(default=0.1, gt=0, lt=0.5)
        """The share of molecules to test on."""
        merge: Literal["all", "held-out", "none"] = "all"
        """The spectra of one molecule and adduct, such as those at several collision energies. `all`: they are merged
        into one. `held-out`: so for validation and test, but training has single spectra beside the merged ones, which
        suits networks. `none`: each on its own."""
        spectra: int | None = Field(default=3, ge=1)
        """With `held-out`, the maximum number of single spectra of one molecule and adduct to train on, chosen by the
        seed; some have a hundred. None: all."""
        extra: str | None = None
        """More molecules for output pre-training, without spectra: a file of SMILES or a folder of them."""

    config: Config

    references: ClassVar[Sequence[Reference]] = (
        Reference("MIST + MolForge", {"exact": 0.28}, "arXiv:2508.04180: MassSpecGym, another and larger data set"),
    )
    studies: ClassVar[Sequence[Study]] = STUDIES

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Molecules of up to 40 atoms by a kernel on peaks: two minutes of training on one core.

        A spectrum tells neighbourhoods of one bond better than wider ones, and a kernel learns more than a network from
        a few thousand molecules.
        """
        return {
            "output": {
                "name": "molecule",
                "elements": list(ELEMENTS),
                "charges": "labels",
                "max_atoms": 40,
                "resonance": True,
                "radius": 1,
            },
            "input": {"name": "spectrum", "drop": 0.3, "jitter": 0.3},
            "surrogate": {"name": "centred-parts", "dim": 512},
            "regressor": {
                "name": "sketched-ridge",
                "kernel": "gaussian",
                "width": 1.0,
                "sketch": {"size": 4000},
                "penalties": [10.0 ** (-power / 2) for power in range(6, 13)],
                "weigh_errors": False,
            },
            "decoder": {"name": "search", "width": 4, "rounds": 40, "patience": 2},
        }

    def load_molecules(self, space: MoleculeSpace, seed: int, context: Context) -> DataSet:
        """Load the spectra and their molecules; `seed` chooses only their order."""
        if self.config.path is None:
            what = "the file of spectra is missing."
            raise ConfigError(what, where="task.path", fix="Add --set task.path=FILE.msp (or .mgf, or a folder).")
        library = load(self.config.path, lambda source: self.read(source, space, context))
        spectra, molecule, rows, side = self._examples(library, space, seed)
        parts = [_shuffled(side == part, seed) for part in (TRAIN, VALIDATION, TEST)]
        context.monitor.message(_account(library))
        return DataSet(
            inputs=spectra,
            outputs=CompactGraphs(library.graphs.codes[molecule]),
            train=parts[0],
            validation=parts[1],
            test=parts[2],
            source=f"{self.config.path} ({len(library.names):,} molecules)",
            fingerprint=library.digest,
            extra=self._extra(space, context),
            rejected=library.rejected,
            rows=rows,
        )

    def _examples(
        self, library: Library, space: MoleculeSpace, seed: int
    ) -> tuple[list[Spectrum], Tensor, list[int], Tensor]:
        """The spectra of all examples, with the molecule (N,), the row and the side (N,) of each."""
        side, merge = self.sides(library, space), self.config.merge
        singles: list[int] = list(range(len(library.spectra))) if merge == "none" else []
        if merge == "held-out":
            singles = [
                place for place in library.some(self.config.spectra, seed) if side[library.molecule[place]] == TRAIN
            ]
        spectra, molecule, rows = ([], torch.zeros(0).long(), []) if merge == "none" else library.merged()
        spectra = [library.spectra[place] for place in singles] + spectra
        molecule = torch.cat([library.molecule[singles], molecule])
        return spectra, molecule, [library.rows[place] for place in singles] + rows, side[molecule]

    def sides(self, library: Library, space: MoleculeSpace) -> Tensor:
        """(M,) the side of each molecule; molecules with equal graphs follow the first of them."""
        shares = self.config.validation, self.config.test
        if self.config.split == "scaffold":
            from ele_graphs.molecules.rdkit_adapter import scaffold

            found = by_scaffold([scaffold(smiles) for smiles in library.smiles], library.names, *shares)
        else:
            found = by_hash(library.names, *shares)
        first: dict[tuple[int, ...], int] = {}
        for place, key in enumerate(map(tuple, space.keys(library.graphs[:]).tolist())):
            found[place] = found[first.setdefault(key, place)]
        return found

    def _extra(self, space: MoleculeSpace, context: Context) -> CompactGraphs | None:
        if self.config.extra is None:
            return None
        source = smiles_files(self.config.extra)
        molecules: Molecules = self.read(source, space, context)
        context.monitor.message(f"{source.name}: {len(molecules.graphs):,} molecules for output pre-training")
        return molecules.graphs


def _shuffled(chosen: Tensor, seed: int) -> Tensor:
    """The rows where `chosen` is true, in an order chosen by the seed."""
    rows = chosen.nonzero().flatten()
    return rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))]


def _account(library: Library) -> str:
    """How many molecules and spectra there are, and how many spectra were rejected, by reason."""
    found = f"{len(library.names):,} molecules with {len(library.spectra):,} spectra"
    if not library.rejected:
        return found
    large = sum("atoms, more than" in each.reason for each in library.rejected)
    others = len(library.rejected) - large
    return f"{found}; left out: {large:,} spectra of molecules above max_atoms, {others:,} others"


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
    texts = list(smiles.values())
    key = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    molecules = read_molecules(Source(path.rsplit("/", 1)[-1], key, len(texts), lambda: texts))
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
