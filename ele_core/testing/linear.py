"""A surrogate that needs no training and has a closed form, and problems that use it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ele_core.interfaces import Candidates, ComponentConfig, Problem, Surrogate
from ele_core.runtime.context import Context
from ele_core.testing.samples import Space, seeded, structures

CANDIDATES = 12


class LinearSurrogate(Surrogate):
    """ψ(y) = W · relax(y), flattened, with a fixed random W; in float64, so that batches of any size round alike."""

    differentiable = True

    class Config(ComponentConfig):
        """Options: the dimension."""

        dim: int = 16
        """Dimension of the embedding."""

    config: Config

    def __init__(self, config: ComponentConfig | None, space: Space) -> None:
        super().__init__(config, space)
        size, dim = sum(math.prod(convex.point_shape) for convex in space.geometry.values()), self.config.dim
        self.weights = torch.randn(size, dim, generator=seeded(), dtype=torch.float64) / dim**0.5

    @property
    def dim(self) -> int:
        return self.config.dim

    def fit(self, outputs: Any, validation: Any, extra: Any | None, context: Context) -> None:
        """Nothing is learned."""

    def embed(self, batch: Any) -> Tensor:
        return self.embed_at(self.space.relax(batch))

    def state(self) -> dict[str, Tensor]:
        return {"weights": self.weights}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.weights = state["weights"]

    def embed_at(self, point: Any) -> Tensor:
        flat = [getattr(point, name).double().flatten(start_dim=1) for name in self.space.geometry]
        found: Tensor = torch.cat(flat, dim=1) @ self.weights
        return found


class BlindSurrogate(LinearSurrogate):
    """The same embedding without a gradient, to check decoders that need none."""

    differentiable = False

    def energy_at(self, queries: Tensor, point: Any) -> Tensor:
        raise NotImplementedError(
            "this surrogate has no gradient: set `needs_gradient` on a decoder that calls `energy_at`"
        )


def sample_problem(space: Space, surrogate: Surrogate | None = None) -> Problem:
    """A problem for decoders: a few candidates of `space`, by default under a `LinearSurrogate`."""
    surrogate = surrogate or LinearSurrogate(None, space)
    batch = structures(space, 2 * CANDIDATES)[::2]
    return Problem(space, surrogate, Candidates(batch, surrogate.embed(batch)))


def sample_queries(problem: Problem, count: int = 5) -> Tensor:
    """Embeddings of structures, half of which are not candidates."""
    return problem.surrogate.embed(structures(problem.space, 2 * CANDIDATES)[:count])
