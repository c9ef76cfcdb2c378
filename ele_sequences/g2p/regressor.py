"""A regression that minimises the energy of the truth, whatever the surrogate's energy is."""

from __future__ import annotations

from typing import Annotated, Any

import torch
from torch import Generator, Tensor

from ele_core import (
    Choice,
    ComponentConfig,
    Context,
    InputSpace,
    NetworkLearner,
    PlannedStage,
    Regressor,
    ShuffledBatches,
    Stage,
    Surrogate,
    Takes,
    Tensors,
    Training,
    create_part,
    optimise,
)

REGRESSION = Stage("regression", decides="validation_error")
CHUNK = 512
"""Inputs predicted at once."""


class EnergyRegressor(NetworkLearner, Regressor):
    """h(x) = backbone(x), minimising the energy of y for the query h(x) over the training pairs.

    For a surrogate whose energy is not a squared distance, such as a cross-entropy. `Surrogate.energy` must be
    differentiable in the query.
    """

    stages = (REGRESSION,)

    class Config(ComponentConfig):
        """Options of the regression."""

        backbone: Annotated[Choice, Takes("backbone")] = Choice(name="runs")
        """The network on inputs."""
        training: Training = Training(batch_size=512, epochs=20)
        """How the backbone is trained."""

    config: Config

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], surrogate: Surrogate) -> None:
        super().__init__(config, inputs, surrogate)
        choice, dim = self.config.backbone, surrogate.dim
        self.network = create_part(self, "backbone", choice, inputs, dim, path="regressor.backbone").eval()

    def planned(self, examples: int, extra: int) -> list[PlannedStage]:
        """The steps of the regression."""
        return [self.config.training.planned(REGRESSION, examples)]

    def fit(self, train: tuple[Tensors, Any], validation: tuple[Tensors, Any], context: Context) -> None:
        """Train on the pairs; keep the weights of the best validation error."""
        inputs, outputs = train

        def loss(rows: Tensor, generator: Generator) -> Tensor:
            views = self.inputs.augment(inputs[rows], generator)
            return self.surrogate.energy(self.network(views.to(context.device)), outputs[rows].to(context.device))

        def evaluate() -> dict[str, float]:
            parts = torch.arange(len(validation[0])).split(CHUNK)
            errors = [self.surrogate.energy(self.predict(validation[0][p]), validation[1][p]) for p in parts]
            return {REGRESSION.decides: torch.cat(errors).mean().item()}

        training = self.config.training
        sizes = self.inputs.sizes(inputs)
        source = ShuffledBatches(len(inputs), training.batch_size, context, REGRESSION.name, sizes)
        optimise(
            self.network,
            training,
            count=len(inputs),
            source=source,
            loss=loss,
            evaluate=evaluate,
            context=context,
            stage=REGRESSION,
        )

    def predict(self, inputs: Tensors) -> Tensor:
        """Packed inputs → (B, dim)."""
        device = next(self.network.parameters()).device
        if len(inputs) == 0:
            return torch.zeros(0, self.surrogate.dim, device=device)
        with torch.no_grad():
            return torch.cat([self.network(inputs[rows].to(device)) for rows in torch.arange(len(inputs)).split(CHUNK)])
