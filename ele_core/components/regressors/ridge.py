"""Ridge regression between two sketched kernels, in closed form: the regressor of SISOKR."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, Self

import torch
from pydantic import Field, PositiveFloat
from torch import Tensor

from ele_core.component import ComponentConfig
from ele_core.components.sketching import CHUNK, KernelName, KernelOptions, Sketch, SketchedKernel
from ele_core.errors import ModelError
from ele_core.interfaces import InputSpace, Regressor, Surrogate
from ele_core.numerics.sparse import SparseRows
from ele_core.numerics.tensors import Tensors
from ele_core.runtime.context import Context
from ele_core.runtime.work import Snapshot
from ele_core.types import Pairs, Stage, TrainingData

REGRESSION = Stage("regression", decides="validation_error")


class SketchedRidgeRegressor(Regressor):
    """h(x) = z(x) H, where H minimises Σ_i ‖z(x_i) H − ψ(y_i)‖² + n λ ‖H‖² and z is the sketched input kernel.

    H = (ZᵀZ + n λ I)⁻¹ Zᵀ Ψ. One eigendecomposition of ZᵀZ serves all λ; the λ of least error on the validation pairs
    is kept. Works with any surrogate.
    """

    stages = (REGRESSION,)

    class Config(KernelOptions):
        """The input kernel, its sketch, and the penalties to choose from."""

        kernel: KernelName = "gaussian"
        """`gaussian`: exp(−‖φ(x) − φ(x′)‖² / 2 width²). `cosine`: ⟨φ(x), φ(x′)⟩ / ‖φ(x)‖‖φ(x′)‖."""
        sketch: Sketch = Sketch(size=2000)
        """How the training inputs are sketched."""
        grams: int = Field(4, ge=1, le=64)
        """Texts are compared by their runs of one to `grams` tokens; unused for inputs without tokens."""
        penalties: tuple[PositiveFloat, ...] = Field(tuple(10.0**-power for power in range(2, 10)), min_length=1)
        """The values of λ that are tried; the best on the validation pairs is kept."""

    config: Config

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], surrogate: Surrogate) -> None:
        super().__init__(config, inputs, surrogate)
        self.map = SketchedKernel(self.config)
        self.weights = torch.zeros(0, 0)

    def fit(self, data: TrainingData, context: Context) -> None:
        """Sketch the inputs, add up ZᵀZ and ZᵀΨ chunk by chunk, and solve for the best penalty."""
        train = data.train
        self.map.fit(self._features, train.inputs, context, REGRESSION.name)
        square, cross = self._moments(train, context)
        values, vectors = torch.linalg.eigh(square)
        rotated = vectors.T @ cross
        held_out = torch.cat([self._map(part) for part in data.validation.inputs.chunks(CHUNK)]).double() @ vectors
        targets = self.surrogate.embed(data.validation.outputs[:]).double()
        least = float("inf")
        for step, penalty in enumerate(self.config.penalties, start=1):
            solution = rotated / (values.clamp(min=0) + len(train) * penalty).unsqueeze(1)
            error = (held_out @ solution - targets).square().sum(dim=1).mean().item()
            metrics = {REGRESSION.decides: error, "log10_penalty": math.log10(penalty)}
            context.monitor.evaluation(REGRESSION.name, step, metrics, best=error < least)
            if error < least:
                least, self.weights = error, (vectors @ solution).float()

    def predict(self, inputs: Tensors) -> Tensor:
        """Packed inputs → (B, dim)."""
        parts = inputs.chunks(CHUNK) if len(inputs) else [inputs]
        return torch.cat([self._map(part) @ self.weights for part in parts])

    def state(self) -> dict[str, Tensor]:
        """The sketched input kernel and H."""
        return {**self.map.state(), "weights": self.weights}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Load the sketched input kernel and H."""
        weights = state["weights"]
        if weights.shape != (self.map.dim, self.surrogate.dim) or weights.dtype != self.weights.dtype:
            what = "the weights of the ridge regression do not fit the configuration: they have another shape or type."
            raise ModelError(what, fix="Get an intact copy, or train again.")
        self.map.restore(state)
        self.weights = weights

    def to(self, device: torch.device) -> Self:
        """Move what was learned to `device`."""
        self.map.to(device)
        self.weights = self.weights.to(device)
        return self

    def _features(self, inputs: Tensors) -> SparseRows:
        return self.inputs.features(inputs, grams=self.config.grams)

    def _map(self, inputs: Tensors) -> Tensor:
        return self.map(self._features(inputs))

    def _moments(self, pairs: Pairs, context: Context) -> tuple[Tensor, Tensor]:
        """ZᵀZ (m, m) and ZᵀΨ (m, dim), in double precision; checkpoints keep the sums so far."""
        shape = self.map.dim, self.map.dim + self.surrogate.dim
        sums, done = torch.zeros(shape, dtype=torch.float64, device=context.device), 0
        if (saved := context.work.saved(REGRESSION.name)) is not None:
            sums, done = saved.tensors["sums"].to(context.device), saved.values["done"]
        starts = range(done, len(pairs), CHUNK)
        for start in context.monitor.progress(starts, description=REGRESSION.name, total=len(starts)):
            mapped = self._map(pairs.inputs[start : start + CHUNK])
            sums[:, : self.map.dim] += mapped.T @ mapped
            embedded = self.surrogate.embed(pairs.outputs[start : start + CHUNK]).to(mapped.dtype)
            sums[:, self.map.dim :] += mapped.T @ embedded
            context.work.step(REGRESSION.name, partial(Snapshot, {"sums": sums}, {"done": start + CHUNK}))
        return sums[:, : self.map.dim], sums[:, self.map.dim :]
