"""The graph plugin: import strings only, so that listing it imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator

from ele_core.plugins import Record, hookimpl


@hookimpl
def ele_output_spaces() -> Iterator[Record]:
    """Graphs in general, and molecules."""
    yield Record("padded-graph", "ele_graphs.space:PaddedGraphSpace", "Labelled undirected graphs of bounded size.")
    yield Record("molecule", "ele_graphs.molecule_space:MoleculeSpace", "Molecules, as graphs of atoms and bonds.")


@hookimpl
def ele_encoders() -> Iterator[Record]:
    """The paper's network on relaxed graphs."""
    yield Record("rgcn", "ele_graphs.rgcn:RelationalEncoder", "Relational graph convolutions over soft adjacency.")


@hookimpl
def ele_surrogates() -> Iterator[Record]:
    """Graph kernels."""
    yield Record(
        "wl-kernel",
        "ele_graphs.wl_kernel:WLKernelSurrogate",
        "Weisfeiler-Lehman kernels, sketched: DSOKR's loss.",
    )


@hookimpl
def ele_input_spaces() -> Iterator[Record]:
    """Molecules written as text."""
    yield Record("smiles", "ele_graphs.smiles:SmilesInput", "SMILES as characters, written anew in training if asked.")


@hookimpl
def ele_tasks() -> Iterator[Record]:
    """The paper's benchmark."""
    yield Record("smi2mol", "ele_graphs.smi2mol:SmilesToMolecule", "QM9: from a SMILES string to its molecule.")
