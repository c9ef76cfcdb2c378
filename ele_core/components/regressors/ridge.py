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
from ele_core.components.regressors.measured import MeasuredRegressor, sampled_rows
from ele_core.components.sketching import CHUNK, KernelName, KernelOptions, Sketch, SketchedKernel
from ele_core.errors import damaged
from ele_core.interfaces import InputSpace, Surrogate
from ele_core.numerics.sparse import SparseRows
from ele_core.numerics.tensors import Tensors
from ele_core.runtime.context import Context
from ele_core.runtime.work import Snapshot
from ele_core.types import Pairs, Stage, TrainingData

REGRESSION = Stage("regression", decides="validation_error")


class SketchedRidgeRegressor(MeasuredRegressor):
    """h(x) = z(x) H, where H minimises Σ_i ‖z(x_i) H − ψ(y_i)‖² + n λ ‖H‖² and z is the sketched input kernel.

    H = (ZᵀZ + n λ I)⁻¹ Zᵀ Ψ. One eigendecomposition of ZᵀZ serves all λ; the λ of least error on the validation pairs
    is kept. Works with any surrogate.

    With `weigh_errors`, the error of the prediction for each training pair by the regression without that pair, which
    has a closed form, tells how far to trust each direction of the embedding (`ErrorModel`).
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

        weigh_errors: bool = True
        """Whether energies may weigh each direction of the embedding by the errors of predictions for training pairs
        that were left out; validation pairs decide. With fewer than 200 pairs, or equal outputs, they do not."""

    config: Config

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], surrogate: Surrogate) -> None:
        super().__init__(config, inputs, surrogate)
        self.map = SketchedKernel(self.config)
        self.weights = torch.zeros(0, 0)

    def fit(self, data: TrainingData, context: Context) -> None:
        """Sketch the inputs, add up ZᵀZ and ZᵀΨ chunk by chunk, and solve for the best penalty."""
        train = data.in_memory
        self.map.fit(self._features, train.inputs, context, REGRESSION.name)
        square, cross = self._moments(train, context)
        values, vectors = torch.linalg.eigh(square)
        rotated = vectors.T @ cross
        held_out = torch.cat([self._map(part) for part in data.validation.inputs.chunks(CHUNK)]).double() @ vectors
        targets = self.surrogate.embed(data.validation.outputs[:]).double()
        least, best = float("inf"), values
        for step, penalty in enumerate(self.config.penalties, start=1):
            penalised = values.clamp(min=0) + len(train) * penalty
            solution = rotated / penalised.unsqueeze(1)
            error = (held_out @ solution - targets).square().sum(dim=1).mean().item()
            metrics = {REGRESSION.decides: error, "log10_penalty": math.log10(penalty)}
            context.monitor.evaluation(REGRESSION.name, step, metrics, best=error < least)
            if error < least:
                least, best, self.weights = error, penalised, (vectors @ solution).float()
        if self.weighs:
            self.measure(*self._left_out(train, vectors, best, rotated), context)

    def _left_out(self, train: Pairs, vectors: Tensor, penalised: Tensor, rotated: Tensor) -> tuple[Tensor, Tensor]:
        """Predictions for training pairs, each by the regression without it, and the embeddings of their outputs."""
        queries, embeddings = [], []
        for some in sampled_rows(len(train)):
            mapped = self._map(train.inputs[some]).double() @ vectors
            embeddings.append(self.surrogate.embed(train.outputs[some]).double())
            queries.append(left_out(mapped, embeddings[-1], penalised, rotated))
        return torch.cat(queries), torch.cat(embeddings)

    def predict(self, inputs: Tensors) -> Tensor:
        """Packed inputs → (B, dim)."""
        parts = inputs.chunks(CHUNK) if len(inputs) else [inputs]
        return torch.cat([self._map(part) @ self.weights for part in parts])

    def state(self) -> dict[str, Tensor]:
        """The sketched input kernel, H, and the error model if there is one."""
        return {**self.map.state(), "weights": self.weights, **self.errors_state()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Load the sketched input kernel, H and the error model."""
        weights = state["weights"]
        if weights.shape != (self.map.dim, self.surrogate.dim) or weights.dtype != self.weights.dtype:
            what = "the weights of the ridge regression do not fit the configuration: they have another shape or type."
            raise damaged(what)
        self.map.restore(state)
        self.weights = weights
        self.restore_errors(state)

    def to(self, device: torch.device) -> Self:
        """Move what was learned to `device`."""
        self.map.to(device)
        self.weights = self.weights.to(device)
        return super().to(device)

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
            if self.weighs:
                mapped = mapped.double()  # what a pair changes is far smaller than the sum over all pairs
            sums[:, : self.map.dim] += mapped.T @ mapped
            embedded = self.surrogate.embed(pairs.outputs[start : start + CHUNK]).to(mapped.dtype)
            sums[:, self.map.dim :] += mapped.T @ embedded
            context.work.step(REGRESSION.name, partial(Snapshot, {"sums": sums}, {"done": start + CHUNK}))
        return sums[:, : self.map.dim], sums[:, self.map.dim :]


def left_out(mapped: Tensor, targets: Tensor, penalised: Tensor, rotated: Tensor) -> Tensor:
    """The prediction for each of n training pairs by the ridge regression without that pair, in closed form: (n, dim).

    With ZᵀZ = V Λ Vᵀ: `mapped` is Z V (n, m), `penalised` the diagonal of Λ + penalty (m,), `rotated` VᵀZᵀΨ (m, dim).
    The fitted value is ŷ_i = (1 − h) y⁻_i + h y_i, where y⁻_i is the prediction without pair i and
    h = z_iᵀ (ZᵀZ + penalty)⁻¹ z_i. All in double precision: h is near 1 for small penalties.
    """
    fitted = mapped @ (rotated / penalised.unsqueeze(1))
    leverage = (mapped.square() / penalised).sum(dim=1, keepdim=True)
    return targets + (fitted - targets) / (1 - leverage).clamp(min=torch.finfo(mapped.dtype).eps)
