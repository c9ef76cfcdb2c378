"""The graph plugin. It has import strings only: listing it imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ele_core import Record, hookimpl

molecular = partial(Record, needs=("rdkit",), extra="molecules")


@hookimpl
def ele_output_spaces() -> Iterator[Record]:
    """Graphs in general, of coloured cells, and molecules."""
    yield Record(
        "padded-graph",
        "ele_graphs.graphs.networkx_space:PaddedGraphSpace",
        "Labelled undirected graphs of bounded size.",
    )
    yield Record(
        "cell-graph",
        "ele_graphs.coloring.space:CellGraphSpace",
        "Graphs of coloured nodes, such as the cells of a map.",
    )
    yield molecular("molecule", "ele_graphs.molecules.space:MoleculeSpace", "Molecules, as graphs of atoms and bonds.")


@hookimpl
def ele_encoders() -> Iterator[Record]:
    """The paper's network on relaxed graphs."""
    yield Record("rgcn", "ele_graphs.rgcn:RelationalEncoder", "Relational graph convolutions over soft adjacency.")
    yield Record(
        "neighbourhoods",
        "ele_graphs.neighbourhoods:NeighbourhoodEncoder",
        "Smooth random features of the neighbourhoods of nodes, added up.",
    )


@hookimpl
def ele_surrogates() -> Iterator[Record]:
    """Graph kernels, and a distance between graphs."""
    yield Record(
        "wl-kernel",
        "ele_graphs.rivals.wl_kernel:WLKernelSurrogate",
        "Sketched Weisfeiler-Lehman kernels: the loss of DSOKR.",
    )
    yield Record(
        "fgw",
        "ele_graphs.rivals.fgw.surrogate:FusedSurrogate",
        "The fused Gromov-Wasserstein distance; queries are weighted graphs.",
    )


@hookimpl
def ele_regressors() -> Iterator[Record]:
    """A network averaged over views of pictures, and the two rivals that predict weighted graphs."""
    yield Record(
        "averaged-views",
        "ele_graphs.coloring.regressor:ViewsRegressor",
        "The neural regressor, averaged over the flips and rotations of a picture.",
    )
    yield Record(
        "fgw-ridge",
        "ele_graphs.rivals.fgw.ridge:FusedRidgeRegressor",
        "Weights of training graphs by sketched kernel ridge regression: the regressor of ILE-FGW.",
    )
    yield Record(
        "fgw-templates",
        "ele_graphs.rivals.fgw.templates:TemplateRegressor",
        "A barycenter of learned template graphs, weighted by a network: the regressor of NNBary-FGW.",
    )


@hookimpl
def ele_decoders() -> Iterator[Record]:
    """Barycenters of graphs."""
    yield Record(
        "fgw-barycenter",
        "ele_graphs.rivals.fgw.decoder:BarycenterDecoder",
        "The fused Gromov-Wasserstein barycenter of a query's graphs, rounded.",
    )


@hookimpl
def ele_input_spaces() -> Iterator[Record]:
    """Molecules written as text, their fingerprints, and mass spectra."""
    yield Record(
        "spectrum",
        "ele_graphs.ms2mol.input_space:SpectrumInput",
        "Tandem mass spectra: peaks, the m/z of the precursor, the adduct.",
    )
    yield molecular(
        "smiles",
        "ele_graphs.molecules.inputs:SmilesInput",
        "SMILES as texts, optionally rewritten at random in training.",
    )
    yield molecular(
        "fingerprint", "ele_graphs.molecules.inputs:FingerprintInput", "Morgan fingerprints, from SMILES or as bits."
    )


@hookimpl
def ele_backbones() -> Iterator[Record]:
    """A network on spectra."""
    yield Record("peaks", "ele_graphs.ms2mol.backbone:PeaksBackbone", "Sets of peaks of mass spectra.")


@hookimpl
def ele_file_readers() -> Iterator[Record]:
    """Files of molecules and of spectra."""
    yield Record(".msp", "ele_graphs.ms2mol.files:MspReader", "Mass spectra, as NIST, MassBank and MoNA write them.")
    yield Record(".mgf", "ele_graphs.ms2mol.files:MgfReader", "Mass spectra, as Mascot and GNPS write them.")
    yield Record(
        ".sdf", "ele_graphs.molecules.sdf:SdfReader", "Molecules with their data fields, and a column `smiles`."
    )


@hookimpl
def ele_tasks() -> Iterator[Record]:
    """Molecules from SMILES, small and large, from fingerprints and from mass spectra; graphs from pictures."""
    yield molecular("smi2mol", "ele_graphs.smi2mol.task:SmilesToMolecule", "QM9: from a SMILES string to its molecule.")
    yield molecular("moses", "ele_graphs.moses:Moses", "MOSES: from a SMILES string to its molecule of up to 26 atoms.")
    yield molecular(
        "fp2mol", "ele_graphs.fp2mol:FingerprintToMolecule", "QM9 or MOSES: from a Morgan fingerprint to its molecule."
    )
    yield molecular(
        "ms2mol",
        "ele_graphs.ms2mol.task:SpectrumToMolecule",
        "From the tandem mass spectrum of a molecule to the molecule.",
    )
    yield Record(
        "coloring", "ele_graphs.coloring.task:Coloring", "Coloring: from a picture of cells to the graph of its cells."
    )
