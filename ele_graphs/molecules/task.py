"""`MoleculeTask`: what the tasks from SMILES to molecules share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from ele_core import ComponentConfig, ConfigError, Context, DataSet, OutputSpace, Task
from ele_graphs.molecules.sources import Molecules, Source, load
from ele_graphs.molecules.space import MoleculeSpace

LEAST_ATOMS = 2
LEARNED: Mapping[str, Any] = {
    "name": "contrastive",
    "dim": 1024,
    "encoder": {"name": "neighbourhoods"},
    "spherical": False,
    "training": None,
    "decisions": {"pairs": 3000, "epochs": 4, "batch_size": 64, "learning_rate": 3e-3, "evaluations": 5},
}
"""The surrogate of tasks on many molecules: a sum over neighbourhoods, trained with some of the pairs."""


class MoleculeTask(Task):
    """A task that reads its molecules from SMILES, of two or more atoms."""

    class Config(ComponentConfig):
        """How molecules are drawn and read."""

        split_seed: int | None = Field(default=None, ge=0)
        """Chooses the molecules and the split; by default the seed of the run."""
        processes: int | None = Field(default=None, ge=0)
        """Worker processes that read SMILES; by default one per processor. 0: read in the main process."""

    config: Config

    def load(self, space: OutputSpace[Any, Any], context: Context) -> DataSet:
        """Load the pairs, packed by `space`, which must be one of molecules."""
        if not isinstance(space, MoleculeSpace):
            what = f"this task predicts molecules, not objects of {type(space).__name__}."
            raise ConfigError(what, where="output", fix='Set output = "molecule".')
        seed = context.seed if self.config.split_seed is None else self.config.split_seed
        return self.load_molecules(space, seed, context)

    @abstractmethod
    def load_molecules(self, space: MoleculeSpace, seed: int, context: Context) -> DataSet:
        """Load the pairs; `seed` chooses the molecules and the split."""

    def read(self, source: Source, space: MoleculeSpace, context: Context) -> Molecules:
        """Read the molecules of `source` that `space` holds, from the cache if they were read before."""
        return load(source, space.limits(min_atoms=LEAST_ATOMS), context, self.config.processes)
