"""The training loop both neural stages share: batches, schedule, evaluation, early stopping, going on after a stop."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from ele_core.components.training.best_weights import Kept, snapshot
from ele_core.data.batches import Batches, steps_per_epoch
from ele_core.errors import TrainingError
from ele_core.interfaces import ComponentConfig, Stage
from ele_core.runtime.context import Context
from ele_core.runtime.distributed import Processes
from ele_core.runtime.work import Snapshot, prefixed


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
    source: Batches,
    loss: Callable[[Tensor, torch.Generator], Tensor],
    evaluate: Callable[[], Mapping[str, float]],
    context: Context,
    stage: Stage,
    steps: int | None = None,
) -> None:
    """Minimise the mean of `loss(rows, generator)`, one value a row, over the batches of `source`.

    `count` rows are an epoch; `steps` replaces `epochs`. `evaluate()` gives the validation metrics of the weights that
    would be kept; the weights with the least `stage.decides` are left in `module`. What is random depends on the seed,
    the stage and the step alone, so that a stopped training goes on as if it had not stopped. Several processes share
    the rows of each batch.
    """
    total = steps or max(1, round(training.epochs * steps_per_epoch(count, training.batch_size)))
    state = TrainingState(module, training, source, total)
    saved = context.work.saved(stage.name)
    if saved is not None:
        state.restore(saved)
    if saved is None or not saved.finished:
        run_steps(state, context.processes.parallel(Objective(module, loss)), evaluate, context, stage)
        context.work.finish(stage.name, lambda: Snapshot(prefixed("weights", snapshot(module))))
        context.monitor.stage_end(stage.name)
    module.eval()


def run_steps(
    state: TrainingState,
    objective: nn.Module,
    evaluate: Callable[[], Mapping[str, float]],
    context: Context,
    stage: Stage,
) -> None:
    """Steps and evaluations until the end; then the best weights are in the module."""
    training, kept, processes, name = state.training, state.kept, context.processes, stage.name
    every = math.ceil(state.total / training.evaluations)
    state.module.train()
    remaining = state.total - state.step
    for step in context.monitor.progress(state.remaining(), description=name, total=remaining):
        before = state.source.state()
        rows = state.source.draw()
        own = processes.share(rows)
        scale = processes.count / len(rows) if len(own) else 0.0
        with seeded(context, name, "dropout", step):
            generator = torch.Generator().manual_seed(context.own_seed(name, "step", step))
            value = objective(own if len(own) else rows[:1], generator).sum() * scale
        problem = state.move(value, processes)
        if problem is not None:
            state.source.restore(before)
            context.work.keep(name, state.snapshot())
            processes.wait()  # until the main process has written
            fix = "Try a smaller learning_rate, or clip gradients harder (clip)."
            raise TrainingError(f"{problem} at step {step}.", where=name, fix=fix)
        context.monitor.step(name, step, state.losses[-1])
        if step % every == 0 or step == state.total:
            with seeded(context, name, "evaluation", step):
                validation = processes.agreed(kept.evaluate(evaluate))
            metrics = {"loss": state.mean_loss(), **validation}
            improved = kept.offer(deciding(stage, metrics))
            context.monitor.evaluation(name, step, metrics, best=improved)
            if state.stale:
                context.monitor.message(f"{name}: no improvement in {kept.stale} evaluations, stopping at step {step}")
        context.work.step(name, state.snapshot)
    kept.restore()


def deciding(stage: Stage, metrics: Mapping[str, float]) -> float:
    """The value of the metric that decides in a stage."""
    if stage.decides not in metrics:
        what = f"the evaluation has no metric '{stage.decides}', which decides: it has {', '.join(metrics)}."
        raise TrainingError(what, where=stage.name, fix="Declare the stage with one of these, or measure it.")
    return metrics[stage.decides]


class Objective(nn.Module):
    """A loss as a module that holds the one being trained: what several processes can run in parallel."""

    def __init__(self, module: nn.Module, loss: Callable[[Tensor, torch.Generator], Tensor]) -> None:
        super().__init__()
        self.module = module
        self.loss = loss

    def forward(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """The loss of each row."""
        return self.loss(rows, generator)


class TrainingState:
    """Where a training stands: weights, optimiser, batches, the weights that count, losses not yet reported."""

    def __init__(self, module: nn.Module, training: Training, source: Batches, total: int) -> None:
        self.module = module
        self.training = training
        self.source = source
        self.total = total
        self.step = 0
        self.optimiser = torch.optim.AdamW(
            module.parameters(), lr=training.learning_rate, weight_decay=training.weight_decay
        )
        self.kept = Kept(module, training.average)
        self.losses: list[Tensor] = []

    @property
    def stale(self) -> bool:
        """Whether patience is at its end."""
        return self.training.patience is not None and self.kept.stale >= self.training.patience

    def remaining(self) -> Iterator[int]:
        """The steps that are left, as long as there is patience."""
        while self.step < self.total and not self.stale:
            yield self.step + 1

    def move(self, value: Tensor, processes: Processes) -> str | None:
        """One step down the gradient of `value`; what is wrong where there is none, the weights left as they are."""
        joint = processes.mean(value.detach())
        self.optimiser.zero_grad(set_to_none=True)
        value.backward()
        norm = nn.utils.clip_grad_norm_(self.module.parameters(), self.training.clip or math.inf)
        if not (norm.isfinite() and joint.isfinite()):
            self.optimiser.zero_grad(set_to_none=True)
            finite = bool(joint.isfinite())
            return f"the gradient of the loss is {norm.item()}" if finite else f"the loss is {joint.item()}"
        for group in self.optimiser.param_groups:
            group["lr"] = self.training.learning_rate * rate(self.step, self.total, self.training)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        processes.synchronise(self.module)
        self.step += 1
        self.kept.follow(self.step)
        self.losses.append(joint)
        return None

    def mean_loss(self) -> float:
        """The mean loss since it was asked for last."""
        average = torch.stack(self.losses).mean().item()
        self.losses.clear()
        return average

    def snapshot(self) -> Snapshot:
        """All of it."""
        moments = {
            f"{index}.{name}": value
            for index, state in self.optimiser.state_dict()["state"].items()
            for name, value in state.items()
        }
        tensors = {
            **prefixed("weights", self.module.state_dict()),
            **prefixed("optimiser", moments),
            **prefixed("source", self.source.state()),
            **prefixed("average", self.kept.average or {}),
            **prefixed("best", self.kept.best or {}),
            "losses": torch.stack(self.losses) if self.losses else torch.zeros(0),
        }
        best = self.kept.best_value
        return Snapshot(
            tensors, {"step": self.step, "stale": self.kept.stale, "best": best if math.isfinite(best) else None}
        )

    def restore(self, saved: Snapshot) -> None:
        """The inverse of `snapshot`; of a training that had finished, its weights."""
        self.module.load_state_dict(saved.part("weights"))
        if saved.finished:
            return
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in saved.part("optimiser").items():
            index, _, key = name.partition(".")
            state.setdefault(int(index), {})[key] = value
        self.optimiser.load_state_dict({"state": state, "param_groups": self.optimiser.state_dict()["param_groups"]})
        self.source.restore(saved.part("source"))
        device = next(self.module.parameters()).device
        self.losses = list(saved.tensors["losses"].to(device))
        self.step = saved.values["step"]
        self.kept.resume(saved.part("average"), saved.part("best"), saved.values["best"], saved.values["stale"])


def rate(step: int, total: int, training: Training) -> float:
    """The learning rate of a step as a share of its peak."""
    warmup = training.warmup * total
    if step < warmup:
        return (step + 1) / (warmup + 1)
    if training.schedule == "constant":
        return 1.0
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1.0, total - warmup)))


@contextmanager
def seeded(context: Context, *name: str | int) -> Iterator[None]:
    """Dropout draws from torch's global generators: inside, they too depend on the seed and the name alone."""
    with torch.random.fork_rng(devices=[context.device] if context.device.type == "cuda" else []):
        torch.manual_seed(context.own_seed(*name))
        yield
