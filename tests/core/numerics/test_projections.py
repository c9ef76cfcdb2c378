"""The projection functions against slow, independent references; the laws they share are in test_sets.py."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from torch import Tensor

from ele_core.numerics import projections
from ele_core.numerics.projections import birkhoff, box, simplex, symmetric_simplex

SCALES = [1e-8, 1e-4, 1.0, 1e4, 1e8]


def sorted_simplex(x: Tensor) -> Tensor:
    """Duchi et al. (2008), figure 1, in float64."""
    x = x.double() - x.double().amax(dim=-1, keepdim=True)
    ordered = x.sort(dim=-1, descending=True).values
    excess = ordered.cumsum(dim=-1) - 1
    count = torch.arange(1, x.shape[-1] + 1)
    support = (ordered - excess / count > 0).sum(dim=-1, keepdim=True)
    return (x - excess.gather(-1, support - 1) / support).clamp(min=0)


def random_rows(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@settings(deadline=None, max_examples=60)
@given(size=st.integers(1, 20), scale=st.sampled_from(SCALES), seed=st.integers(0, 10**6))
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-14), (torch.float32, 1e-6)])
def test_simplex_agrees_with_sorting(dtype: torch.dtype, tolerance: float, size: int, scale: float, seed: int) -> None:
    x = (random_rows(seed, 30, size) * scale).to(dtype)
    torch.testing.assert_close(simplex(x).double(), sorted_simplex(x), rtol=0, atol=tolerance)


@pytest.mark.parametrize("size", range(1, 17))
def test_the_network_sorts_every_zero_one_row(size: int) -> None:
    """Knuth's zero-one principle: a network that sorts all rows of zeros and ones sorts every row."""
    rows = (torch.arange(2**size)[:, None] >> torch.arange(size)) & 1
    ordered = torch.stack(projections._descending(rows.to(torch.int8).T.contiguous()))
    assert (ordered[:-1] >= ordered[1:]).all()
    assert torch.equal(ordered.sum(dim=0), rows.sum(dim=1))


def test_simplex_breaks_ties_evenly() -> None:
    assert simplex(torch.tensor([5.0, 5.0, -9.0, 5.0])).tolist() == pytest.approx([1 / 3, 1 / 3, 0.0, 1 / 3])


def test_simplex_bears_entries_that_are_minus_infinity() -> None:
    assert simplex(torch.tensor([0.0, -torch.inf, 0.0])).tolist() == [0.5, 0.0, 0.5]


@pytest.mark.parametrize("shape", [(4,), (0, 4), (2, 0, 4), (2, 3, 4), (3, 1), (5, 20)])
def test_simplex_takes_any_leading_shape(shape: tuple[int, ...]) -> None:
    result = simplex(torch.randn(shape))
    assert result.shape == shape
    assert result.is_contiguous()
    torch.testing.assert_close(result.sum(dim=-1), torch.ones(shape[:-1]))


def test_simplex_takes_rows_that_are_not_contiguous() -> None:
    x = torch.randn(4, 6, 5).transpose(0, 2)
    torch.testing.assert_close(simplex(x), simplex(x.contiguous()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_simplex_computes_half_precision_in_single(dtype: torch.dtype) -> None:
    x = torch.randn(50, 7).to(dtype)
    assert torch.equal(simplex(x), simplex(x.float()).to(dtype))


def test_symmetric_simplex_equals_the_simplex_of_the_symmetrised_rows() -> None:
    x = random_rows(0, 3, 5, 5, 4)
    expected = simplex((x + x.transpose(1, 2)) / 2)
    expected[:, range(5), range(5)] = torch.eye(4, dtype=x.dtype)[0]
    torch.testing.assert_close(symmetric_simplex(x), expected)
    torch.testing.assert_close(symmetric_simplex(x[0]), expected[0])


def test_box_clamps() -> None:
    assert box(torch.tensor([-3.0, 0.5, 9.0]), -1.0, 2.0).tolist() == [-1.0, 0.5, 2.0]


def dykstra(x: Tensor, sweeps: int = 3000) -> Tensor:
    """Dykstra's alternating projections between the affine hull of the set and the nonnegative matrices."""
    size = x.shape[-1]
    point, correction = x, torch.zeros_like(x)
    for _ in range(sweeps):
        rows, cols = point.sum(dim=2, keepdim=True), point.sum(dim=1, keepdim=True)
        total = point.sum(dim=(1, 2), keepdim=True)
        point = point + (1 - rows) / size + (1 - cols) / size + (total - size) / size**2
        point, correction = (point + correction).clamp(min=0), (point + correction).clamp(max=0)
    return point


@pytest.mark.parametrize("size", [2, 3, 6])
def test_birkhoff_agrees_with_dykstra(size: int) -> None:
    x = random_rows(size, 20, size, size)
    torch.testing.assert_close(birkhoff(x), dykstra(x), rtol=0, atol=1e-6)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("size", [2, 5, 12])
def test_birkhoff_converges_at_every_scale(size: int, scale: float) -> None:
    result = birkhoff(random_rows(size, 40, size, size) * scale)
    torch.testing.assert_close(result.sum(dim=1), torch.ones(40, size).double(), rtol=0, atol=1e-9)
    torch.testing.assert_close(result.sum(dim=2), torch.ones(40, size).double(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("scale", [1.0, 1e8])
def test_birkhoff_bears_ties(scale: float) -> None:
    x = random_rows(0, 60, 6, 6).sign() * scale
    result = birkhoff(x)
    torch.testing.assert_close(result.sum(dim=1), torch.ones(60, 6).double(), rtol=0, atol=1e-9)
    assert birkhoff(torch.zeros(1, 3, 3)).flatten().tolist() == pytest.approx([1 / 3] * 9)


def test_birkhoff_ignores_constants_on_rows_and_columns() -> None:
    x = random_rows(1, 10, 5, 5)
    shifted = x + 100 * random_rows(2, 10, 5, 1) + 100 * random_rows(3, 10, 1, 5)
    torch.testing.assert_close(birkhoff(shifted), birkhoff(x), rtol=0, atol=1e-8)


@pytest.mark.parametrize("shape", [(3, 3), (0, 3, 3), (2, 4, 3, 3), (2, 1, 1)])
def test_birkhoff_takes_any_leading_shape(shape: tuple[int, ...]) -> None:
    assert birkhoff(torch.randn(shape)).shape == shape


@given(st.integers(1, 7).flatmap(lambda n: arrays(np.float64, (n, n), elements=st.floats(-4, 4, width=16))))
def test_the_assignment_without_scipy_is_as_good(matrix):
    from scipy.optimize import linear_sum_assignment

    rows = np.arange(len(matrix))
    found = projections._assign(matrix)
    assert sorted(found) == list(rows)
    assert matrix[rows, found].sum() == pytest.approx(matrix[linear_sum_assignment(matrix)].sum(), abs=1e-9)


def test_without_scipy_the_assignment_maximises(monkeypatch):
    monkeypatch.setattr(projections, "installed", lambda _: False)
    x = torch.tensor([[[1.0, 5.0], [4.0, 9.0]], [[3.0, 0.0], [2.0, 1.0]]])
    assert projections.assignment(x).tolist() == [[0, 1], [0, 1]]
    assert projections.assignment(x[:0]).shape == (0, 2)
