"""A linear model of a learned embedding on the parts of structures: a fast estimate of its energies for `search`."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ele_core.components.sketching import CHUNK
from ele_core.errors import ModelError
from ele_core.interfaces import OutputSpace
from ele_core.numerics.sparse import PartEnergies, signs

STRUCTURES = 20_000
"""The most structures that the model is fitted to."""
WIDTH = 1024
"""The dimension of the random projection of the parts."""
RIDGE = 0.01
"""The regularisation, relative to the mean square of the projected parts."""


class Outline:
    """ψ(y) ≈ W φ(y) + b, where φ are the parts of y (`OutputSpace.features`), randomly projected.

    On a sphere the energy is 2 − 2⟨q, ψ(y)⟩, so that W alone ranks structures for a query.
    """

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight
        """W (WIDTH, dim)."""

    @classmethod
    def empty(cls, dim: int) -> Outline:
        """Before it is fitted."""
        return cls(torch.zeros(0, dim))

    @classmethod
    def fitted(cls, space: OutputSpace[Any, Any], outputs: Any, embeddings: Tensor) -> Outline:
        """Fit W to structures and their embeddings (N, dim) by ridge regression."""
        parts = torch.cat([_projected(space, chunk) for chunk in outputs.chunks(CHUNK)]).double()
        parts, targets = parts - parts.mean(dim=0), (embeddings - embeddings.mean(dim=0)).cpu().double()
        gram = parts.T @ parts
        ridge = RIDGE * gram.diagonal().mean().clamp(min=torch.finfo(torch.float32).tiny)
        gram.diagonal().add_(ridge)
        return cls(torch.linalg.solve(gram, parts.T @ targets).float())

    @classmethod
    def restored(cls, weight: Tensor, dim: int) -> Outline:
        """The model with a stored W, which is empty if it was never fitted."""
        if weight.shape == (0, dim):
            return cls.empty(dim)
        if weight.shape != (WIDTH, dim) or not bool(weight.isfinite().all()):
            raise ModelError(
                "the estimate of energies from parts does not fit the embedding.",
                fix="Get an intact copy, or train again.",
            )
        return cls(weight)

    def energies(self, queries: Tensor) -> PartEnergies | None:
        """The estimate for each query (B, dim); None if it was never fitted."""
        if not len(self.weight):
            return None
        return PartEnergies(queries @ self.weight.to(queries).T * (-2 / math.sqrt(WIDTH)))


def _projected(space: OutputSpace[Any, Any], batch: Any) -> Tensor:
    """The parts of structures, projected: (B, WIDTH)."""
    features = space.features(batch)
    parts = features.keys.unique()
    return features.within(parts).times(signs(parts, WIDTH)) / math.sqrt(WIDTH)
