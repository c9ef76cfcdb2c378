"""The neural regressor, averaged over the flips and rotations of a picture."""

from __future__ import annotations

from typing import Annotated

import torch
from torch import Tensor
from torch.nn import functional

from ele_core import Tensors
from ele_core.components.inputs.image import ImageInput, Pictures
from ele_core.components.regressors.neural import NeuralRegressor
from ele_core.types import Choice, Takes


class ViewsRegressor(NeuralRegressor):
    """h(x) is the mean over all flips and rotations of x that training draws: fewer errors, up to eight times the work.

    Validation during training uses the picture alone.
    """

    class Config(NeuralRegressor.Config):
        """Options of the regression."""

        backbone: Annotated[Choice, Takes("backbone")] = Choice(name="convolution")
        """The network on inputs."""

    config: Config

    def predict(self, inputs: Tensors) -> Tensor:
        if not isinstance(self.inputs, ImageInput) or not isinstance(inputs, Pictures):
            return super().predict(inputs)
        options = self.inputs.config
        predicted = [self._predict(view) for view in views(inputs, options.flips, options.rotations)]
        mean = torch.stack(predicted).mean(dim=0)
        return functional.normalize(mean, dim=1) if self.surrogate.spherical else mean


def views(batch: Pictures, flips: bool, rotations: bool) -> list[Pictures]:
    """Every distinct flip and rotation of pictures, themselves first: at most eight."""
    if rotations:
        turned = [torch.rot90(batch.pixels, turn, (1, 2)) for turn in range(4)]
        flipped = [pixels.flip(1) for pixels in turned] if flips else []
        return [Pictures(pixels) for pixels in (*turned, *flipped)]
    sides: list[tuple[int, ...]] = [(), (1,), (2,), (1, 2)] if flips else [()]
    return [Pictures(batch.pixels.flip(side)) for side in sides]
