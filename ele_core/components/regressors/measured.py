"""Regressors that measure their own errors; energies can then weigh them, and validation pairs decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from ele_core.component import ComponentConfig
from ele_core.energies import SquaredDistance
from ele_core.interfaces import InputSpace, Regressor, Surrogate
from ele_core.numerics.error_model import ErrorModel
from ele_core.runtime.context import Context
from ele_core.runtime.work import Snapshot, prefixed

WEIGHTED, PLAIN = "weighted", "plain"
LEAST_PAIRS = 200
"""Pairs from which on errors are measured: fewer tell too little of a hundred directions and more."""
PAIRS_PER_DIRECTION = 10
"""Pairs for each direction of the embedding from which on the errors of a network that another training measured are
measured again."""
MOST_PAIRS = 20_000
"""Pairs whose errors are measured: bounds the memory."""
CHUNK = 1024
"""Pairs predicted at once."""
PART = "errors"
"""The part of a state that holds the error model."""


class MeasuredRegressor(Regressor):
    """A regressor that compares its queries with the embeddings that they should be: see `ErrorModel`."""

    measured: ErrorModel | None = None
    """What `measure` found; `errors` is the same while energies weigh errors."""

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], surrogate: Surrogate) -> None:
        super().__init__(config, inputs, surrogate)
        self.weighs = bool(getattr(self.config, "weigh_errors", True)) and is_squared_distance(surrogate)
        """Whether `fit` measures errors."""

    @property
    def modes(self) -> Sequence[str]:
        """With energies that weigh errors and without, if errors were measured."""
        return () if self.measured is None else [WEIGHTED, PLAIN]

    def use_mode(self, mode: str) -> None:
        """Weigh errors or not; a model that does not is saved without them."""
        self.errors = self.measured if mode == WEIGHTED else None

    def knows_errors(self, pairs: int) -> bool:
        """Whether errors that another training measured tell more than so many pairs would."""
        return self.measured is not None and pairs < PAIRS_PER_DIRECTION * self.surrogate.dim

    def measure(self, queries: Tensor, embeddings: Tensor, context: Context) -> None:
        """Fit the error model to queries and embeddings (N, dim) of pairs, if there are enough and they differ."""
        self.errors = self.measured = None
        enough = len(embeddings) >= LEAST_PAIRS
        if enough and bool((embeddings != embeddings[0]).any()):
            model = ErrorModel(self.surrogate.dim).to(embeddings.device)
            self.errors = self.measured = model.fit(queries, embeddings)
            return
        why = "all outputs are equal" if enough else f"this needs {LEAST_PAIRS} training pairs"
        context.monitor.message(f"energies do not weigh the errors of the regression: {why}")

    def errors_state(self) -> dict[str, Tensor]:
        """The error model as named tensors, for `state`; empty if energies do not weigh errors."""
        return {} if self.errors is None else prefixed(PART, self.errors.state_dict())

    def restore_errors(self, state: Mapping[str, Tensor]) -> None:
        """Load what `errors_state` returned, from a whole state."""
        stored = Snapshot(state).part(PART)
        self.errors = self.measured = ErrorModel(self.surrogate.dim) if stored else None
        if self.measured is not None:
            self.measured.load_state_dict(stored)

    def to(self, device: torch.device) -> Self:
        """Move the error model."""
        if self.measured is not None:
            self.measured.to(device)
        return super().to(device)


def is_squared_distance(surrogate: Surrogate) -> bool:
    """Whether the energies of a surrogate are squared distances, which can be weighed."""
    return isinstance(surrogate.energy(torch.zeros(0, surrogate.dim)), SquaredDistance)


def sampled_rows(count: int) -> Sequence[Tensor]:
    """Evenly spaced rows of so many pairs, at most `MOST_PAIRS`, in parts that bound the memory."""
    found: Sequence[Tensor] = torch.arange(0, count, max(1, -(-count // MOST_PAIRS))).split(CHUNK)
    return found
