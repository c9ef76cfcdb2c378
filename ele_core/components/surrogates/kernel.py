"""Output kernels as surrogates, sketched: the loss of DSOKR and SISOKR, on any output space."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import torch
from pydantic import Field
from torch import Tensor

from ele_core.component import ComponentConfig
from ele_core.components.sketching import CHUNK, KernelOptions, SketchedKernel
from ele_core.energies import QueryEnergy
from ele_core.interfaces import Energy, OutputSpace, Surrogate
from ele_core.numerics.sparse import SparseRows
from ele_core.runtime.context import Context
from ele_core.types import Candidates, TrainingData


class SketchedKernelSurrogate(Surrogate):
    """ψ̃(y): the projection of k(·, y) onto the span of a sketch of the training outputs, in an orthonormal basis.

    The energy of y for a query h is the squared distance in the space of the kernel, ‖h − k(·, y)‖² =
    ‖h‖² − 2⟨h, ψ̃(y)⟩ + 1, because k(y, y) = 1: it is least if ⟨h, ψ̃(y)⟩ is greatest.

    The kernel compares the `features` of structures, here those of the output space. A plugin with better ones
    subclasses this and overrides only `features`.
    """

    spherical = False

    class Config(KernelOptions):
        """The output kernel, and how it is sketched."""

        dim: int | None = Field(None, ge=1)
        """The number of components kept, those of the greatest eigenvalues; None: as many as the sketch has rows."""

    config: Config

    def __init__(self, config: ComponentConfig | None, space: OutputSpace[Any, Any]) -> None:
        super().__init__(config, space)
        self.map = SketchedKernel(self.config, self.config.dim)

    @property
    def dim(self) -> int:
        """The number of components; those beyond the rank of the sketch are zero."""
        return self.map.dim

    def features(self, batch: Any) -> SparseRows:
        """φ(y): the features that the kernel compares."""
        return self.space.features(batch)

    def fit(self, data: TrainingData, context: Context) -> None:
        """Sketch the training outputs; nothing else is looked at."""
        self.map.fit(self.features, data.in_memory.outputs, context, "embedding")

    def embed(self, batch: Any) -> Tensor:
        """Packed structures → (B, dim)."""
        parts = batch.chunks(CHUNK) if len(batch) else [batch]
        return torch.cat([self.map(self.features(part)) for part in parts])

    def energy(self, queries: Tensor) -> Energy:
        """‖h − k(·, y)‖²."""
        return KernelDistance(self, queries)

    def state(self) -> dict[str, Tensor]:
        """The sketched kernel."""
        return self.map.state()

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Load the sketched kernel."""
        self.map.restore(state)

    def to(self, device: torch.device) -> Self:
        """Move the sketched kernel to `device`."""
        self.map.to(device)
        return self


class KernelDistance(QueryEnergy):
    """‖h‖² − 2⟨h, ψ̃(y)⟩ + 1."""

    def of(self, batch: Any, owner: Tensor | None = None) -> Tensor:
        """That of structure n and its query: (N,)."""
        queries = self.asked(owner)
        return queries.square().sum(dim=1) + 1 - 2 * (queries * self.surrogate.embed(batch)).sum(dim=1)

    def among(self, candidates: Candidates) -> Tensor:
        """That of every query and candidate: (B, N)."""
        constant = self.queries.square().sum(dim=1, keepdim=True) + 1
        return torch.addmm(constant, self.queries, candidates.kept_by(self.surrogate).T, alpha=-2)
