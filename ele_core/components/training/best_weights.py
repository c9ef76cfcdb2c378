"""The weights that count: what is evaluated and kept while a network is trained."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn


class Kept:
    """The weights that count: evaluated, compared and kept, either the module's own or their moving average."""

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.module = module
        self.decay = decay
        self.average = snapshot(module) if decay else None
        self.best: dict[str, Tensor] | None = None
        self.best_value = math.inf
        self.stale = 0

    @torch.no_grad()
    def follow(self, step: int) -> None:
        """Move the average towards the module; the first steps weigh more, so that the start is forgotten."""
        if self.average is None:
            return
        decay = min(self.decay, (1 + step) / (10 + step))
        for name, value in self.module.state_dict().items():
            if value.is_floating_point():
                self.average[name].lerp_(value, 1 - decay)
            else:
                self.average[name].copy_(value)

    def evaluate(self, evaluate: Callable[[], Mapping[str, float]]) -> Mapping[str, float]:
        """`evaluate()` on the weights that count, in evaluation mode."""
        own = self._swap_in(self.average)
        self.module.eval()
        with torch.no_grad():
            metrics = evaluate()
        self._swap_in(own)
        self.module.train()
        return metrics

    def offer(self, value: float) -> bool:
        """Keep the weights if `value` is the smallest so far."""
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
        """Stand where it stood."""
        if self.average is not None:
            own = snapshot(self.module)  # where no average was kept before, it begins here
            self.average = {name: average[name].to(value.device) if average else value for name, value in own.items()}
        self.best = best or None  # loading a state dict moves it to where the weights are
        self.best_value, self.stale = math.inf if best_value is None else best_value, stale

    def _swap_in(self, weights: dict[str, Tensor] | None) -> dict[str, Tensor] | None:
        """Load `weights`, if any, and return those that were there."""
        if weights is None:
            return None
        own = snapshot(self.module)
        self.module.load_state_dict(weights)
        return own


def snapshot(module: nn.Module) -> dict[str, Tensor]:
    """A copy of a module's weights."""
    return {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
