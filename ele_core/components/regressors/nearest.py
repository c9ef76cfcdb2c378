"""Copying: the query of an input is the embedding of the output of the nearest training input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor

from ele_core.component import ComponentConfig
from ele_core.errors import ModelError, damaged
from ele_core.interfaces import InputSpace, Regressor, Surrogate
from ele_core.numerics.tensors import Tensors
from ele_core.runtime.context import Context
from ele_core.runtime.work import Snapshot, prefixed
from ele_core.types import Stage, TrainingData

REGRESSION = Stage("regression", decides="validation_error")


class NearestRegressor(Regressor):
    """h(x) = ψ(y′), where x′ is the training input nearest to x (`InputSpace.nearest`) and y′ its output.

    With any decoder that finds the structure of an embedding, this predicts y′: the baseline that a model should beat.
    The training inputs are part of the model.
    """

    stages = (REGRESSION,)

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], surrogate: Surrogate) -> None:
        super().__init__(config, inputs, surrogate)
        self.known: Tensors | None = None
        self.queries = torch.zeros(0, 0)

    def fit(self, data: TrainingData, context: Context) -> None:
        """Keep the training inputs and the embeddings of their outputs."""
        self.known = data.in_memory.inputs[:]
        self.queries = context.processes.spread(self.surrogate.embed, data.in_memory.outputs[:])
        targets = self.surrogate.embed(data.validation.outputs[:])
        error = (self.predict(data.validation.inputs[:]) - targets).square().sum(dim=1).mean().item()
        context.monitor.evaluation(REGRESSION.name, 1, {REGRESSION.decides: error}, best=True)

    def predict(self, inputs: Tensors) -> Tensor:
        """Packed inputs → (B, dim)."""
        if self.known is None:
            raise ModelError("the regressor was used before it was fitted.", fix="Call `fit` first.")
        rows, _ = self.inputs.nearest(inputs.to(torch.device("cpu")), self.known)
        return self.queries[rows.to(self.queries.device)]

    def state(self) -> dict[str, Tensor]:
        """The training inputs and the embeddings of their outputs."""
        known = {} if self.known is None else self.known.as_dict()
        return {**prefixed("inputs", known), "queries": self.queries}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Load the training inputs and the embeddings of their outputs."""
        stored, queries = Snapshot(state).part("inputs"), state["queries"]
        if queries.dtype not in (torch.float32, torch.float64):
            raise damaged("the queries of the training inputs have another type.")
        self.queries = queries
        if not stored and not queries.numel():  # saved before `fit`
            self.known = None
            return
        sizes = {len(tensor) for tensor in stored.values()} | {len(queries)}
        if len(sizes) > 1 or queries.shape[1:] != (self.surrogate.dim,) or not bool(queries.isfinite().all()):
            raise damaged("the training inputs and their queries do not go together.")
        self.known = self.inputs.Batch.from_dict(stored)
        self.predict(self.known[:1])  # tensors of another shape fail here, not at the first prediction

    def to(self, device: torch.device) -> Self:
        """Move the queries to `device`; the inputs are compared on the CPU."""
        self.queries = self.queries.to(device)
        return self
