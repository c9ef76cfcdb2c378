"""The training loop both neural stages share: batches, schedule, evaluation, early stopping on the best weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from ele_core.context import Context
from ele_core.data import steps_per_epoch
from ele_core.errors import TrainingError
from ele_core.interfaces import ComponentConfig


class Training(ComponentConfig):
    """How a network is trained."""

    epochs: float = Field(10, gt=0)
    """Passes over the training set, at most; fractions count."""
    batch_size: int = Field(128, ge=1)
    """Examples a step."""
    learning_rate: float = Field(1e-3, gt=0)
    """Peak learning rate of AdamW."""
    weight_decay: float = Field(0.0, ge=0)
    """Decoupled weight decay of AdamW."""
    schedule: Literal["cosine", "constant"] = "cosine"
    """The learning rate after warm-up: down to zero along a cosine, or kept."""
    warmup: float = Field(0.05, ge=0, lt=1)
    """Share of all steps in which the learning rate rises linearly from zero."""
    clip: float | None = Field(1.0, gt=0)
    """Largest norm of a gradient; none: not clipped."""
    average: float = Field(0.0, ge=0, lt=1)
    """Decay of the exponential moving average of the weights that is evaluated and kept; 0: the weights themselves."""
    evaluations: int = Field(20, ge=1)
    """How often the validation set is looked at, evenly over all steps."""
    patience: int | None = Field(None, ge=1)
    """Stop after so many evaluations without improvement; none: train to the end. The best weights are kept anyway."""


def optimise(
    module: nn.Module,
    training: Training,
    *,
    count: int,
    source: Iterator[Tensor],
    loss: Callable[[Tensor, torch.Generator], Tensor],
    evaluate: Callable[[], Mapping[str, float]],
    context: Context,
    stage: str,
    steps: int | None = None,
) -> None:
    """Minimise `loss(rows, generator)` over the batches of rows from `source`; leaves the best weights in `module`.

    `count` rows are an epoch; `steps` replaces `epochs`. `evaluate()` gives the validation metrics, the first of which
    decides; it is called on the weights that would be kept. The generator given to `loss` depends on the seed, the
    stage and the step alone.
    """
    total = steps or max(1, round(training.epochs * steps_per_epoch(count, training.batch_size)))
    every = math.ceil(total / training.evaluations)
    optimiser = torch.optim.AdamW(module.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: rate(step, total, training))
    kept = Kept(module, training.average)
    running: list[Tensor] = []
    module.train()
    for step, rows in context.monitor.progress(numbered(source, total), description=stage, total=total):
        optimiser.zero_grad(set_to_none=True)
        with seeded(context, stage, step):
            value = loss(rows, context.generator(stage, "step", step))
        value.backward()
        if training.clip is not None:
            nn.utils.clip_grad_norm_(module.parameters(), training.clip)
        optimiser.step()
        schedule.step()
        kept.follow(step)
        running.append(value.detach())
        if step % every == 0 or step == total:
            metrics = {"loss": mean(running, stage, step), **kept.evaluate(evaluate)}
            improved = kept.offer(list(metrics.values())[1])
            context.monitor.evaluation(stage, step, metrics, best=improved)
            running.clear()
            if training.patience is not None and kept.stale >= training.patience:
                context.monitor.message(f"{stage}: no improvement in {kept.stale} evaluations, stopping at step {step}")
                break
    optimiser.zero_grad(set_to_none=True)
    kept.restore()
    module.eval()


def rate(step: int, total: int, training: Training) -> float:
    """The learning rate of a step as a share of its peak."""
    warmup = training.warmup * total
    if step < warmup:
        return (step + 1) / (warmup + 1)
    if training.schedule == "constant":
        return 1.0
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1.0, total - warmup)))


@contextmanager
def seeded(context: Context, stage: str, step: int) -> Iterator[None]:
    """Dropout draws from torch's global generators: inside, they too depend on the seed, the stage and the step."""
    with torch.random.fork_rng(devices=[context.device] if context.device.type == "cuda" else []):
        torch.manual_seed(context.derived_seed(stage, "dropout", step))
        yield


def numbered(source: Iterator[Tensor], total: int) -> Iterator[tuple[int, Tensor]]:
    """Steps 1 … total, each with its rows."""
    return zip(range(1, total + 1), source, strict=False)


def mean(values: list[Tensor], stage: str, step: int) -> float:
    """The mean of the last losses; stops a training that has left the numbers."""
    average = torch.stack(values).mean().item()
    if not math.isfinite(average):
        what = f"the {stage} loss is {average} at step {step}."
        raise TrainingError(what, where=stage, fix="Try a smaller learning_rate, or clip gradients harder (clip).")
    return average


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
