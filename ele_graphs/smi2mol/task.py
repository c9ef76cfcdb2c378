"""`smi2mol`: the paper's benchmark, from SMILES to molecule on QM9, with GDB-11 for output pre-training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field
from torch import Tensor

from ele_core import Context, DataSet, Reference, Study, fingerprint, split
from ele_core.experiments.ranges import Range
from ele_graphs.graphs.batch import CompactGraphs, Graphs
from ele_graphs.graphs.keys import graph_keys, occurring
from ele_graphs.molecules import sources as datasets
from ele_graphs.molecules.sources import Molecules, Source
from ele_graphs.molecules.space import MoleculeSpace
from ele_graphs.molecules.task import MoleculeTask
from ele_graphs.smi2mol.studies import RANGES, STUDIES

PAPER = "arXiv:2411.11682, Table 1 (SMI2Mol): QM9, 2,000 test molecules, mean of five seeds"


def _row(name: str, without_edges: tuple[float, float], with_edges: tuple[float, float] | None) -> Reference:
    """A row of the paper's table: mean and standard deviation of each metric."""
    found = {} if with_edges is None else {"ged_with_edges": with_edges}
    found["ged_without_edges"] = without_edges
    means, deviations = ({name: pair[place] for name, pair in found.items()} for place in (0, 1))
    return Reference(name, means, PAPER, deviations)


class SmilesToMolecule(MoleculeTask):
    """QM9: canonical SMILES in, molecular graph out.

    The protocol of the paper: 2,000 test molecules, then 500 for validation, the rest for training. qm9pack has 130,828
    molecules of two or more atoms, those that passed the data set's consistency check; the paper has 133,882.
    """

    class Config(MoleculeTask.Config):
        """How much of QM9, how it is split, and outputs for pre-training."""

        size: int | None = Field(default=None, ge=10)
        """Read only this many rows, chosen by the seed; by default all."""
        test: int = Field(default=2000, ge=1)
        """Molecules to test on; at most a fifth of all."""
        validation: int = Field(default=500, ge=1)
        """Molecules to validate on; at most a tenth of all."""
        extra: str | None = None
        """GDB-11 for output pre-training: a file of SMILES or a folder of them. Set output.max_atoms = 11 as well."""
        exclude_test: bool = False
        """Whether to exclude the test molecules from the extra outputs. The paper keeps them."""

    config: Config

    references: ClassVar[Sequence[Reference]] = (
        _row("SISOKR", (3.330, 0.080), (4.192, 0.109)),
        _row("NNBary-FGW", (5.115, 0.129), None),
        _row("Sketched ILE-FGW", (2.998, 0.253), None),
        _row("DSOKR", (1.951, 0.074), (2.960, 0.079)),
        _row("ELE", (2.305, 0.033), (2.444, 0.039)),
        _row("ELE + ONNPT", (2.164, 0.058), (2.291, 0.083)),
        _row("ELE + ONNPT + PGDBD", (2.131, 0.075), (2.252, 0.102)),
    )
    studies: ClassVar[Sequence[Study]] = STUDIES
    ranges: ClassVar[Mapping[str, Range]] = RANGES

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Molecules of up to 9 atoms from characters: an hour of training on two cores.

        Views are random edits: structures with similar embeddings have a small edit distance. Negatives are similar
        structures: the embedding tells them apart.
        """
        edits = {"drop-nodes": 0.05, "relabel-nodes": 0.15, "perturb-edges": 0.12}
        return {
            "output": {"name": "molecule", "augmentations": [{"name": n, "rate": r} for n, r in edits.items()]},
            "input": {"name": "text", "level": "character", "max_length": 40},
            "surrogate": {
                "name": "contrastive",
                "encoder": {"name": "rgcn", "width": 96},
                "mining": {"group": 32},
                "training": {"epochs": 14, "batch_size": 512, "evaluations": 14},
            },
            "regressor": {
                "name": "neural",
                "backbone": {"name": "gru", "layers": 2, "width": 256},
                "training": {"epochs": 10, "batch_size": 128, "learning_rate": 2e-3, "evaluations": 20},
                "weigh_errors": False,
            },
            "decoder": {"name": "search"},
        }

    def load_molecules(self, space: MoleculeSpace, seed: int, context: Context) -> DataSet:
        """Load QM9, read once and cached, packed by `space`; extra outputs stay on disk, memory-mapped."""
        source = datasets.qm9()
        (chosen,) = source.draw(seed, self.config.size)
        molecules = self.read(chosen, space, context)
        outputs, smiles = molecules.graphs[:], molecules.smiles
        train, validation, test = self._split(len(smiles), seed, context)
        return DataSet(
            inputs=smiles,
            outputs=outputs,
            train=train,
            validation=validation,
            test=test,
            source=source.name if self.config.size is None else f"{source.name} ({len(smiles):,} of its molecules)",
            fingerprint=fingerprint(smiles, outputs),
            extra=self._extra(space, outputs[test], context),
            rejected=molecules.rejected,
        )

    def _split(self, count: int, seed: int, context: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Split as configured, but at most a tenth for validation and a fifth for the test."""
        asked = self.config.validation, self.config.test
        taken = min(asked[0], count // 10), min(asked[1], count // 5)
        if taken != asked:
            used = f"{taken[0]} of {count:,} molecules for validation and {taken[1]} for the test"
            wanted = f"task.validation={asked[0]} and task.test={asked[1]}"
            context.monitor.message(f"Using {used}, at most a tenth and a fifth, instead of {wanted}")
        return split(count, *taken, seed)

    def _extra(self, space: MoleculeSpace, test: Graphs, context: Context) -> CompactGraphs | None:
        """Load the extra outputs, and report how many were read and rejected."""
        if self.config.extra is None:
            return None
        source = datasets.smiles_files(self.config.extra)
        molecules = self.read(source, space, context)
        context.monitor.message(_account(source, molecules))
        if not self.config.exclude_test:
            return molecules.graphs
        kept = without(molecules.graphs, graph_keys(test), context)
        left_out = len(molecules.graphs) - len(kept)
        context.monitor.message(f"{source.name}: test molecules left out: {left_out:,}")
        return kept


def without(graphs: CompactGraphs, keys: Tensor, context: Context) -> CompactGraphs:
    """The graphs whose key is not among `keys` (N, 2), in another order.

    The last rows replace those removed: of a memory-mapped file only the pages written to are copied into memory.
    """
    hit = occurring(graphs, keys, context, "leaving out test molecules")
    count = int((~hit).sum())
    holes, fillers = hit[:count].nonzero()[:, 0], (~hit[count:]).nonzero()[:, 0] + count
    graphs.codes[holes] = graphs.codes[fillers]
    return CompactGraphs(graphs.codes[:count])


def _account(source: Source, molecules: Molecules) -> str:
    """How many molecules were read, and how many rows were rejected, by reason."""
    refused = molecules.reasons.total()
    text = f"{source.name}: extra outputs: {len(molecules.graphs):,}"
    if not refused:
        return text
    reasons = "; ".join(f"{count:,} × {reason}" for reason, count in molecules.reasons.most_common(5))
    return f"{text}, rows left out: {refused:,} ({reasons}): {molecules.folder / 'rejected.jsonl'}"
