"""Energies that weigh the directions of an embedding by the errors of a regressor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from ele_core.interfaces import Surrogate
from ele_core.numerics.error_model import ErrorModel
from ele_core.numerics.sparse import PartEnergies
from ele_core.runtime.context import Context


class WeightedSurrogate(Surrogate):
    """A fitted surrogate with the energies of an `ErrorModel`, for decoding; its embeddings stay the same."""

    spherical = False

    def __init__(self, base: Surrogate, errors: ErrorModel) -> None:
        super().__init__(base.config, base.space)
        self.base, self.errors = base, errors

    @property
    def dim(self) -> int:
        """The dimension of the embedding."""
        return self.base.dim

    def fit(self, outputs: Any, validation: Any, extra: Any | None, context: Context) -> None:
        """Nothing: the surrogate is fitted, and the errors are those of the regressor."""

    def embed(self, batch: Any) -> Tensor:
        """The embeddings of the surrogate."""
        return self.base.embed(batch)

    def energies(self, queries: Tensor, embeddings: Tensor) -> Tensor:
        """The weighted energy of every embedding for every query: (B, dim), (N, dim) → (B, N)."""
        errors = self.errors
        return super().energies(errors.weighted(queries), errors.weighted(errors.expected(embeddings)))

    def energy(self, queries: Tensor, batch: Any) -> Tensor:
        """The weighted energy of structure i for query i: (B,)."""
        return self.errors.weighted(queries - self.errors.expected(self.embed(batch))).square().sum(dim=1)

    def estimate(self, queries: Tensor) -> PartEnergies | None:
        """That of the surrogate, without weights; `estimate_near` is better."""
        return self.base.estimate(queries)

    def estimate_near(self, queries: Tensor, structures: Any) -> PartEnergies | None:
        """An estimate of the weighted energies of structures that are a move away from structure i."""
        return self.base.estimate(self.errors.towards(queries, self.embed(structures)))

    def state(self) -> dict[str, Tensor]:
        """That of the surrogate."""
        return self.base.state()

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Restore the surrogate."""
        self.base.restore(state)
