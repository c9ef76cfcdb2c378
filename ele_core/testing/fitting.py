"""Requirements on `fit` that surrogates and regressors share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ele_core.interfaces import Regressor, Surrogate
from ele_core.testing.global_generators import require_own_randomness, unusual_generators
from ele_core.testing.results import NotApplicable, require
from ele_core.testing.samples import same_tensors


def same_state(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> bool:
    """Whether two states hold the same tensors under the same names."""
    return left.keys() == right.keys() and all(torch.equal(value, right[name]) for name, value in left.items())


def require_seeded_fit(fitted: Callable[[], Surrogate | Regressor]) -> None:
    """Require two calls of `fitted` to give bit-equal states, and not to draw from a global generator."""
    made: list[Surrogate | Regressor] = []
    require_own_randomness("`fit`", lambda: made.append(fitted()))
    with unusual_generators(4711):
        made.append(fitted())
    same = same_state(made[0].state(), made[1].state())
    require(same, "two fits with the same seed give different states")


def require_anew(learner: Any, fit: Callable[[Any], None]) -> None:
    """Require that a second `fit` gives the same state as the first.

    A learner with `stages` learns step by step and may start from what it has learned (a warm start): it is first
    restored to the state before the first `fit`.
    """
    begin = {name: value.clone() for name, value in learner.state().items()}
    fit(learner)
    first = {name: value.clone() for name, value in learner.state().items()}
    unknown = any(not value.numel() for value in begin.values())  # a shape that is known only after `fit`
    if learner.stages and not unknown:
        learner.restore(begin)
    fit(learner)
    same = same_state(first, learner.state())
    if not same and learner.stages and unknown:
        raise NotApplicable("it learns step by step, and its state before `fit` cannot be restored")
    require(same, "a second `fit` on the same data gives another state: it goes on from the first. Begin anew in `fit`")


def require_data_left_alone(fit: Callable[..., None], given: Mapping[str, Any]) -> None:
    """Require that `fit`, called with the values of `given`, does not change these batches; the keys name them."""
    before = {name: batch.map(torch.clone) for name, batch in given.items()}
    fit(*given.values())
    for name, batch in given.items():
        require(same_tensors(before[name], batch), f"`fit` changes the {name} in place: clone them first")
