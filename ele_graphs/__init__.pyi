"""The public names of `ele_graphs`, and where each is defined."""

from .graphs.batch import CompactGraphs as CompactGraphs
from .graphs.batch import Graphs as Graphs
from .graphs.networkx_space import PaddedGraphSpace as PaddedGraphSpace
from .molecules.molecule import Molecule as Molecule
from .molecules.space import MoleculeSpace as MoleculeSpace
from .moses import Moses as Moses
from .rgcn import RelationalEncoder as RelationalEncoder
from .smi2mol.task import SmilesToMolecule as SmilesToMolecule
