"""The generic encoder takes any point and is differentiable in it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from ele_core.components.encoders.flat import FlatEncoder
from ele_core.numerics.sets import Birkhoff, Box, ConvexSet, Simplex, SymmetricSimplex
from ele_core.numerics.tensors import Tensors


@dataclasses.dataclass(frozen=True, eq=False)
class Mixed(Tensors):
    """A point of every kind of set, and a field that is not relaxed."""

    rows: Tensor
    edges: Tensor
    box: Tensor
    order: Tensor
    carried: Tensor


GEOMETRY: Mapping[str, ConvexSet] = {
    "rows": Simplex(3, (2,)),
    "edges": SymmetricSimplex(3, 2),
    "box": Box(4),
    "order": Birkhoff(3),
}


def point(count: int, dtype: torch.dtype = torch.float32) -> Mixed:
    generator = torch.Generator().manual_seed(0)
    fields = {name: convex.sample(count, generator, dtype) for name, convex in GEOMETRY.items()}
    return Mixed(**fields, carried=torch.zeros(count, 7, dtype=torch.int16))


def encoder(dim: int = 5, **options: Any) -> FlatEncoder:
    torch.manual_seed(0)
    space: Any = SimpleNamespace(geometry=GEOMETRY)
    return FlatEncoder(FlatEncoder.Config(**{"width": 6, "layers": 1, **options}), space, dim)


@pytest.mark.parametrize("layers", [1, 3])
def test_any_point_becomes_a_vector_of_the_dimension_asked_for(layers):
    assert encoder(layers=layers)(point(4)).shape == (4, 5)
    assert encoder(layers=layers)(point(0)).shape == (0, 5)


@pytest.mark.parametrize("field", GEOMETRY)
def test_every_relaxed_field_matters_and_no_other(field):
    made, here = encoder(), point(4)
    moved = here.replace(
        **{field: getattr(here, field) + 0.1 * torch.arange(4.0).view(-1, *[1] * (getattr(here, field).dim() - 1))}
    )
    assert not torch.allclose(made(moved)[1:], made(here)[1:])
    assert torch.equal(made(here.replace(carried=here.carried + 1)), made(here))


def test_the_gradient_in_every_field_agrees_with_finite_differences():
    made, here = encoder().double(), point(2, torch.float64)
    fields = [getattr(here, name).requires_grad_(True) for name in GEOMETRY]

    def embed(*values: Tensor) -> Tensor:
        return made(here.replace(**dict(zip(GEOMETRY, values, strict=True))))

    assert torch.autograd.gradcheck(embed, tuple(fields))


def test_structures_are_encoded_each_for_itself():
    made, here = encoder(), point(6)
    torch.testing.assert_close(torch.cat([made(here[i : i + 1]) for i in range(6)]), made(here))
