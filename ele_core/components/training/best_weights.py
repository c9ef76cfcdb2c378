"""The weights of a network that are evaluated and kept during training."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn


class BestWeights:
    """The weights that are evaluated and kept: those of the module, or their moving average if `decay` is not 0."""

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.module = module
        self.decay = decay
        self.average = snapshot(module) if decay else None
        self.best: dict[str, Tensor] | None = None
        self.best_value = math.inf
        self.stale = 0

    @torch.no_grad()
    def update_average(self, step: int) -> None:
        """Move the average towards the module's weights; faster in the first steps, to forget the initial weights."""
        if self.average is None:
            return
        decay = min(self.decay, (1 + step) / (10 + step))
        for name, value in self.module.state_dict().items():
            if value.is_floating_point():
                self.average[name].lerp_(value, 1 - decay)
            else:
                self.average[name].copy_(value)

    def evaluate(self, evaluate: Callable[[], Mapping[str, float]]) -> Mapping[str, float]:
        """Call `evaluate()` in evaluation mode, with the average in the module if there is one."""
        own = self._swap_in(self.average)
        self.module.eval()
        with torch.no_grad():
            metrics = evaluate()
        self._swap_in(own)
        self.module.train()
        return metrics

    def record(self, value: float) -> bool:
        """Keep the weights if `value` is the smallest so far; return whether it is."""
        if value < self.best_value:
            self.best_value, self.stale = value, 0
            self.best = {name: t.clone() for name, t in self.average.items()} if self.average else snapshot(self.module)
            return True
        self.stale += 1
        return False

    def restore(self) -> None:
        """Put the best weights into the module."""
        self._swap_in(self.best)

    def resume(self, average: dict[str, Tensor], best: dict[str, Tensor], best_value: float | None, stale: int) -> None:
        """Restore average, best weights and patience from a checkpoint."""
        if self.average is not None:
            own = snapshot(self.module)  # if the checkpoint has no average, it begins here
            self.average = {name: average[name].to(value.device) if average else value for name, value in own.items()}
        self.best = best or None  # load_state_dict moves them to the module's device
        self.best_value, self.stale = math.inf if best_value is None else best_value, stale

    def _swap_in(self, weights: dict[str, Tensor] | None) -> dict[str, Tensor] | None:
        """Load `weights` and return those that the module had; do nothing if None."""
        if weights is None:
            return None
        own = snapshot(self.module)
        self.module.load_state_dict(weights)
        return own


def snapshot(module: nn.Module) -> dict[str, Tensor]:
    """A copy of a module's weights."""
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
