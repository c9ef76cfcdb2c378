"""The error model: plain distances until it is fitted, then distances that weigh what predictions know."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ele_core.numerics.error_model import ErrorModel

DIM = 6


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def energies(model: ErrorModel, queries: Tensor, embeddings: Tensor) -> Tensor:
    """(B, N)."""
    return torch.cdist(model.weighted(queries), model.weighted(model.expected(embeddings))).square()


def test_it_changes_nothing_until_it_is_fitted():
    queries, embeddings = normal(4, DIM), normal(5, DIM, seed=1)
    torch.testing.assert_close(
        energies(ErrorModel(DIM), queries, embeddings), torch.cdist(queries, embeddings).square()
    )
    torch.testing.assert_close(ErrorModel(DIM).towards(queries, embeddings[:4]), queries)


def test_directions_that_predictions_do_not_know_do_not_decide():
    truths = normal(400, DIM)
    known = torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    queries = truths * known + 0.2 * normal(400, DIM, seed=1) * known + normal(400, DIM, seed=2) * (1 - known)
    model = ErrorModel(DIM).fit(queries[:300], truths[:300])
    rows = torch.arange(100)
    plain = torch.cdist(queries[300:], truths[300:]).argmin(dim=1) == rows
    weighted = energies(model, queries[300:], truths[300:]).argmin(dim=1) == rows
    assert weighted.float().mean() > plain.float().mean() + 0.2


def test_correlated_errors_are_recognised():
    truths, common = normal(600, DIM), 2 * normal(600, 1, seed=1)
    queries = truths + common + 0.1 * normal(600, DIM, seed=2)
    model = ErrorModel(DIM).fit(queries[:500], truths[:500])
    rows = torch.arange(100)
    plain = torch.cdist(queries[500:], truths[500:]).argmin(dim=1) == rows
    weighted = energies(model, queries[500:], truths[500:]).argmin(dim=1) == rows
    assert weighted.float().mean() > plain.float().mean() + 0.2


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 1000))
def test_the_query_near_a_structure_has_the_direction_of_the_weighted_gradient(seed):
    truths = normal(80, DIM, seed=seed)
    queries = truths @ normal(DIM, DIM, seed=seed + 1) + normal(80, DIM, seed=seed + 2)
    model = ErrorModel(DIM).fit(queries, truths)
    point = truths[:3].clone().requires_grad_(True)
    missing = model.weighted(queries[:3]) - model.weighted(model.expected(point))
    (gradient,) = torch.autograd.grad(missing.square().sum(), point)
    near = model.towards(queries[:3], point.detach())
    torch.testing.assert_close(2 * (point.detach() - near) * model.curvature, gradient, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("queries", "embeddings"),
    [
        (torch.zeros(5, DIM), torch.zeros(5, DIM)),
        (torch.zeros(5, DIM), normal(5, DIM)),
        (normal(5, DIM), torch.ones(5, DIM)),
        (normal(1, DIM), normal(1, DIM, seed=1)),
        (normal(3, DIM), normal(3, DIM)),
    ],
)
def test_energies_stay_finite_if_there_is_little_to_learn_from(queries, embeddings):
    model = ErrorModel(DIM).fit(queries, embeddings)
    assert all(tensor.isfinite().all() for tensor in model.state_dict().values())
    assert energies(model, queries, embeddings).isfinite().all()
    assert model.towards(queries, embeddings).isfinite().all()
