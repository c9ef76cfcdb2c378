"""A regression that minimises the energy of the truth, whatever the surrogate's energy is."""

from __future__ import annotations

from typing import Annotated, Any

from torch import Tensor, nn

from ele_core import Backbone, Context
from ele_core.components.regressors.neural import NeuralRegressor
from ele_core.components.training.optimise import Training
from ele_core.types import Choice, Takes


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

    def around(self, backbone: Backbone) -> nn.Module:
        """The backbone itself."""
        return backbone

    def targets(self, outputs: Any, context: Context) -> Any:
        """The packed outputs themselves."""
        return outputs

    def error(self, queries: Tensor, targets: Any) -> Tensor:
        """The energy of each output for its query (B,)."""
        return self.surrogate.energy(queries).of(targets.to(queries.device))
