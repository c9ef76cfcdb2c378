"""The additive encoder of sequences: the same from tables as from points, and only of sequences."""

from __future__ import annotations

import pytest
from additive import check_additive, fresh

from ele_core.errors import ConfigError
from ele_graphs.graphs.networkx_space import PaddedGraphSpace
from ele_sequences.contexts import ContextEncoder
from ele_sequences.space import SequenceSpace

SPACE = SequenceSpace(SequenceSpace.Config(alphabet=("a", "b", "c"), length=7))


def test_it_keeps_the_laws() -> None:
    check_additive(ContextEncoder, SPACE, SPACE.pack(["", "a", "abc", "abcabca", "ccc", "bacab"]))


def test_order_and_place_count() -> None:
    encoder = fresh(ContextEncoder, SPACE, 512)
    embedded = encoder.encode(SPACE.pack(["abc", "abc", "acb", "bca", "aabc"]))
    apart = (embedded - embedded[0]).square().sum(dim=1).tolist()
    assert apart[0] == apart[1] == 0
    assert all(distance > 0.5 for distance in apart[2:])


def test_it_refuses_other_spaces() -> None:
    space = PaddedGraphSpace(PaddedGraphSpace.Config(node_labels=("a",), max_nodes=3))
    with pytest.raises(ConfigError, match="reads sequences"):
        fresh(ContextEncoder, space)
