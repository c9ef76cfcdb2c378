"""`moses`: from SMILES to molecule on MOSES, whose molecules are two to three times as large as those of QM9."""

from __future__ import annotations

import importlib.util
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from ele_core import Context, DataError, DataSet, fingerprint
from ele_core.numerics.keys import member
from ele_graphs.graphs.batch import CompactGraphs
from ele_graphs.graphs.keys import occurring
from ele_graphs.molecules.sources import UNREADABLE, File, Source, csv_files
from ele_graphs.molecules.space import MoleculeSpace
from ele_graphs.molecules.task import LEARNED, MoleculeTask

FOLDERS = (".", "dataset/data", "moses/dataset/data")
"""Where the files are: in a folder of them, in the package, and in the wheel or the folder it was unpacked to."""
SUFFIXES = (".csv.gz", ".csv")
FIX = "Get it: pip download --no-deps molsets==0.3.1, then add --set task.path=molsets-0.3.1-py3-none-any.whl"


def moses(part: str, path: str | None = None) -> Source:
    """The SMILES of one part of MOSES: `train`, `test` or `test_scaffolds`.

    path: a wheel of molsets, its package, or a folder of CSV files; by default the installed package.
    """
    root = installed() if path is None else opened(at_home(path))
    return csv_files("MOSES", [find(root, part)], "SMILES")


def at_home(path: str) -> Path:
    """The path, with `~` read as the home folder if there is such a user."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def installed() -> Path:
    """The folder of the installed package, which is not imported: its dependencies are old."""
    specification = importlib.util.find_spec("moses")
    folders = (specification.submodule_search_locations if specification else None) or []
    if not folders:
        raise DataError("MOSES comes with the package molsets, which is not installed; its wheel is enough.", fix=FIX)
    return Path(folders[0])


def opened(path: Path) -> File:
    """A folder as it is, or the inside of a wheel."""
    if path.is_dir():
        return path
    if not path.exists():
        raise DataError("no such file or folder.", where=str(path), fix=FIX)
    try:
        return zipfile.Path(path)
    except UNREADABLE as error:
        what = f"not a folder, and cannot be read as a wheel: {error}."
        raise DataError(what, where=str(path), fix=FIX) from error


def find(root: File, part: str) -> File:
    """The file of one part in a folder or a wheel, compressed or not."""
    for folder in FOLDERS:
        for suffix in SUFFIXES:
            file = root / f"{part}{suffix}" if folder == "." else root / folder / f"{part}{suffix}"
            if file.is_file():
                return file
    raise DataError(f"holds no {part}.csv.gz and no {part}.csv.", where=str(root).rstrip("/"), fix=FIX)


ELEMENTS = ("C", "N", "O", "F", "S", "Cl", "Br")
HELD_OUT = {"scaffolds": "test_scaffolds", "test": "test"}


class Moses(MoleculeTask):
    """MOSES: canonical SMILES in, molecular graph out.

    Drug-like molecules of 8 to 27 heavy atoms, with MOSES's own split: training and validation molecules come from its
    training set (1,584,663 molecules), test molecules from its test set (176,074) or from its scaffold test set
    (176,225), whose scaffolds do not occur in training. By default the four molecules of 27 atoms are excluded. The
    data are in the wheel of `molsets`, which need not be installed.
    """

    class Config(MoleculeTask.Config):
        """Where MOSES is, how much of it, and which molecules are held out."""

        path: str | None = None
        """The wheel of molsets 0.3.1, its package, or a folder of its CSV files; by default the installed package."""
        size: int | None = Field(default=300_000, ge=1)
        """Molecules to train on, chosen by the seed. None: all that are not for validation."""
        validation: int = Field(default=500, ge=1)
        """Molecules to validate on, from the training set too; at most a tenth of it."""
        test: int = Field(default=2000, ge=1)
        """Molecules to test on, chosen by the seed."""
        split: Literal["scaffolds", "test"] = "scaffolds"
        """The molecules to test on: `scaffolds`, whose scaffolds do not occur in training, or `test`, a random set."""

    config: Config

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """Molecules of up to 26 atoms, from pieces of their SMILES: an hour and a quarter of training on one core.

        The embedding adds up neighbourhoods of atoms, and the network the contributions of the pieces.
        """
        return {
            "output": {
                "name": "molecule",
                "elements": list(ELEMENTS),
                "max_atoms": 26,
                "resonance": True,
                "radius": 3,
            },
            "input": {"name": "text", "level": "pieces", "pieces": 1000, "max_length": 80},
            "surrogate": dict(LEARNED),
            "regressor": {
                "name": "neural",
                "backbone": {"name": "gru", "layers": 2, "width": 192, "pooling": "additive"},
                "training": {"epochs": 10, "batch_size": 128, "learning_rate": 2.5e-3, "evaluations": 20},
            },
            "decoder": {"name": "search", "width": 4, "effort": 0, "rounds": 30, "patience": 2},
        }

    def load_molecules(self, space: MoleculeSpace, seed: int, context: Context) -> DataSet:
        """Load the chosen molecules, read once and cached; the outputs stay compact until a part is used."""
        known, unknown = moses("train", self.config.path), moses(HELD_OUT[self.config.split], self.config.path)
        validation, train = known.draw(seed, min(self.config.validation, known.count // 10), self.config.size)
        (test,) = unknown.draw(seed, self.config.test)
        parts = [self.read(source, space, context) for source in (train, validation, test)]
        graphs, smiles = [part.graphs for part in parts], [text for part in parts for text in part.smiles]
        outputs = CompactGraphs.cat(graphs)
        rows = _shuffled(apart(graphs, space, context), seed)
        return DataSet(
            inputs=smiles,
            outputs=outputs,
            train=rows[0],
            validation=rows[1],
            test=rows[2],
            source=f"MOSES ({len(graphs[0]):,} of its {known.count:,} training molecules)",
            fingerprint=fingerprint(smiles, outputs),
            rejected=[rejected for part in parts for rejected in part.rejected],
        )


def apart(parts: Sequence[CompactGraphs], space: MoleculeSpace, context: Context) -> list[Tensor]:
    """For each of training, validation and test (B,) bool: which molecules do not occur in a later part."""
    train, validation, test = parts
    validated, tested = space.keys(validation[:]), space.keys(test[:])
    known = occurring(train, torch.cat([validated, tested]), context, "leaving out held-out molecules", space.keys)
    kept = [~known, ~member(validated, of=tested), torch.ones(len(test), dtype=torch.bool)]
    if left_out := sum(len(part) - int(part.sum()) for part in kept):
        context.monitor.message(f"MOSES: molecules left out because they are held out as well: {left_out:,}")
    return kept


def _shuffled(kept: Sequence[Tensor], seed: int) -> list[Tensor]:
    """The rows of each part that are kept, in an order chosen by the seed; the parts follow one another."""
    rows, first = [], 0
    for mask in kept:  # each with the seed itself: the order of one part does not depend on another's size
        order = torch.randperm(len(mask), generator=torch.Generator().manual_seed(seed))
        rows.append(first + order[mask[order]])
        first += len(mask)
    return rows
