"""Logistic and Poisson regression find the truth, and stay finite where there is nothing to learn."""

from __future__ import annotations

import pytest
import torch

from ele_core.numerics.regression import fit_linear


def drawn(count: int = 20_000) -> torch.Tensor:
    return torch.randn(count, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 100.0, 1.0])


def test_probabilities_are_those_that_values_were_drawn_with():
    x = drawn()
    probability = (2 * x[:, 0] - 0.01 * x[:, 1] + 1).sigmoid()
    y = torch.rand(len(x), generator=torch.Generator().manual_seed(1)) < probability
    assert (fit_linear(x, y, "logistic")(x) - probability).abs().max() < 0.03


def test_expected_counts_are_those_that_values_were_drawn_with():
    x = drawn()
    rate = (0.5 * x[:, 2] - 1).exp()
    y = torch.poisson(rate, generator=torch.Generator().manual_seed(1))
    assert ((fit_linear(x, y, "poisson")(x) - rate).abs() / (rate + 0.1)).max() < 0.2


@pytest.mark.parametrize(
    ("family", "value"), [("logistic", 0.0), ("logistic", 1.0), ("poisson", 0.0), ("poisson", 5.0)]
)
def test_equal_values_are_expected_about_so_everywhere(family, value):
    expected = fit_linear(drawn(200), torch.full((200,), float(value)), family)(drawn(200))
    assert expected.isfinite().all()
    assert (expected - value).abs().max() < 0.05


def test_a_feature_that_does_not_vary_and_separable_values_do_no_harm():
    x = torch.stack([torch.ones(100), torch.linspace(-1, 1, 100)], dim=1)
    model = fit_linear(x, x[:, 1] > 0, "logistic")
    assert model.weights[0] == 0
    assert model.weights.isfinite().all()
    assert ((model(x) > 0.5) == (x[:, 1] > 0)).all()
