"""`fgw-ridge`: kernel ridge regression that predicts a weighted set of training graphs: ILE-FGW, sketched."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import Field, PositiveFloat
from torch import Tensor

from ele_core import ComponentConfig, Context, InputSpace, Regressor, SparseRows, Surrogate, Tensors, TrainingData
from ele_core.components.sketching import KernelOptions, Sketch, SketchedKernel
from ele_core.errors import ModelError
from ele_core.types import Stage
from ele_graphs.rivals.fgw.surrogate import require_fused

CHUNK = 2048
"""Inputs mapped at once."""
REGRESSION = Stage("regression", decides="validation_energy")
CELLS = 1 << 25
"""Weights held at once: 128 MiB."""


class FusedRidgeRegressor(Regressor):
    """h(x) = Σ_i α_i(x) δ(y_i) with α(x) = Z (ZᵀZ + n λ I)⁻¹ z(x), where z is the sketched input kernel.

    The greatest few of the n weights are kept, if above zero, and normalised to sum 1. λ is the one that minimises
    the mean of Σ_i α_i(x) FGW(y, y_i) over validation pairs.
    """

    stages = (REGRESSION,)

    class Config(KernelOptions):
        """The input kernel, its sketch, the penalties to choose from, and how many training graphs make a query."""

        kernel: Literal["cosine", "gaussian"] = "gaussian"
        """`gaussian`: exp(−‖φ(x) − φ(x′)‖² / 2 width²). `cosine`: ⟨φ(x), φ(x′)⟩ / ‖φ(x)‖‖φ(x′)‖."""
        sketch: Sketch = Sketch(size=1000)
        """How the training inputs are sketched. A model keeps `size` numbers for each training input."""
        grams: int = Field(4, ge=1, le=64)
        """Texts are compared by their runs of one to this many tokens; ignored for other inputs."""
        penalties: Annotated[tuple[PositiveFloat, ...], Field(min_length=1)] = tuple(
            10.0**-power for power in range(2, 9)
        )
        """The values of λ that are tried."""
        neighbours: int = Field(10, ge=1)
        """Training graphs per query, those of greatest weight."""
        validated: int = Field(200, ge=1)
        """The largest number of validation pairs to choose λ by: each takes `neighbours` distances for each λ."""

    config: Config

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], surrogate: Surrogate) -> None:
        super().__init__(config, inputs, surrogate)
        self.fused = require_fused("fgw-ridge", surrogate)
        self.map = SketchedKernel(self.config)
        self.mapped = torch.zeros(0, 0)
        self.inverse = torch.zeros(0, 0)
        self.graphs = torch.zeros(0, 0)

    def fit(self, data: TrainingData, context: Context) -> None:
        """Sketch the inputs, and choose the best penalty: one eigendecomposition of ZᵀZ serves all penalties."""
        train, held_out = data.in_memory, data.validation[: self.config.validated]
        self.map.fit(self._features, train.inputs, context, REGRESSION.name)
        starts = range(0, len(train), CHUNK)
        shown = context.monitor.progress(starts, description=REGRESSION.name, total=len(starts))
        self.mapped = torch.cat([self._map(train.inputs[start : start + CHUNK]) for start in shown])
        self.graphs = self.surrogate.embed(train.outputs[:]).to(context.device)
        values, vectors = torch.linalg.eigh(self.mapped.double().T @ self.mapped.double())
        least, best = math.inf, self.inverse
        penalties = context.monitor.progress(self.config.penalties, description="penalty")
        for step, penalty in enumerate(penalties, start=1):
            shrunk = 1 / (values.clamp(min=0) + len(train) * penalty)
            self.inverse = ((vectors * shrunk) @ vectors.T).float()
            energy = self.surrogate.energy(self.predict(held_out.inputs[:])).of(held_out.outputs[:]).mean().item()
            metrics = {REGRESSION.decides: energy, "log10_penalty": math.log10(penalty)}
            context.monitor.evaluation(REGRESSION.name, step, metrics, best=energy < least)
            if energy < least:
                least, best = energy, self.inverse
        self.inverse = best

    def predict(self, inputs: Tensors) -> Tensor:
        """Packed inputs → the weighted training graphs (B, k · dim)."""
        size = max(1, CELLS // max(1, len(self.mapped)))
        parts = inputs.chunks(min(size, CHUNK)) if len(inputs) else [inputs]
        return torch.cat([self._query(self._map(part) @ self.inverse @ self.mapped.T) for part in parts])

    def state(self) -> dict[str, Tensor]:
        """The sketched input kernel, the training inputs in it, the solution, and the training graphs."""
        return {**self.map.state(), "mapped": self.mapped, "inverse": self.inverse, "graphs": self.graphs}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Load the tensors of `state`; refuse them if their shapes do not match."""
        mapped, inverse, graphs = state["mapped"], state["inverse"], state["graphs"]
        shapes = (len(mapped), self.map.dim), (self.map.dim, self.map.dim), (len(mapped), self.surrogate.dim)
        found, types = (mapped.shape, inverse.shape, graphs.shape), {mapped.dtype, inverse.dtype, graphs.dtype}
        if found != shapes or not len(mapped) or types != {self.mapped.dtype}:
            what = "the shapes or types of the tensors of 'fgw-ridge' do not match."
            raise ModelError(what, fix="Get an intact copy, or train again.")
        self.map.restore(state)
        self.mapped, self.inverse, self.graphs = mapped, inverse, graphs

    def to(self, device: torch.device) -> Self:
        self.map.to(device)
        self.mapped, self.inverse, self.graphs = (t.to(device) for t in (self.mapped, self.inverse, self.graphs))
        return self

    def _query(self, weights: Tensor) -> Tensor:
        """Weights of all training graphs (B, n) → the greatest, normalised, with their graphs (B, k · dim)."""
        greatest = first_of_greatest(weights, min(self.config.neighbours, weights.shape[1]))
        kept = weights.gather(1, greatest).clamp(min=0)
        kept[:, 0] = kept[:, 0].clamp(min=torch.finfo(kept.dtype).tiny)  # if no weight is positive, the greatest counts
        _, graphs = self.fused.layout.unpack(self.graphs[greatest.flatten()])
        return self.fused.layout.pack(kept / kept.sum(dim=1, keepdim=True), graphs)

    def _features(self, inputs: Tensors) -> SparseRows:
        return self.inputs.features(inputs, grams=self.config.grams)

    def _map(self, inputs: Tensors) -> Tensor:
        return self.map(self._features(inputs))


def first_of_greatest(weights: Tensor, k: int) -> Tensor:
    """The columns of the k greatest weights (B, n) of each row: (B, k). Of weights that differ by rounding, the first.

    Otherwise it would depend on the other rows which of two equally good graphs is taken.
    """
    scale = weights.abs().amax(dim=1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)
    return (weights / scale * 1e5).round().sort(dim=1, descending=True, stable=True).indices[:, :k]
