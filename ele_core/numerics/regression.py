"""Logistic and Poisson regression with a ridge penalty, solved by Newton's method."""

from __future__ import annotations

import dataclasses
from typing import Literal

import torch
from torch import Tensor

Family = Literal["logistic", "poisson"]
STEPS = 100
"""Maximum number of Newton steps."""
CLOSE = 1e-10
"""A step that lowers the loss by less than this, per example, is the last."""
MOST = 30.0
"""The largest linear predictor: exp(30) is far beyond every count."""


@dataclasses.dataclass(frozen=True)
class LinearModel:
    """E[y | x] = g(⟨w, (x − mean) / deviation⟩ + b), where g is the sigmoid (`logistic`) or exp (`poisson`)."""

    family: Family
    mean: Tensor
    deviation: Tensor
    weights: Tensor
    bias: Tensor

    def __call__(self, features: Tensor) -> Tensor:
        """Features (N, F) → expected values (N,), in double precision."""
        linear = (features.double() - self.mean) / self.deviation @ self.weights + self.bias
        return linear.sigmoid() if self.family == "logistic" else linear.clamp(max=MOST).exp()

    def state(self) -> dict[str, Tensor]:
        """What was fitted, as named tensors."""
        return {"mean": self.mean, "deviation": self.deviation, "weights": self.weights, "bias": self.bias}


def fit_linear(features: Tensor, values: Tensor, family: Family, ridge: float = 1.0) -> LinearModel:
    """Minimise −log likelihood + ridge/2 ‖w‖² over standardised features (N, F); `values` (N,) are in [0, 1] or ≥ 0.

    Half an example of value 1 (logistic: and half an example of value 0) at the mean of the features keeps the bias
    finite if all values are equal. A feature that does not vary has no weight.
    """
    features, values = features.double(), values.double()
    mean, deviation = features.mean(dim=0), features.std(dim=0, correction=0)
    varies = deviation > 1e-12 * (1 + mean.abs())
    deviation = torch.where(varies, deviation, 1.0)
    centred = torch.where(varies, (features - mean) / deviation, 0.0)
    pseudo = [1.0, 0.0] if family == "logistic" else [1.0]
    x = torch.cat([centred, centred.new_zeros(len(pseudo), centred.shape[1])])
    x = torch.cat([x, x.new_ones(len(x), 1)], dim=1)
    y = torch.cat([values, values.new_tensor(pseudo)])
    importance = torch.cat([torch.ones_like(values), values.new_full((len(pseudo),), 0.5)])
    penalty = x.new_full((x.shape[1],), ridge)
    penalty[-1] = 0
    start = x.new_zeros(x.shape[1])
    mean_value = (importance @ y / importance.sum()).clamp(min=1e-6)
    start[-1] = mean_value.logit(1e-6) if family == "logistic" else mean_value.log()
    solution = newton(x, y, importance, penalty, start, family)
    return LinearModel(family, mean, deviation, solution[:-1], solution[-1])


def newton(x: Tensor, y: Tensor, importance: Tensor, penalty: Tensor, start: Tensor, family: Family) -> Tensor:
    """Minimise the weighted, penalised negative log likelihood from `start`; steps are halved until the loss falls."""

    def loss(solution: Tensor) -> Tensor:
        linear = (x @ solution).clamp(-MOST, MOST)
        each = torch.nn.functional.softplus(linear) if family == "logistic" else linear.exp()
        return importance @ (each - y * linear) + (penalty * solution.square()).sum() / 2

    solution, value = start, loss(start)
    for _ in range(STEPS):
        linear = (x @ solution).clamp(-MOST, MOST)
        expected = linear.sigmoid() if family == "logistic" else linear.exp()
        curvature = expected * (1 - expected) if family == "logistic" else expected
        gradient = x.T @ (importance * (expected - y)) + penalty * solution
        hessian = (x.T * (importance * curvature)) @ x + torch.diag(penalty + 1e-9)
        step = torch.linalg.solve(hessian, gradient)
        size, found = 1.0, loss(solution - step)
        while found > value and size > 1e-6:
            size /= 2
            found = loss(solution - size * step)
        if not found < value:
            break
        solution, gained, value = solution - size * step, value - found, found
        if gained < CLOSE * len(y):
            break
    return solution
