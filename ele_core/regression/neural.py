"""The paper's regressor: a backbone into the embedding, trained on the squared distance to frozen embeddings."""

from __future__ import annotations

from typing import Annotated, Any

import torch
from torch import Generator, Tensor
from torch.nn import functional

from ele_core.context import Context
from ele_core.data import ShuffledBatches
from ele_core.interfaces import (
    Backbone,
    Choice,
    ComponentConfig,
    InputSpace,
    NetworkLearner,
    Regressor,
    Surrogate,
    Takes,
)
from ele_core.optimisation import Training, optimise
from ele_core.plugins import registry
from ele_core.tensors import Tensors

CHUNK = 1024
"""Inputs predicted at once."""


class NeuralRegressor(NetworkLearner, Regressor):
    """h(x) = backbone(x) / ‖·‖, minimising ‖h(x) − ψ(y)‖² = 2 − 2⟨h(x), ψ(y)⟩ over the training pairs.

    Where the surrogate is not `spherical`, h(x) = backbone(x) / √dim: queries begin with a norm of about 1 whatever the
    dimension. Without the factor, training in 1,000 dimensions stays at the mean of the targets.
    """

    class Config(ComponentConfig):
        """Options of the regression stage."""

        backbone: Annotated[Choice, Takes("backbone")] = Choice(name="gru")
        """The network on inputs."""
        training: Training = Training(batch_size=128, epochs=20)
        """How the backbone is trained."""

    config: Config

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], surrogate: Surrogate) -> None:
        super().__init__(config, inputs, surrogate)
        choice = self.config.backbone
        self.backbone: Backbone = registry().create(
            "backbone", choice, inputs, surrogate.dim, path="regressor.backbone"
        )
        self.network = self.backbone.eval()

    def fit(self, train: tuple[Tensors, Any], validation: tuple[Tensors, Any], context: Context) -> None:
        """Embed the outputs once, then train on the pairs; the best validation error is kept."""
        inputs, training = train[0], self.config.training
        targets = context.processes.spread(self.surrogate.embed, train[1])
        validation_targets = context.processes.spread(self.surrogate.embed, validation[1])

        def loss(rows: Tensor, generator: Generator) -> Tensor:
            views = self.inputs.augment(inputs[rows], generator)
            target = targets[rows.to(targets.device)]
            return (self._query(views.to(context.device)) - target).square().sum(dim=1)

        def evaluate() -> dict[str, float]:
            predicted = context.processes.spread(self.predict, validation[0])
            errors = (predicted - validation_targets).square().sum(dim=1)
            return {"validation_error": errors.mean().item()}

        optimise(
            self.backbone,
            training,
            count=len(inputs),
            source=ShuffledBatches(len(inputs), training.batch_size, context, "regression", self.inputs.sizes(inputs)),
            loss=loss,
            evaluate=evaluate,
            context=context,
            stage="regression",
        )

    def predict(self, inputs: Tensors) -> Tensor:
        """Packed inputs → (B, dim), on the sphere if embeddings are; like lengths go together, the order is kept."""
        device = next(self.backbone.parameters()).device
        if len(inputs) == 0:
            return torch.zeros(0, self.surrogate.dim, device=device)
        sizes = self.inputs.sizes(inputs)
        order = torch.arange(len(inputs)) if sizes is None else sizes.argsort(stable=True)
        with torch.no_grad():
            sorted_queries = [self._query(inputs[rows].to(device)) for rows in order.split(CHUNK)]
        return torch.cat(sorted_queries)[order.argsort().to(device)]

    def _query(self, batch: Tensors) -> Tensor:
        query: Tensor = self.backbone(batch)
        return functional.normalize(query, dim=1) if self.surrogate.spherical else query / self.surrogate.dim**0.5
