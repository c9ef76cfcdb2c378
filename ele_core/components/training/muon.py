"""Muon: AdamW, but the weights of hidden layers move by orthogonal matrices."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

MOMENTUM = 0.95
RATE = 0.2
"""The root mean square of the entries of a step, in learning rates: about that of AdamW, so one rate suits both."""
ITERATIONS = 5
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the odd polynomial that moves singular values between 0 and 1 towards 1; applied `ITERATIONS` times."""


class Muon(torch.optim.AdamW):
    """Move each hidden matrix along U Vᵀ, where U S Vᵀ is the average of its gradients; other weights by AdamW.

    All directions of a matrix then change equally fast, also those along which gradients are small. The weights of a
    convolution are a matrix with one row per output channel. References: Jordan et al., Muon, 2024; the size of steps
    is that of Liu et al., arXiv:2502.16982.
    """

    def __init__(self, module: nn.Module, *, lr: float, weight_decay: float) -> None:
        hidden = hidden_matrices(module.parameters())
        others = [weight for weight in module.parameters() if not any(weight is each for each in hidden)]
        groups = [{"params": weights} for weights in (others, hidden) if weights]
        super().__init__(groups, lr=lr, weight_decay=weight_decay)
        self._hidden = self.param_groups[-1] if hidden else None

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # no closure is called
        """Move the hidden matrices, then the other weights."""
        if self._hidden is not None:
            for weight in self._hidden["params"]:
                if weight.grad is not None:
                    self._move(weight, self._hidden["lr"], self._hidden["weight_decay"])
                    weight.grad = None  # AdamW leaves weights without a gradient alone
        super().step()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore averages and moments; AdamW expects a `step` also for the hidden matrices."""
        states = {key: {"step": torch.zeros(()), **state} for key, state in state_dict["state"].items()}
        super().load_state_dict({**state_dict, "state": states})

    def _move(self, weight: Tensor, rate: float, decay: float) -> None:
        state = self.state[weight]
        if "average" not in state:
            state["average"] = torch.zeros_like(weight)
        average: Tensor = state["average"].lerp_(weight.grad, 1 - MOMENTUM)
        ahead = weight.grad.lerp(average, MOMENTUM).flatten(1)  # type: ignore[union-attr]  # it has a gradient
        size = RATE * math.sqrt(max(ahead.shape))
        weight.mul_(1 - rate * decay).add_(orthogonal(ahead).view(weight.shape), alpha=-rate * size)


def hidden_matrices(weights: Iterable[nn.Parameter]) -> list[nn.Parameter]:
    """All matrices and convolutions but the first and the last, which read inputs and make outputs."""
    return [weight for weight in weights if weight.dim() > 1][1:-1]


def orthogonal(matrix: Tensor) -> Tensor:
    """About U Vᵀ for a matrix U S Vᵀ (m, n): singular values become about 1; those below a thousandth stay smaller.

    Only the small matrix X Xᵀ is iterated, with which all polynomials of it commute.
    """
    wide = matrix.float().T if matrix.shape[0] > matrix.shape[1] else matrix.float()
    wide = wide / wide.norm().clamp(min=torch.finfo(torch.float32).tiny)
    gram, unit = wide @ wide.T, torch.eye(len(wide), device=wide.device)
    product, (first, third, fifth) = unit, COEFFICIENTS
    for _ in range(ITERATIONS):
        polynomial = first * unit + third * gram + fifth * gram @ gram
        product, gram = polynomial @ product, polynomial @ gram @ polynomial
    found: Tensor = product @ wide
    return found.T if matrix.shape[0] > matrix.shape[1] else found
