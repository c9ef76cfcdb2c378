"""Graphs and molecules as structured outputs: a plugin of ele_core."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ele_graphs.graphs.batch import CompactGraphs, Graphs
    from ele_graphs.graphs.networkx_space import PaddedGraphSpace
    from ele_graphs.molecules.molecule import Molecule
    from ele_graphs.molecules.space import MoleculeSpace
    from ele_graphs.rgcn import RelationalEncoder
    from ele_graphs.smi2mol.task import SmilesToMolecule

__all__ = [
    "CompactGraphs",
    "Graphs",
    "Molecule",
    "MoleculeSpace",
    "PaddedGraphSpace",
    "RelationalEncoder",
    "SmilesToMolecule",
]

_HOMES = {
    "CompactGraphs": "graphs.batch",
    "Graphs": "graphs.batch",
    "Molecule": "molecules.molecule",
    "MoleculeSpace": "molecules.space",
    "PaddedGraphSpace": "graphs.networkx_space",
    "RelationalEncoder": "rgcn",
    "SmilesToMolecule": "smi2mol.task",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: neither torch nor rdkit is loaded before."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
