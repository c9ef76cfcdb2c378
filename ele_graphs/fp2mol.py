"""`fp2mol`: from a Morgan fingerprint to its molecule, on QM9 or MOSES."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from ele_core import Context, DataSet, Reference, Row, Scale, Study, Table
from ele_core import fingerprint as hashed
from ele_graphs.molecules.inputs import BITS, RADIUS, fingerprints
from ele_graphs.molecules.space import MoleculeSpace
from ele_graphs.molecules.task import LEARNED, MoleculeTask
from ele_graphs.moses import ELEMENTS, Moses
from ele_graphs.smi2mol.task import SmilesToMolecule

METRICS = ("exact", "ged_with_edges", "ged_without_edges")
SMALL = Scale(
    "5,000 training molecules of QM9 and 500 for the test; about ten minutes on two cores.",
    ("task.size=6000", "task.test=500", "task.validation=500"),
)
FULL = Scale("QM9 with the split of smi2mol, 1,000 of its test molecules; about an hour on two cores.", limit=1000)
MOSES = Scale(
    "300,000 training molecules of MOSES, 500 test molecules with other scaffolds; about two hours on two cores.",
    ("task.source=moses",),
    limit=500,
)
OURS = {"small": ("regressor.training.epochs=60", "regressor.backbone.dropout=0.1")}
RIDGE = ("regressor=sketched-ridge", "regressor.kernel=tanimoto")
SISOKR = ("surrogate=wl-kernel", *RIDGE, "regressor.weigh_errors=false")

QM9_TABLE = Table(
    name="fp2mol",
    title="Molecules of QM9 from their fingerprints",
    scales={"small": SMALL, "full": FULL},
    metrics=METRICS,
    rows=(
        Row("copying", ("regressor=nearest-input", "decoder=candidates"), minutes={"small": 0.2, "full": 2}),
        Row("SISOKR", (*SISOKR, "decoder=candidates"), minutes={"small": 0.3, "full": 7}),
        Row("ridge, search", RIDGE, minutes={"small": 1, "full": 8}),
        Row("ours, candidates", ("decoder=candidates",), OURS, minutes={"small": 3, "full": 20}),
        Row("ours, search", (), OURS, reference="Any2Graph", minutes={"small": 1, "full": 3}),
        Row("ours, search for the fingerprint", (), OURS, given=("fingerprint",), minutes={"small": 2, "full": 8}),
        Row("ours, search from the true embedding", (), OURS, oracle=True, minutes={"small": 1, "full": 3}),
    ),
)
MOSES_TABLE = Table(
    name="fp2mol-moses",
    title="Molecules of MOSES from their fingerprints",
    scales={"full": MOSES},
    files={"moses": "task.path"},
    metrics=METRICS,
    rows=(
        Row("copying", ("regressor=nearest-input", "decoder=candidates"), files=("moses",), minutes={"full": 8}),
        Row("ours, search", (), files=("moses",), minutes={"full": 60}),
        Row("ours, search for the fingerprint", (), files=("moses",), given=("fingerprint",), minutes={"full": 12}),
        Row("ours, search from the true embedding", (), files=("moses",), oracle=True, minutes={"full": 8}),
    ),
)
STUDIES = (QM9_TABLE, MOSES_TABLE)


MOSES_SIZE = 300_000
ANY2GRAPH = (
    "arXiv:2402.12269 (Fingerprint2Graph): QM9, the share of predicted graphs that are isomorphic to the truth, on a "
    "split of its own and by a looser measure than `exact`"
)


class FingerprintToMolecule(MoleculeTask):
    """Morgan fingerprints in, molecular graphs out, on QM9 or MOSES.

    A fingerprint says which neighbourhoods of atoms occur in a molecule, not where or how often. The molecules and
    their split are those of the tasks `smi2mol` (QM9) and `moses`.
    """

    class Config(MoleculeTask.Config):
        """Which molecules, how they are split, and their fingerprints."""

        source: Literal["qm9", "moses"] = "qm9"
        """The molecules: `qm9`, up to 9 atoms, or `moses`, drug-like molecules of up to 26 atoms."""
        path: str | None = None
        """For `moses`, the wheel of molsets 0.3.1, its package, or a folder of its CSV files."""
        size: int | None = Field(default=None, ge=10)
        """The number of molecules, chosen by the seed: of QM9 read, by default all; of MOSES trained on, by default
        300,000."""
        validation: int = Field(default=500, ge=1)
        """Molecules to validate on; at most a tenth of all."""
        test: int = Field(default=2000, ge=1)
        """Molecules to test on; of QM9 at most a fifth of all."""
        split: Literal["scaffolds", "test"] = "scaffolds"
        """The test molecules of MOSES: `scaffolds`, whose scaffolds do not occur in training, or `test`, a random set.
        """
        radius: int = Field(default=RADIUS, ge=0, le=16)
        """The radius of the neighbourhoods of atoms that are bits of a fingerprint."""
        bits: int = Field(default=BITS, ge=16, le=1 << 24)
        """The number of bits of a fingerprint; neighbourhoods may share one."""

    config: Config

    references: ClassVar[Sequence[Reference]] = (Reference("Any2Graph", {"exact": 0.2985}, ANY2GRAPH),)
    studies: ClassVar[Sequence[Study]] = STUDIES

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Molecules of QM9: up to 9 atoms."""
        return {
            "output": {"name": "molecule", "resonance": True, "radius": 3},
            "input": {"name": "fingerprint"},
            "surrogate": dict(LEARNED),
            "regressor": {
                "name": "neural",
                "backbone": {"name": "bag", "layers": 3, "width": 512},
                "training": {"epochs": 15, "batch_size": 128, "learning_rate": 2.5e-3, "evaluations": 20},
            },
            "decoder": {"name": "search", "width": 4, "effort": 2, "rounds": 30, "patience": 2},
        }

    @classmethod
    def defaults_for(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """Molecules of MOSES have more elements and up to 26 atoms, and there are more of them."""
        found = cls.defaults()
        if options.get("source") == "moses":
            found["output"] |= {"elements": list(ELEMENTS), "max_atoms": 26}
            found["surrogate"] = {"name": "parts", "dim": 512}
            found["regressor"] |= {"weigh_errors": False}
            found["regressor"]["training"] |= {"epochs": 4}
        return found

    def load_molecules(self, space: MoleculeSpace, seed: int, context: Context) -> DataSet:
        """Load the molecules of another task, and replace their SMILES by fingerprints, computed once and cached."""
        data = self._molecules().load_molecules(space, seed, context)
        config = self.config
        return dataclasses.replace(
            data,
            inputs=fingerprints(data.inputs, config.radius, config.bits, context),
            fingerprint=hashed([data.fingerprint, f"radius {config.radius}, {config.bits} bits"]),
        )

    def _molecules(self) -> MoleculeTask:
        """The task that has the molecules, with SMILES as inputs."""
        config = self.config
        shared: dict[str, Any] = config.model_dump(include={"split_seed", "processes", "validation", "test"})
        if config.source == "qm9":
            return SmilesToMolecule(SmilesToMolecule.Config(**shared, size=config.size))
        size = config.size or MOSES_SIZE
        return Moses(Moses.Config(**shared, size=size, path=config.path, split=config.split))
