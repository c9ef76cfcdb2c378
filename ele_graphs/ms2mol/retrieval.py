"""Retrieval: the rank of the true molecule among all candidates, or those of its mass or formula."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ele_core import DataSet
from ele_graphs.graphs.batch import Graphs
from ele_graphs.molecules.constraints import MoleculeRules
from ele_graphs.molecules.space import MoleculeSpace

RADIUS, BITS = 2, 2048
"""The Morgan fingerprints by which molecules are compared."""
WITHIN, PPM = "10 ppm", 10.0
TOP = (1, 5, 20)


@dataclass(frozen=True, eq=False)
class Candidates:
    """The different molecules of a data set, and which of them each query may choose from."""

    batch: Graphs
    fingerprints: Tensor
    """(N, 2048) floats, 0 or 1."""
    place: Tensor
    """(pairs,) int64: the candidate that is the output of each pair of the data set."""

    @classmethod
    def of(cls, data: DataSet, space: MoleculeSpace) -> Candidates:
        """All molecules of a data set, the held-out ones too, each once."""
        outputs = data.outputs[:]
        _, place = space.keys(outputs).unique(dim=0, return_inverse=True)
        first = torch.full((int(place.max()) + 1,), len(outputs)).scatter_reduce_(
            0, place, torch.arange(len(outputs)), "amin"
        )
        batch = outputs[first]
        return cls(batch, fingerprints(batch, space), place)

    def sets(self, data: DataSet, rows: Tensor, space: MoleculeSpace) -> dict[str, Tensor]:
        """(B, N) bool for each set of candidates, by its name: all, those within 10 ppm, those of the same formula."""
        known: list[Any] = MoleculeRules(space).of(self.batch, ["formula", "mass"])
        masses = torch.tensor([each.mass for each in known], dtype=torch.float64)
        wanted = torch.tensor([data.inputs[row].neutral_mass for row in rows.tolist()], dtype=torch.float64)
        formulas = {formula: place for place, formula in enumerate(dict.fromkeys(each.formula for each in known))}
        formula = torch.tensor([formulas[each.formula] for each in known])
        return {
            "all": torch.ones(len(rows), len(self.batch), dtype=torch.bool),
            WITHIN: (masses - wanted[:, None]).abs() <= PPM * 1e-6 * wanted[:, None],
            "same formula": formula == formula[self.place[rows]][:, None],
        }


def fingerprints(batch: Graphs, space: MoleculeSpace) -> Tensor:
    """The Morgan fingerprints (B, 2048) of molecules, as 0 and 1; all 0 for one that is not valid."""
    from ele_graphs.molecules.rdkit_adapter import morgan

    found = torch.zeros(len(batch), BITS)
    for row, molecule in enumerate(space.unpack(batch)):
        if molecule.smiles is not None:
            found[row, list(morgan(molecule.smiles, RADIUS, BITS))] = 1
    return found


def tanimoto(one: Tensor, other: Tensor) -> Tensor:
    """The Tanimoto similarity of every row of two sets of fingerprints: (A, bits), (B, bits) → (A, B)."""
    shared = one @ other.T
    return shared / (one.sum(dim=1, keepdim=True) + other.sum(dim=1) - shared).clamp(min=1)


def ranks(scores: Tensor, truth: Tensor, allowed: Tensor) -> Tensor:
    """(B,) floats: how many allowed candidates come before the truth, ties by half; infinite if it is not allowed."""
    own = scores.gather(1, truth[:, None])
    better = ((scores > own) & allowed).sum(dim=1)
    equal = ((scores == own) & allowed).sum(dim=1) - 1
    return torch.where(allowed.gather(1, truth[:, None])[:, 0], better + equal / 2, torch.inf)


def measured(scores: Tensor, truth: Tensor, sets: Mapping[str, Tensor]) -> dict[str, dict[str, float]]:
    """For each set of candidates: the share of truths among the first 1, 5 and 20, and those with several candidates.

    `top_1_of_several` is the share of truths that come first where there are two candidates or more.
    """
    found = {}
    for name, allowed in sets.items():
        rank, several = ranks(scores, truth, allowed), allowed.sum(dim=1) > 1
        shares = {f"top_{top}": (rank < top).float().mean().item() for top in TOP}
        own = (rank[several] < 1).float().mean().item() if several.any() else 0.0
        found[name] = {**shares, "top_1_of_several": own, "several": int(several.sum())}
    return found
