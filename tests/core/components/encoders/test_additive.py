"""The encoder that adds up blocks: on any geometry, and as fine as its scale."""

from __future__ import annotations

import math

import pytest
import torch
from additive import check_additive, fresh
from mistakes.of_spaces import Plain, small
from test_flat_encoder import GEOMETRY, point

from ele_core.components.encoders.additive import BlocksEncoder, PartTable
from ele_core.testing.samples import structures


def test_it_keeps_the_laws() -> None:
    space = small(Plain)
    check_additive(BlocksEncoder, space, structures(space, 6))


def test_it_takes_every_kind_of_set() -> None:
    from types import SimpleNamespace

    encoder = fresh(BlocksEncoder, SimpleNamespace(geometry=GEOMETRY)).double()  # type: ignore[arg-type]
    assert encoder(point(5, torch.float64)).shape == (5, 24)
    leaves = {name: getattr(point(2, torch.float64), name).requires_grad_() for name in GEOMETRY}
    check = lambda *fields: encoder(point(2).replace(**dict(zip(leaves, fields, strict=True))))  # noqa: E731
    assert torch.autograd.gradcheck(check, tuple(leaves.values()), fast_mode=True)


@pytest.mark.parametrize(("scale", "similarity"), [(0.05, 1.0), (1.0, math.exp(-1)), (4.0, 0.0)])
def test_the_scale_says_how_similar_different_labels_are(scale: float, similarity: float) -> None:
    encoder = BlocksEncoder.__new__(BlocksEncoder)
    torch.nn.Module.__init__(encoder)
    encoder.config = BlocksEncoder.Config(scale=scale)
    directions, phases = torch.randn(2, 50_000), torch.rand(50_000) * 2 * math.pi
    one, other = encoder.waves(directions, phases)
    assert float(one.square().mean()) == pytest.approx(1, abs=0.05)
    assert float((one * other).mean()) == pytest.approx(similarity, abs=0.05)


def test_a_table_computes_every_part_once() -> None:
    table, asked = PartTable(), []

    def rows(keys: list[int]) -> list[int]:
        given = torch.tensor(keys)

        def compute(first: torch.Tensor) -> tuple[torch.Tensor, ...]:
            asked.append(given[first].tolist())
            return (given[first, None] * 10,)

        places = table.rows(0, given, compute)
        return table.values[0][0][places, 0].tolist()

    assert rows([5, 3, 5]) == [50, 30, 50]
    assert rows([4, 3]) == [40, 30]
    assert rows([4, 5, 3]) == [40, 50, 30]
    assert asked == [[3, 5], [4]]
    assert rows([]) == []
