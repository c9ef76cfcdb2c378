"""The error model: plain distances until it is fitted, then distances that weigh what predictions know."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from ele_core.numerics.error_model import ErrorModel, errors_left_out

DIM = 6


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def energies(model: ErrorModel, queries: Tensor, embeddings: Tensor) -> Tensor:
    """(B, N)."""
    return torch.cdist(model.weighted(queries), model.placed(embeddings)).square()


def nearby(model: ErrorModel, queries: Tensor, embeddings: Tensor) -> Tensor:
    """Queries whose plain energies are about the weighted ones near the embeddings."""
    return embeddings + model.towards(model.weighted(queries) - model.placed(embeddings))


def test_it_changes_nothing_until_it_is_fitted():
    queries, embeddings = normal(4, DIM), normal(5, DIM, seed=1)
    torch.testing.assert_close(
        energies(ErrorModel(DIM), queries, embeddings), torch.cdist(queries, embeddings).square()
    )
    torch.testing.assert_close(nearby(ErrorModel(DIM), queries, embeddings[:4]), queries)


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
    missing = model.weighted(queries[:3]) - model.placed(point)
    (gradient,) = torch.autograd.grad(missing.square().sum(), point)
    near = nearby(model, queries[:3], point.detach())
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
    assert nearby(model, queries, embeddings).isfinite().all()


def test_the_energy_of_a_structure_is_the_weighted_distance_from_its_mean_query():
    truths = normal(200, DIM)
    queries = truths @ normal(DIM, DIM, seed=1) + normal(200, DIM, seed=2)
    model = ErrorModel(DIM).fit(queries, truths)
    expected = torch.cdist(model.weighted(queries[:9]), model.weighted(model.expected(truths[:9]))).square()
    torch.testing.assert_close(energies(model, queries[:9], truths[:9]), expected, rtol=1e-4, atol=1e-4)


def test_errors_of_pairs_left_out_are_those_of_regressions_without_them():
    inputs, targets, ridge = normal(30, DIM).double(), normal(30, 4, seed=1).double(), 0.7
    centred = inputs - inputs.mean(dim=0)
    values, vectors = torch.linalg.eigh(centred.T @ centred / 30)
    rotated = centred @ vectors
    penalised = values + ridge
    centred_targets = targets - targets.mean(dim=0)
    found = errors_left_out(rotated, centred_targets, rotated.T @ centred_targets / 30, penalised)
    padded = torch.cat([inputs, torch.ones(30, 1, dtype=torch.double)], dim=1)  # the mean is fitted too, unpenalised
    penalty = 30 * ridge * torch.diag(torch.tensor([1.0] * DIM + [0.0], dtype=torch.double))
    for row in range(30):
        kept = torch.arange(30) != row
        weights = torch.linalg.solve(padded[kept].T @ padded[kept] + penalty, padded[kept].T @ targets[kept])
        torch.testing.assert_close(found[row], targets[row] - padded[row] @ weights)


@pytest.mark.parametrize(("noise", "pairs", "ridge"), [(0.01, 2000, "small"), (3.0, 40, "large")])
def test_the_ridge_follows_the_pairs(noise, pairs, ridge):
    truths = normal(pairs, DIM)
    queries = truths + noise * normal(pairs, DIM, seed=1)
    model = ErrorModel(DIM).fit(queries, truths)
    gain = torch.linalg.solve(model.root, model.mixed).diagonal().mean()
    assert gain > 0.97 if ridge == "small" else gain < 0.8


def test_the_usual_energy_is_that_of_a_tenth_of_the_truths():
    truths = normal(6000, DIM)
    queries = truths + 0.3 * normal(6000, DIM, seed=1)
    model = ErrorModel(DIM).fit(queries[:2000], truths[:2000])
    own = (model.weighted(queries[2000:]) - model.placed(truths[2000:])).square().sum(dim=1)
    assert 0.08 < (own < model.usual).float().mean() < 0.12
