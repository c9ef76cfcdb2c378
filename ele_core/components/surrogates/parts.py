"""A fixed embedding that adds up the parts of a structure: nothing to learn, so a few hundred pairs suffice."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from ele_core.component import ComponentConfig
from ele_core.components.sketching import CHUNK, NEGLIGIBLE
from ele_core.energies import SquaredDistance
from ele_core.errors import damaged
from ele_core.interfaces import Energy, OutputSpace, Surrogate
from ele_core.numerics.sparse import PartEnergies, SparseRows, signs
from ele_core.runtime.context import Context
from ele_core.types import TrainingData

KNOWN = 1 << 15
"""Parts whose vectors are kept in memory; they are computed again if there are more."""


class PartsSurrogate(Surrogate):
    """ψ(y) = s Σ_p φ_p(y) r_p: the counts of the parts of y (`OutputSpace.features`), randomly projected.

    r_p is a fixed random vector for each part, so ‖ψ(y) − ψ(y′)‖² is about s² times the number of parts in which
    two structures differ. As ψ adds up parts, a regression learns it part by part, from far fewer pairs than an
    embedding that a network computes. s is such that embeddings have a mean squared distance of 1 from their mean.
    """

    spherical = False

    class Config(ComponentConfig):
        """The size of the embedding."""

        dim: int = Field(512, ge=1, le=1 << 16)
        """The dimension of the embedding: more distinguishes more parts."""

    config: Config

    def __init__(self, config: ComponentConfig | None, space: OutputSpace[Any, Any]) -> None:
        super().__init__(config, space)
        self.scale = torch.ones(1)
        self._parts = torch.zeros(0, dtype=torch.int64)
        self._vectors = torch.zeros(0, self.dim)

    @property
    def dim(self) -> int:
        """The dimension of the embedding."""
        return self.config.dim

    def fit(self, data: TrainingData, context: Context) -> None:
        """Choose the scale by the training outputs; nothing else is learned."""
        sample = context.generator("embedding", "scale")
        outputs = data.in_memory.outputs
        rows = torch.randperm(len(outputs), generator=sample)[:CHUNK]
        self.scale = torch.ones(1, device=context.device)
        embedded = self.added(outputs[rows])
        spread = (embedded - embedded.mean(dim=0)).square().sum(dim=1).mean().item()
        varies = spread > NEGLIGIBLE * embedded.square().sum(dim=1).mean().item()  # else all outputs are equal
        self.scale.fill_(1 / math.sqrt(spread) if varies else 1.0)

    def embed(self, batch: Any) -> Tensor:
        """Packed structures → (B, dim)."""
        return self.added(batch)

    def added(self, batch: Any) -> Tensor:
        """The sums of the vectors of parts: (B, dim)."""
        parts = batch.chunks(CHUNK) if len(batch) else [batch]
        return torch.cat([self._embed(self.space.features(part.to(torch.device("cpu")))) for part in parts])

    def energy(self, queries: Tensor) -> Energy:
        """The squared distance, with an estimate from parts."""
        return SquaredDistance(self, queries, self._estimate)

    def _estimate(self, queries: Tensor) -> PartEnergies:
        """The energies themselves, but with r_p taken as exactly orthogonal."""
        scale = self.scale.item()
        return PartEnergies(queries * (-2 * scale / math.sqrt(self.dim)), scale**2)

    def state(self) -> dict[str, Tensor]:
        """The scale."""
        return {"scale": self.scale}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Load the scale."""
        scale = state["scale"]
        if scale.shape != (1,) or not bool(scale.isfinite().all() and (scale > 0).all()):
            raise damaged("the scale of the embedding is not a positive number.")
        self.scale = scale

    def to(self, device: torch.device) -> Self:
        """Move the scale to `device`, where embeddings are then returned."""
        self.scale = self.scale.to(device)
        return self

    def _embed(self, features: SparseRows) -> Tensor:
        self._learn(features.keys.unique())
        products = features.within(self._parts).times(self._vectors)
        return products.to(self.scale.device) * (self.scale / math.sqrt(self.dim))

    def _learn(self, parts: Tensor) -> None:
        """Make the vectors of parts that are not known yet."""
        place = torch.searchsorted(self._parts, parts).clamp(max=max(0, len(self._parts) - 1))
        new = parts[self._parts[place] != parts] if len(self._parts) else parts
        if len(new) == 0:
            return
        if len(self._parts) + len(new) > KNOWN:
            self._parts, self._vectors, new = self._parts[:0], self._vectors[:0], parts
        self._parts, order = torch.cat([self._parts, new]).sort()
        self._vectors = torch.cat([self._vectors, signs(new, self.dim)])[order]


COSINE = 0.8
"""The cosine between a query and its structure for which the estimate of energies is exact to first order."""


class CentredPartsSurrogate(PartsSurrogate):
    """ψ(y) = (p(y) − μ) / ‖p(y) − μ‖, where p is the embedding `parts` and μ its mean over the training outputs.

    A regression that is far from sure predicts embeddings near the mean, and by their distances the nearest structures
    are then the most ordinary ones. By directions they are not. Use it where inputs tell only a part of the output.
    """

    spherical = True

    def __init__(self, config: ComponentConfig | None, space: OutputSpace[Any, Any]) -> None:
        super().__init__(config, space)
        self.mean = torch.zeros(self.dim)

    def fit(self, data: TrainingData, context: Context) -> None:
        """Choose the scale and the mean by the training outputs; nothing else is learned."""
        super().fit(data, context)
        self.mean = self.added(data.in_memory.outputs).mean(dim=0)

    def embed(self, batch: Any) -> Tensor:
        """Packed structures → (B, dim), of norm 1."""
        return functional.normalize(self.added(batch) - self.mean, dim=1)

    def _estimate(self, queries: Tensor) -> PartEnergies:
        """The first-order change of the energies of structures at the usual distance from the mean.

        With n = ‖p − μ‖ about 1, 2 − 2⟨q, p − μ⟩/n changes as −2⟨q, p⟩ + c ‖p − μ‖², where c is the cosine.
        """
        scale = self.scale.item()
        centre = queries + COSINE * self.mean
        return PartEnergies(centre * (-2 * scale / math.sqrt(self.dim)), COSINE * scale**2)

    def state(self) -> dict[str, Tensor]:
        """The scale and the mean."""
        return {**super().state(), "mean": self.mean}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Load the scale and the mean."""
        super().restore(state)
        mean = state["mean"]
        if mean.shape != (self.dim,) or not bool(mean.isfinite().all()):
            raise damaged("the mean of the embedding has another shape.")
        self.mean = mean

    def to(self, device: torch.device) -> Self:
        """Move the scale and the mean to `device`."""
        self.mean = self.mean.to(device)
        return super().to(device)
