"""The additive encoder of graphs: the same from tables as from points, for molecules in all their forms."""

from __future__ import annotations

import pytest
import torch
from additive import check_additive, fresh
from random_graphs import random_graphs

from ele_core.errors import ConfigError
from ele_graphs.graphs.networkx_space import PaddedGraphSpace
from ele_graphs.graphs.wl import unsaturated
from ele_graphs.molecules.space import MoleculeSpace
from ele_graphs.neighbourhoods import NeighbourhoodEncoder
from ele_sequences.space import SequenceSpace

SMILES = ["C", "CCO", "C1CC1", "C#CC=C=C", "CC(=O)Oc1ccccc1", "O=C(N)c1ccncc1", "N#Cc1ccc(F)cc1", "C=CC=CC=O"]


def molecules(**options: object) -> MoleculeSpace:
    return MoleculeSpace(MoleculeSpace.Config(elements=("C", "N", "O", "F"), max_atoms=12, **options))


def test_it_keeps_the_laws_on_graphs() -> None:
    space = PaddedGraphSpace(PaddedGraphSpace.Config(node_labels=("a", "b", "c"), edge_labels=("x", "y"), max_nodes=6))
    check_additive(NeighbourhoodEncoder, space, random_graphs(12, 6))


@pytest.mark.parametrize("resonance", [True, False])
def test_it_keeps_the_laws_on_molecules(resonance: bool) -> None:
    space = molecules(resonance=resonance)
    check_additive(NeighbourhoodEncoder, space, space.pack(SMILES))


def test_forms_with_alternating_bonds_are_one_if_the_space_says_so() -> None:
    one = molecules(resonance=True).pack(["CC1=CC=CC=C1O"])
    ring = unsaturated(one, molecules(resonance=True).part_kinds)
    ring = ring[:, :, None] & ring[:, None, :] & (one.edges != 0)
    other = one.replace(edges=torch.where(ring, 3 - one.edges, one.edges))
    for resonance, same in ((True, True), (False, False)):
        encoder = fresh(NeighbourhoodEncoder, molecules(resonance=resonance))
        assert torch.allclose(encoder.encode(one), encoder.encode(other), atol=1e-4) is same


def test_it_refuses_other_spaces() -> None:
    with pytest.raises(ConfigError, match="reads graphs"):
        fresh(NeighbourhoodEncoder, SequenceSpace(SequenceSpace.Config(alphabet=("a",), length=3)))
