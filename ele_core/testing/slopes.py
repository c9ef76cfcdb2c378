"""Gradients at the vertices, where decoders start, and slopes compared with values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ele_core.testing.results import require
from ele_core.testing.samples import Space, points, seeded

VANISHING = 1e-4
"""The least gradient at vertices, as a share of that at other points."""
STEP = 1e-3
"""The step of finite differences, as a share of the way to another point; large enough for float32."""
AGREE = 0.05
"""The largest relative difference of a slope and a finite difference."""
MOST_WRONG = 1 / 3
"""The share of directions in which slopes may disagree: an energy may have a few kinks."""

Gradients = Mapping[str, Tensor | None]


def require_gradient_at_vertices(what: str, vertices: Any, here: Gradients, elsewhere: Gradients) -> None:
    """Raise `Broken` unless the gradient at vertices, `here`, is finite and not much less than `elsewhere`.

    Both the entries that a vertex has and those that it has not need a gradient: without the latter, descent does not
    know which label to choose instead.
    """
    for name, gradient in here.items():
        usual = elsewhere[name]
        if gradient is None or usual is None:
            continue
        require(gradient.isfinite().all(), f"field '{name}': the gradient of {what} at a vertex is not finite")
        values = getattr(vertices, name).detach()
        absent = values <= values.min()
        for kind, entries in (("are 0 there", absent), ("are 1 there", ~absent)):
            most = float(gradient[entries].abs().max()) if entries.any() else 1.0
            require(
                most > VANISHING * float(usual.abs().max()),
                f"field '{name}': at vertices, where descent starts, the gradient of {what} is {most:.3g} for entries "
                f"that {kind}, and {float(usual.abs().max()):.3g} at other points: do not clamp, sharpen or square it",
            )


def require_slope(what: str, space: Space, value: Callable[[Any], Tensor]) -> None:
    """Raise `Broken` if the gradient of `value`, a function of a point (B,), disagrees with its finite differences.

    Steps lead towards other points of the relaxed set, so that `value` need not be defined outside.
    """
    here, there = (points(space, 12, seeded(seed)) for seed in (11, 12))
    leaves = {name: getattr(here, name).clone().requires_grad_(True) for name in space.geometry}
    found = value(here.replace(**leaves))
    gradients = torch.autograd.grad(found.sum(), list(leaves.values()), allow_unused=True)
    claimed = torch.zeros(len(here), dtype=torch.float64)
    for name, gradient in zip(leaves, gradients, strict=True):
        if gradient is not None:
            direction = getattr(there, name) - getattr(here, name)
            claimed += (gradient * direction).flatten(1).sum(dim=1).double()
    with torch.no_grad():
        start, one, two = (value(towards(space, here, there, steps * STEP)).double() for steps in (0, 1, 2))
    measured = (4 * one - 3 * start - two) / (2 * STEP)
    size = torch.maximum(claimed.abs(), measured.abs())
    wrong = (claimed - measured).abs() > AGREE * (size + size.median())
    row = int((wrong * size).argmax())
    require(
        float(wrong.double().mean()) <= MOST_WRONG,
        f"{what}: the slope is {float(claimed[row]):.4g} by gradient, but {float(measured[row]):.4g} by finite "
        f"differences, and disagrees in {int(wrong.sum())} of {len(wrong)} directions: do not detach, round or clip "
        "between the point and the value",
    )


def towards(space: Space, here: Any, there: Any, share: float) -> Any:
    """A share of the way from one point to another."""
    return here.replace(
        **{name: torch.lerp(getattr(here, name), getattr(there, name), share) for name in space.geometry}
    )
