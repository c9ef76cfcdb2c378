"""The training loop of all neural stages: batches, schedule, evaluation, early stopping, resuming."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from ele_core.component import ComponentConfig
from ele_core.components.training.best_weights import BestWeights, snapshot
from ele_core.components.training.muon import Muon
from ele_core.components.training.stopwatch import Plan, Stopwatch
from ele_core.data.batches import Batches, steps_per_epoch
from ele_core.display.text import in_words
from ele_core.errors import TrainingError, counted
from ele_core.runtime.budget import TooLittleTime
from ele_core.runtime.context import Context
from ele_core.runtime.device import Precision, autocast, computes_bfloat16, device_of, seeded
from ele_core.runtime.distributed import Processes
from ele_core.runtime.work import Snapshot, prefixed
from ele_core.types import PlannedStage, Stage

DIVERGED = 100.0
"""How many times the first loss a training may end with."""
PROVISIONAL = 1000
"""Steps that the learning rate is computed for while it is not known how many fit into `minutes`."""
USEFUL = 0.02
"""The least share of its steps that a network is tried with; validation pairs then decide whether it is used."""


class Training(ComponentConfig):
    """How a network is trained."""

    epochs: float = Field(10, gt=0)
    """Passes over the training set, at most; fractions count."""
    minutes: float | None = Field(None, gt=0)
    """Train for about so many minutes instead of `epochs`: after the first steps, which are timed, the number of steps
    is fixed. None: train for `epochs`."""
    batch_size: int = Field(128, ge=1)
    """Examples per step."""
    optimiser: Literal["adamw", "muon"] = "adamw"
    """How weights follow gradients. `muon` moves the matrices of hidden layers in all directions equally fast: often
    fewer steps for the same error, each a little slower."""
    learning_rate: float = Field(1e-3, gt=0)
    """Peak learning rate."""
    weight_decay: float = Field(0.0, ge=0)
    """Decoupled weight decay."""
    schedule: Literal["cosine", "constant"] = "cosine"
    """The learning rate after warm-up: down to zero along a cosine, or constant."""
    warmup: float = Field(0.05, ge=0, lt=1)
    """Share of all steps in which the learning rate rises linearly from zero."""
    clip: float | None = Field(1.0, gt=0)
    """Gradients of a larger norm are scaled down to this one; None: no clipping."""
    precision: Precision = "float32"
    """The numbers that products of matrices and convolutions are computed with in training; weights, losses and
    evaluations are float32. `bfloat16` is about twice as fast for convolutions on processors that have it; others
    compute in float32."""
    average: float = Field(0.0, ge=0, lt=1)
    """Decay of the exponential moving average of the weights that is evaluated and kept; 0: the weights themselves."""
    evaluations: int = Field(20, ge=1)
    """How often the validation set is evaluated, evenly spread over all steps."""
    patience: int | None = Field(None, ge=1)
    """Evaluations without improvement after which to stop; None: train to the end. The best weights are kept anyway."""
    keep_start: bool = False
    """Whether the weights that training starts from are kept if no later ones are better: for weights that were learned
    before."""

    def steps(self, examples: int) -> int:
        """The number of steps on so many examples, unless the training stops early."""
        return max(1, round(self.epochs * steps_per_epoch(examples, self.batch_size)))

    def planned(self, stage: Stage, examples: int) -> PlannedStage:
        """The stage as it is announced before the training; its steps are not known if `minutes` is given."""
        return PlannedStage(stage.name, self.steps(examples) if self.minutes is None else None)


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
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Minimise the mean of `loss(rows, generator)`, one value per row, over the batches of `source`.

    `count` rows are an epoch; `steps` replaces `epochs` and `minutes`, which `clock` measures. With a budget for the
    whole training, fewer steps are made if not all fit into a share of what is left of it. `evaluate()` returns the
    validation metrics of the weights that would be kept; at the end, `module` has the weights with the least
    `stage.decides`. Random numbers depend on the seed, the stage and the step alone, so a resumed training gives
    the same result as one that was not stopped. Several processes share the rows of each batch.
    """
    timed = steps is None and (training.minutes is not None or context.budget is not None)
    wanted = steps or (training.steps(count) if training.minutes is None else None)
    state = TrainingState(module, training, source, wanted, timed=timed)
    saved = context.work.saved(stage.name)
    if saved is not None:
        state.restore(saved)
    if saved is None or not saved.finished:
        objective = context.processes.parallel(Objective(module, loss))
        if training.precision == "bfloat16" and not computes_bfloat16(context.device):
            context.monitor.message(f"{stage.name}: computed in float32, because this processor has no bfloat16")
        module.train()
        if training.keep_start and state.step == 0:
            evaluate_start(state, evaluate, context, stage)
        if state.plan is None:
            measure_steps(state, objective, evaluate, context, stage, clock)
        run_steps(state, objective, evaluate, context, stage)
        context.work.finish(stage.name, lambda: Snapshot(prefixed("weights", snapshot(module))))
        context.monitor.stage_end(stage.name)
    module.eval()


def evaluate_start(
    state: TrainingState, evaluate: Callable[[], Mapping[str, float]], context: Context, stage: Stage
) -> None:
    """Evaluate the weights that training starts from, and keep them until others are better."""
    with seeded(context.own_seed(stage.name, "evaluation", 0), context.device):
        value = deciding(stage, context.processes.agreed(state.kept.evaluate(evaluate)))
    state.kept.record(value)
    context.monitor.message(f"{stage.name}: {stage.decides} {value:.4g} with the weights to start from")


def measure_steps(
    state: TrainingState,
    objective: nn.Module,
    evaluate: Callable[[], Mapping[str, float]],
    context: Context,
    stage: Stage,
    clock: Callable[[], float],
) -> None:
    """Make the first steps and an evaluation, and plan how many fit into the time; all processes agree on the plan.

    With a budget, the steps that are wanted are all made if they fit, and evaluated as without one.
    """
    training, processes, name, wanted = state.training, context.processes, stage.name, state.wanted
    watch = Stopwatch(seconds_for(training, context, stage), clock)
    while not processes.agreed({"enough": float(watch.enough)})["enough"] or watch.steps == 0:
        if wanted is not None and watch.steps and state.step + 1 >= state.every:
            break
        make_step(state, objective, context, name)
        context.work.step(name, state.snapshot)
        watch.advance()
    pace, before = watch.pace(), clock()
    with seeded(context.own_seed(name, "evaluation", state.step), context.device):
        state.kept.evaluate(evaluate)
    own = watch.plan(pace, clock() - before, training.evaluations)
    agreed = processes.agreed({"steps": float(own.steps), "evaluations": float(own.evaluations)})
    made = state.step - watch.steps  # before it was resumed
    fitting = made + int(agreed["steps"])
    total = fitting if wanted is None else min(fitting, wanted)
    state.plan = Plan(total, int(agreed["evaluations"]))
    told = f"{total:,}{'' if wanted is None else f' of {wanted:,}'} steps in {in_words(watch.seconds)}"
    if wanted is not None and total < USEFUL * wanted and context.budget is not None and context.budget.dispensable:
        raise TooLittleTime(f"time for only {told}")
    if total != wanted:
        context.monitor.message(f"{name}: about {told}")


def seconds_for(training: Training, context: Context, stage: Stage) -> float:
    """The time of a network: its own, else its share of the budget."""
    if training.minutes is not None:
        return 60 * training.minutes
    assert context.budget is not None
    return context.budget.share(stage.name)


def run_steps(
    state: TrainingState,
    objective: nn.Module,
    evaluate: Callable[[], Mapping[str, float]],
    context: Context,
    stage: Stage,
) -> None:
    """Make steps and evaluations until the end, then load the best weights into the module."""
    kept, name = state.kept, stage.name
    remaining = state.total - state.step
    for step in context.monitor.progress(state.remaining(), description=name, total=remaining):
        make_step(state, objective, context, name)
        if step % state.every == 0 or step == state.total:
            with seeded(context.own_seed(name, "evaluation", step), context.device):
                validation = context.processes.agreed(kept.evaluate(evaluate))
            metrics = {"loss": state.mean_loss(), **validation}
            improved = kept.record(deciding(stage, metrics))
            context.monitor.evaluation(name, step, metrics, best=improved)
            if state.stale:
                unimproved = counted(kept.stale, "evaluation")
                context.monitor.message(f"{name}: no improvement in {unimproved}, stopping at step {step}")
            if state.stale or step == state.total:
                refuse_divergence(name, state.first, metrics["loss"])
        context.work.step(name, state.snapshot)
    kept.restore()


def refuse_divergence(name: str, first: float, last: float) -> None:
    """Raise if a training ends with a loss far above that of its first step.

    A first loss below 1 counts as 1: a training may begin with weights that fit.
    """
    if last > DIVERGED * max(1.0, first):
        what = f"the training diverged: the loss rose from {first:.3g} to {last:.3g}."
        raise TrainingError(what, where=name, fix="Train again with a smaller learning_rate, or a smaller clip.")


def make_step(state: TrainingState, objective: nn.Module, context: Context, name: str) -> None:
    """Draw a batch and step down the gradient of its loss; if it is not finite, keep a checkpoint and raise."""
    step, processes = state.step + 1, context.processes
    before = state.source.state()
    rows = state.source.draw()
    own = processes.share(rows)
    scale = processes.count / len(rows) if len(own) else 0.0
    with seeded(context.own_seed(name, "dropout", step), context.device):
        generator = torch.Generator().manual_seed(context.own_seed(name, "step", step))
        with autocast(context.device, state.training.precision):
            losses = objective(own if len(own) else rows[:1], generator)
        value = losses.float().sum() * scale
    problem = state.move(value, processes)
    if problem is not None:
        state.source.restore(before)
        context.work.keep(name, state.snapshot())
        processes.wait()  # until the main process has written the checkpoint
        fix = "Try a smaller learning_rate, or a smaller clip."
        raise TrainingError(f"{problem} at step {step}.", where=name, fix=fix)
    context.monitor.step(name, step, state.losses[-1])


def deciding(stage: Stage, metrics: Mapping[str, float]) -> float:
    """The value of the metric that decides which weights of a stage are kept."""
    if stage.decides not in metrics:
        what = f"the evaluation has no metric '{stage.decides}', which should decide; it has {', '.join(metrics)}."
        raise TrainingError(what, where=stage.name, fix="Set `decides` of the stage to one of these, or measure it.")
    return metrics[stage.decides]


class Objective(nn.Module):
    """A loss as a module around the trained one, so that several processes can run it in parallel."""

    def __init__(self, module: nn.Module, loss: Callable[[Tensor, torch.Generator], Tensor]) -> None:
        super().__init__()
        self.module = module
        self.loss = loss

    def forward(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """The loss of each row."""
        return self.loss(rows, generator)


class TrainingState:
    """The state of a training: weights, optimiser, batches, kept weights, losses not reported yet.

    If it is `timed`, the `plan` follows once the first steps are: all that are `wanted`, or as many as fit.
    """

    def __init__(
        self, module: nn.Module, training: Training, source: Batches, wanted: int | None, *, timed: bool
    ) -> None:
        self.module = module
        self.training = training
        self.source = source
        self.timed, self.wanted = timed, wanted
        self.plan = None if timed or wanted is None else Plan(wanted, training.evaluations)
        self.step = 0
        self.optimiser = optimiser_of(module, training)
        self.kept = BestWeights(module, training.average)
        self.losses: list[Tensor] = []
        self.first = 0.0
        """The loss of the first step, before the weights moved."""

    @property
    def total(self) -> int:
        """The number of steps of the whole training."""
        return self.plan.steps if self.plan is not None else self.wanted or PROVISIONAL

    @property
    def every(self) -> int:
        """The number of steps between two evaluations."""
        return math.ceil(self.total / (self.training.evaluations if self.plan is None else self.plan.evaluations))

    @property
    def stale(self) -> bool:
        """Whether there were as many evaluations without improvement as `patience` allows."""
        return self.training.patience is not None and self.kept.stale >= self.training.patience

    def remaining(self) -> Iterator[int]:
        """The numbers of the remaining steps, until training is `stale`."""
        while self.step < self.total and not self.stale:
            yield self.step + 1

    def move(self, value: Tensor, processes: Processes) -> str | None:
        """Step down the gradient of `value`; if either is not finite, return the problem and keep the weights."""
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
        self.kept.update_average(self.step)
        self.losses.append(joint)
        if self.step == 1:
            self.first = joint.item()
        return None

    def mean_loss(self) -> float:
        """The mean loss since the last call."""
        average = torch.stack(self.losses).mean().item()
        self.losses.clear()
        return average

    def snapshot(self) -> Snapshot:
        """Weights, moments, batch position, average, best weights, unreported losses."""
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
        values: dict[str, Any] = {
            "step": self.step,
            "stale": self.kept.stale,
            "best": best if math.isfinite(best) else None,
            "first": self.first,
        }
        if self.timed and self.plan is not None:
            values["plan"] = [self.plan.steps, self.plan.evaluations]
        return Snapshot(tensors, values)

    def restore(self, saved: Snapshot) -> None:
        """The inverse of `snapshot`; only the weights if the training had finished."""
        self.module.load_state_dict(saved.part("weights"))
        if saved.finished:
            return
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in saved.part("optimiser").items():
            index, _, key = name.partition(".")
            state.setdefault(int(index), {})[key] = value
        self.optimiser.load_state_dict({"state": state, "param_groups": self.optimiser.state_dict()["param_groups"]})
        self.source.restore(saved.part("source"))
        self.losses = list(saved.tensors["losses"].to(device_of(self.module)))
        self.step, self.first = saved.values["step"], saved.values["first"]
        if self.timed and "plan" in saved.values:
            self.plan = Plan(*saved.values["plan"])
        self.kept.resume(saved.part("average"), saved.part("best"), saved.values["best"], saved.values["stale"])


def optimiser_of(module: nn.Module, training: Training) -> torch.optim.AdamW:
    """The optimiser of the weights of `module`, at its peak learning rate."""
    rate, decay = training.learning_rate, training.weight_decay
    if training.optimiser == "muon":
        return Muon(module, lr=rate, weight_decay=decay)
    return torch.optim.AdamW(module.parameters(), lr=rate, weight_decay=decay)


def rate(step: int, total: int, training: Training) -> float:
    """The learning rate of a step, as a share of the peak."""
    warmup = training.warmup * total
    if step < warmup:
        return (step + 1) / (warmup + 1)
    if training.schedule == "constant":
        return 1.0
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1.0, total - warmup)))
