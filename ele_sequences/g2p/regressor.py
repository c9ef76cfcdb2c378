"""Regressors that minimise the energy of the truth, whatever the surrogate's energy is: a network, and a sum."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from ele_core import Backbone, ComponentConfig, Context, InputSpace, Surrogate
from ele_core.components.regressors.neural import NeuralRegressor
from ele_core.components.regressors.stacked import StackedRegressor
from ele_core.components.training.optimise import Training
from ele_core.types import Choice, Takes

STEPS = 20
"""Steps that look for the weights of least energy: there are two or three weights."""


class EnergyRegressor(NeuralRegressor):
    """h(x) = backbone(x), minimising the energy of y for the query h(x) over the training pairs.

    For a surrogate whose energy is not a squared distance, such as a cross-entropy. Its `Energy.of` must be
    differentiable in the query.
    """

    class Config(NeuralRegressor.Config):
        """Options of the regression."""

        backbone: Annotated[Choice, Takes("backbone")] = Choice(name="runs")
        """The network on inputs."""
        training: Training = Training(batch_size=512, epochs=20)
        """How the backbone is trained."""

    config: Config

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], surrogate: Surrogate) -> None:
        super().__init__(config, inputs, surrogate)
        self.weighs = False  # its targets are no embeddings

    def around(self, backbone: Backbone) -> nn.Module:
        """The backbone itself."""
        return backbone

    def targets(self, outputs: Any, context: Context) -> Any:
        """The packed outputs themselves."""
        return outputs

    def error(self, queries: Tensor, targets: Any) -> Tensor:
        """The energy of each output for its query (B,)."""
        return self.surrogate.energy(queries).of(targets.to(queries.device))


class StackedByEnergy(StackedRegressor):
    """h(x) = Σ_r w_r h_r(x) with w > 0, where w minimises the energy of the truths of the validation pairs.

    For a surrogate whose energy is not a squared distance. Its `Energy.of` must be differentiable in the query.
    """

    def objective(
        self, outputs: Any, context: Context
    ) -> tuple[Callable[[Tensor], Tensor], Callable[[Sequence[Tensor]], Tensor]]:
        """The mean energy of `outputs` for queries, and the weights of several queries that make it least."""

        def energy(queries: Tensor) -> Tensor:
            return self.surrogate.energy(queries).of(outputs.to(queries.device)).mean()

        return energy, lambda predicted: descended_weights(predicted, energy)


def descended_weights(predicted: Sequence[Tensor], error: Callable[[Tensor], Tensor]) -> Tensor:
    """The weights w > 0 of least `error` of Σ_r w_r predicted_r, by quasi-Newton steps on their logarithms."""
    logarithms = torch.full((len(predicted),), -math.log(len(predicted)), requires_grad=True)
    optimiser = torch.optim.LBFGS([logarithms], max_iter=STEPS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad()
        weights = logarithms.exp().to(predicted[0].device)
        value = error(
            sum((weight * own for weight, own in zip(weights, predicted, strict=True)), start=torch.zeros(()))
        )
        value.backward()
        return value

    optimiser.step(closure)
    return logarithms.detach().exp()
