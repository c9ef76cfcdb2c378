"""A fixed embedding of the directions in which structures differ from their mean, by their parts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn import functional

from ele_core.component import ComponentConfig
from ele_core.components.surrogates.parts import PartsSurrogate
from ele_core.errors import ModelError
from ele_core.interfaces import OutputSpace
from ele_core.numerics.sparse import PartEnergies
from ele_core.runtime.context import Context
from ele_core.types import TrainingData

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
        self.mean = self.added(data.train.outputs).mean(dim=0)

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
            raise ModelError("the mean of the embedding has another shape.", fix="Get an intact copy, or train again.")
        self.mean = mean

    def to(self, device: torch.device) -> Self:
        """Move the scale and the mean to `device`."""
        self.mean = self.mean.to(device)
        return super().to(device)
