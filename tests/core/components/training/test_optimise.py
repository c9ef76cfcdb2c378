"""The training loop: the schedule's shape, the average of the weights, what is kept, when it stops and goes on."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import pytest
import torch
from recording import Memory, Recorder, Stopped
from torch import Generator, Tensor, nn

from ele_core.components.surrogates.mining import MinedBatches
from ele_core.components.training import optimise as loop
from ele_core.components.training.best_weights import BestWeights
from ele_core.components.training.optimise import Training, optimise, rate
from ele_core.data.batches import Batches, ShuffledBatches
from ele_core.errors import TrainingError
from ele_core.runtime import device
from ele_core.runtime.budget import Budget, TooLittleTime
from ele_core.runtime.context import Context
from ele_core.runtime.distributed import Processes
from ele_core.runtime.work import Work
from ele_core.types import Stage

Evaluate = Callable[[], Mapping[str, float]]


STAGE = Stage("test", decides="error")


class Point(nn.Module):
    """One number."""

    def __init__(self, value: float = 0.0) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.tensor([value]))


def train(module: nn.Module, loss: Any, evaluate: Evaluate, recorder: Recorder | None = None, **options: Any) -> None:
    steps, work = options.pop("steps", None), options.pop("work", Work())
    clock, processes = options.pop("clock", time.monotonic), options.pop("processes", Processes())
    budget = options.pop("budget", None)
    settings = {"epochs": 1, "batch_size": 1, "learning_rate": 0.1, "schedule": "constant", "warmup": 0, **options}
    context = Context(monitor=recorder or Recorder(), work=work, processes=processes, budget=budget)
    training = Training(**settings)
    source = ShuffledBatches(20, training.batch_size, context, "test")
    optimise(
        module,
        training,
        count=20,
        source=source,
        loss=loss,
        evaluate=evaluate,
        context=context,
        stage=STAGE,
        steps=steps,
        clock=clock,
    )


def towards(module: Point, target: float) -> Callable[[Tensor, Generator], Tensor]:
    return lambda rows, _: (module.x - target).square().expand(len(rows))


def test_the_weights_to_start_from_are_kept_if_none_are_better():
    for keep, best in ((True, 1.0), (False, 1.1)):
        module, recorder = Point(1.0), Recorder()

        def error(module: Point = module) -> dict[str, float]:
            return {"error": abs(module.x.item() - 1)}

        train(module, towards(module, 9.0), error, recorder, keep_start=keep, evaluations=20, patience=2)
        assert module.x.item() == pytest.approx(best, abs=0.01)
        assert any("test: error 0 with the weights to start from" in told for told in recorder.messages) is keep


# -- the schedule -------------------------------------------------------------------------------------------------


def test_the_rate_rises_linearly_to_its_peak_and_falls_along_a_cosine():
    training = Training(warmup=0.1, schedule="cosine")
    rates = [rate(step, 100, training) for step in range(100)]
    assert rates[:10] == pytest.approx([(step + 1) / 11 for step in range(10)])
    assert rates[10] == max(rates) == 1
    assert all(late < early for early, late in pairwise(rates[10:]))
    assert rates[55] == pytest.approx(0.5)
    assert 0 < rates[99] < 1e-3


def test_a_constant_rate_stays_at_its_peak_after_warm_up():
    training = Training(warmup=0.2, schedule="constant")
    assert [rate(step, 10, training) for step in range(10)] == pytest.approx([1 / 3, 2 / 3, *[1.0] * 8])


@pytest.mark.parametrize("warmup", [0, 0.5, 0.99])
@pytest.mark.parametrize("total", [1, 2, 7])
def test_every_rate_is_positive_and_at_most_the_peak_however_short_the_training(total, warmup):
    rates = [rate(step, total, Training(warmup=warmup)) for step in range(total)]
    assert all(0 < value <= 1 for value in rates)


def test_the_first_step_uses_the_first_rate_of_the_schedule():
    point = Point()
    train(point, towards(point, 100.0), lambda: {"error": -float(point.x)}, warmup=0.5, steps=2)
    # AdamW moves by the learning rate at first, whatever the size of the gradient.
    assert float(point.x.detach()) == pytest.approx(0.1 * (1 / 2 + 1.0), rel=1e-3)


# -- how long, how often ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ({"epochs": 2, "batch_size": 6, "evaluations": 4}, [2, 4, 6, 8]),
        ({"epochs": 0.5, "batch_size": 2, "evaluations": 100}, [1, 2, 3, 4, 5]),
        ({"epochs": 1, "batch_size": 3, "evaluations": 3}, [3, 6, 7]),
        ({"steps": 5, "evaluations": 1}, [5]),
    ],
)
def test_evaluations_are_spread_evenly_and_the_last_step_has_one(options, steps):
    recorder, point = Recorder(), Point()
    train(point, towards(point, 1.0), lambda: {"error": 1.0}, recorder, **options)
    assert recorder.steps("test") == steps


def test_the_reported_loss_is_the_mean_since_the_last_evaluation():
    recorder, point, values = Recorder(), Point(), iter(range(20))
    train(point, lambda *_: 0 * point.x + next(values), lambda: {"error": 1.0}, recorder, evaluations=4)
    assert recorder.values("test", "loss") == [2, 7, 12, 17]


def test_the_loss_of_a_batch_is_the_mean_of_its_rows_also_where_the_last_one_is_smaller():
    recorder, point = Recorder(), Point()
    loss = lambda rows, _: 0 * point.x + rows  # noqa: E731
    train(point, loss, lambda: {"error": 1.0}, recorder, batch_size=8, evaluations=3)
    source = ShuffledBatches(20, 8, Context(), "test")
    assert recorder.values("test", "loss") == pytest.approx([float(source.draw().float().mean()) for _ in range(3)])


def test_patience_stops_after_so_many_evaluations_without_improvement():
    recorder, point = Recorder(), Point()
    errors = iter([3.0, 2.0, 2.0, 2.5, 1.0])
    train(point, towards(point, 1.0), lambda: {"error": next(errors)}, recorder, evaluations=5, patience=2)
    assert recorder.values("test", "error") == [3.0, 2.0, 2.0, 2.5]
    assert recorder.best("test") == [True, True, False, False]
    assert "no improvement in 2 evaluations, stopping at step 16" in recorder.messages[0]


def test_without_patience_training_goes_to_the_end():
    recorder, point = Recorder(), Point()
    train(point, towards(point, 1.0), lambda: {"error": 1.0}, recorder, evaluations=20)
    assert len(recorder.rows) == 20


# -- what is kept -------------------------------------------------------------------------------------------------


def test_the_weights_of_the_best_evaluation_are_restored():
    point, seen = Point(), []

    def evaluate() -> dict[str, float]:
        seen.append(float(point.x))
        return {"error": abs(float(point.x) - 0.5)}

    train(point, towards(point, 100.0), evaluate, evaluations=20)
    best = min(seen, key=lambda value: abs(value - 0.5))
    assert float(point.x.detach()) == best != seen[-1]


@pytest.mark.parametrize("first", [True, False])
def test_the_metric_of_the_stage_decides_wherever_it_stands(first):
    point, errors = Point(), iter([1.0, 2.0])
    seen = []

    def evaluate() -> dict[str, float]:
        seen.append(float(point.x))
        other = {"other": -float(point.x)}
        return {"error": next(errors), **other} if first else {**other, "error": next(errors)}

    train(point, towards(point, 100.0), evaluate, evaluations=2)
    assert float(point.x.detach()) == seen[0]


def test_a_metric_that_is_not_measured_is_a_clear_error():
    point = Point()
    with pytest.raises(TrainingError, match=r"test: the evaluation has no metric 'error'.*it has loss, other"):
        train(point, towards(point, 1.0), lambda: {"other": 1.0})


def test_the_average_follows_its_recurrence_and_is_what_is_evaluated_and_kept():
    point, values, evaluated = Point(), [], []

    def loss(*_: Any) -> Tensor:
        values.append(point.x.item())
        return (point.x - 100).square()

    def evaluate() -> dict[str, float]:
        evaluated.append(float(point.x))
        return {"error": -float(point.x)}

    train(point, loss, evaluate, average=0.7, evaluations=20)
    average, expected = 0.0, []
    for step, value in enumerate([*values[1:], values[-1] + 0.1], start=1):
        decay = min(0.7, (1 + step) / (10 + step))
        average = decay * average + (1 - decay) * value
        expected.append(average)
    assert evaluated == pytest.approx(expected, rel=1e-4)
    assert float(point.x.detach()) == pytest.approx(expected[-1], rel=1e-4)
    assert values[10] == pytest.approx(1.0, rel=1e-3), "training goes on with the weights themselves"


def test_the_average_copies_what_is_not_a_float():
    module = nn.BatchNorm1d(2)
    kept = BestWeights(module, 0.9)
    module(torch.randn(4, 2))
    kept.update_average(1)
    assert int(kept.average["num_batches_tracked"]) == 1


def test_evaluation_runs_in_evaluation_mode_without_gradient_and_training_goes_on():
    point, modes = Point(), []

    def loss(*_: Any) -> Tensor:
        modes.append(("train", point.training, torch.is_grad_enabled()))
        return (point.x - 1).square()

    def evaluate() -> dict[str, float]:
        modes.append(("evaluate", point.training, torch.is_grad_enabled()))
        return {"error": 1.0}

    train(point, loss, evaluate, evaluations=20)
    assert set(modes) == {("train", True, True), ("evaluate", False, False)}
    assert not point.training
    assert point.x.grad is None


# -- numbers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_leaves_the_numbers_stops_training_with_stage_and_step(value):
    point, step, work = Point(), iter(range(1, 100)), Memory()
    with pytest.raises(TrainingError, match=rf"test: the loss is {value} at step 7.*learning_rate"):
        train(
            point,
            lambda *_: (point.x + 1) * (value if next(step) == 7 else 1.0),
            lambda: {"error": 1.0},
            evaluations=5,
            work=work,
        )
    assert point.x.isfinite().all(), "the weights are left as they were"
    assert work.kept["test"].values["step"] == 6


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_loss_that_leaves_the_numbers_stops_training_also_where_its_gradient_does_not(value):
    point, step = Point(), iter(range(1, 100))
    with pytest.raises(TrainingError, match=rf"test: the loss is {value} at step [78].*learning_rate"):
        train(
            point,
            lambda *_: point.x + (value if next(step) == 7 else 0.0),
            lambda: {"error": 1.0},
            evaluations=5,
        )


@pytest.mark.parametrize("patience", [None, 2])
def test_a_training_that_ends_far_above_its_first_loss_has_diverged(patience):
    point = Point(2.0)
    with pytest.raises(TrainingError, match=r"test: the training diverged: the loss rose from 4 to .*learning_rate"):
        train(
            point, towards(point, 0.0), lambda: {"error": 1.0}, learning_rate=1000.0, evaluations=5, patience=patience
        )


def test_a_training_that_begins_with_weights_that_fit_may_lose_some():
    point = Point(0.01)
    train(point, towards(point, 0.0), lambda: {"error": 1.0}, learning_rate=1.0, evaluations=5)


def test_a_gradient_that_leaves_the_numbers_stops_training_although_the_loss_does_not():
    point = Point()
    with pytest.raises(TrainingError, match=r"test: the gradient of the loss is (nan|inf) at step 1\."):
        train(point, lambda *_: point.x.abs().sqrt(), lambda: {"error": 1.0})
    assert float(point.x.detach()) == 0


@pytest.mark.parametrize(("clip", "moved"), [(1.0, True), (None, False)])
def test_clipping_keeps_one_huge_gradient_from_freezing_the_rest(clip, moved):
    point, step = Point(), iter(range(1, 100))

    def loss(*_: Any) -> Tensor:
        return -point.x * (1e8 if next(step) == 1 else 1.0)

    train(point, loss, lambda: {"error": -float(point.x)}, clip=clip, evaluations=20)
    assert (float(point.x.detach()) > 1.5) == moved


def test_dropout_follows_the_seed_and_leaves_the_global_generator_alone():
    def weights(seed: int) -> Tensor:
        torch.manual_seed(1)
        module = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
        torch.rand(seed)  # what was drawn before must not matter
        state, context = torch.random.get_rng_state(), Context(seed=seed // 10)
        optimise(
            module,
            Training(epochs=1, batch_size=2, learning_rate=0.1),
            count=20,
            source=ShuffledBatches(20, 2, context, "test"),
            loss=lambda rows, _: module(torch.ones(len(rows), 4)).square().mean(dim=1),
            evaluate=lambda: {"error": -1.0},
            context=context,
            stage=STAGE,
        )
        assert torch.equal(torch.random.get_rng_state(), state)
        return module[0].weight.detach()

    assert torch.equal(weights(3), weights(7))
    assert not torch.equal(weights(3), weights(11))


# -- going on -----------------------------------------------------------------------------------------------------

TOTAL = 12
INPUTS = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))


class Noisy:
    """A training in which everything that could be forgotten matters: dropout, noise, average, schedule, batches."""

    def __init__(self, source: str = "shuffled", **options: Any) -> None:
        self.source = source
        settings = {"batch_size": 6, "learning_rate": 0.05, "average": 0.8, "evaluations": 4, "weight_decay": 0.1}
        self.training = Training(**{**settings, **options})

    def run(self, recorder: Recorder, work: Work | None = None, start: int = 0) -> dict[str, Tensor]:
        """The weights in the end; `start` is the seed of those in the beginning."""
        torch.manual_seed(start)
        module = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1))
        context = Context(monitor=recorder, work=work or Work())

        def loss(rows: Tensor, generator: Generator) -> Tensor:
            noise = torch.randn(len(rows), 4, generator=generator)
            return (module(INPUTS[rows] + 0.1 * noise).squeeze(1) - INPUTS[rows].sum(dim=1)).square()

        optimise(
            module,
            self.training,
            count=20,
            source=self.batches(module, context),
            loss=loss,
            evaluate=lambda: {"error": float((module(INPUTS).squeeze(1) - INPUTS.sum(dim=1)).square().mean())},
            context=context,
            stage=STAGE,
            steps=TOTAL,
        )
        return {name: tensor.clone() for name, tensor in module.state_dict().items()}

    def batches(self, module: nn.Sequential, context: Context) -> Batches:
        if self.source == "shuffled":
            return ShuffledBatches(20, 6, context, "test")

        def embed(rows: Tensor) -> Tensor:
            with torch.no_grad():
                return module[0](INPUTS[rows])

        return MinedBatches((0, 20), 6, 3, 3, embed, context, "test")


def same(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.parametrize("step", range(1, TOTAL + 1))
@pytest.mark.parametrize("noisy", [Noisy(), Noisy("mined"), Noisy(average=0)], ids=["average", "mined", "plain"])
def test_a_training_that_stops_at_any_step_goes_on_as_if_it_had_not(noisy, step):
    undisturbed, recorder, work = Recorder(), Recorder(), Memory(stop_after=step)
    weights = noisy.run(undisturbed)
    with pytest.raises(Stopped):
        noisy.run(recorder, work)
    assert same(noisy.run(recorder, Memory(work.kept), start=1), weights)
    assert recorder.rows == undisturbed.rows


def test_a_training_goes_on_however_often_it_stops():
    work = Memory(stop_after=1)
    for start in range(TOTAL):
        with pytest.raises(Stopped):
            Noisy().run(Recorder(), work, start)
        assert work.kept["test"].values["step"] == start + 1
        work = Memory(work.kept, stop_after=1)
    assert same(Noisy().run(Recorder(), work, start=99), Noisy().run(Recorder()))


@pytest.mark.parametrize("step", [3, 6, 9])
def test_patience_is_not_given_anew_by_a_stop(step):
    impatient = Noisy(learning_rate=1e-9, patience=2)
    undisturbed, recorder, work = Recorder(), Recorder(), Memory(stop_after=step)
    weights = impatient.run(undisturbed)
    assert undisturbed.steps("test")[-1] < TOTAL, "else this shows nothing"
    with pytest.raises(Stopped):
        impatient.run(recorder, work)
    assert same(impatient.run(recorder, Memory(work.kept), start=1), weights)
    assert recorder.rows == undisturbed.rows


def test_what_has_finished_is_not_done_again():
    work, recorder = Memory(), Recorder()
    weights = Noisy().run(Recorder(), work)
    assert work.kept["test"].finished
    assert same(Noisy().run(recorder, work, start=1), weights)
    assert recorder.rows == []


def test_a_training_that_failed_goes_on_with_the_batch_it_failed_at():
    def rows_of(work: Memory, failing: int | None) -> list[list[int]]:
        point, drawn = Point(), []

        def loss(rows: Tensor, _: Generator) -> Tensor:
            drawn.append(rows.tolist())
            return (point.x + 1) * (math.nan if len(drawn) == failing else 1.0)

        with nullcontext() if failing is None else pytest.raises(TrainingError):
            train(point, loss, lambda: {"error": 1.0}, work=work)
        return drawn

    work = Memory()
    failed = rows_of(work, failing=7)
    assert [*failed[:-1], *rows_of(Memory(work.kept), failing=None)] == rows_of(Memory(), failing=None)


# -- for so many minutes --------------------------------------------------------------------------------------------


class Pace:
    """A clock that work moves on: a loss and its step take `step` seconds, an evaluation `evaluation`."""

    def __init__(self, step: float = 0.5, evaluation: float = 0.0, first: float = 0.0) -> None:
        self.now, self.step, self.evaluation, self.first = 0.0, step, evaluation, first

    def __call__(self) -> float:
        return self.now

    def loss(self, module: Point) -> Callable[[Tensor, Generator], Tensor]:
        def loss(rows: Tensor, _: Generator) -> Tensor:
            self.now += self.step + self.first
            self.first = 0.0
            return (module.x - 1.0).square().expand(len(rows))

        return loss

    def evaluate(self) -> dict[str, float]:
        self.now += self.evaluation
        return {"error": 1.0}


def timed(pace: Pace, recorder: Recorder, **options: Any) -> Point:
    point = Point()
    train(point, pace.loss(point), pace.evaluate, recorder, clock=pace, **{"minutes": 1, "evaluations": 4, **options})
    return point


def test_a_training_of_some_minutes_makes_the_steps_that_fit():
    pace, recorder = Pace(step=0.5), Recorder()
    timed(pace, recorder)
    assert recorder.messages == ["test: about 120 steps in 60 s"]
    assert recorder.steps("test") == [30, 60, 90, 120]
    assert pace.now == 60


def test_a_slow_first_step_does_not_make_the_training_shorter_than_planned():
    pace, recorder = Pace(step=0.1, first=2.0), Recorder()
    timed(pace, recorder)
    assert recorder.steps("test")[-1] == 580  # 58 seconds after the first one's two
    assert pace.now == pytest.approx(60)


def test_evaluations_are_part_of_the_time_and_made_less_often_if_they_are_slow():
    pace, recorder = Pace(step=0.1, evaluation=5.0), Recorder()
    timed(pace, recorder)
    assert len(recorder.steps("test")) == 2  # a fifth of the time, not four times five seconds
    assert pace.now == pytest.approx(60, rel=0.01)


def test_steps_longer_than_the_time_end_after_one_more():
    recorder = Recorder()
    timed(Pace(step=100.0), recorder)
    assert recorder.steps("test") == [2]


def test_the_learning_rate_ends_at_zero_when_the_time_is_over(monkeypatch):
    totals: list[int] = []
    monkeypatch.setattr(loop, "rate", lambda _, total, __: totals.append(total) or 1.0)
    timed(Pace(step=0.5), Recorder(), schedule="cosine")
    assert totals[6:] == [120] * 114  # five percent of the time is measured


@pytest.mark.parametrize("stop_after", [3, 7, 50])
def test_a_resumed_training_keeps_the_steps_that_were_planned(stop_after):
    recorder, memory = Recorder(), Memory(stop_after=stop_after)
    with pytest.raises(Stopped):
        timed(Pace(step=0.5), recorder, work=memory)
    pace = Pace(step=0.25)  # another machine, twice as fast
    timed(pace, recorder, work=Memory(memory.kept))
    planned = stop_after > 6
    assert recorder.steps("test")[-1] == (120 if planned else 240 + stop_after)


def test_checkpoints_of_a_training_without_minutes_hold_no_plan():
    memory = Memory(stop_after=3)
    with pytest.raises(Stopped):
        timed(Pace(), Recorder(), minutes=None, work=memory)
    assert set(memory.kept["test"].values) == {"step", "stale", "best", "first"}


def test_several_processes_make_the_steps_that_the_main_one_planned():
    class Second(Processes):
        """A process that is told what the main one found: enough after three steps, and ten steps in all."""

        asked = 0

        def agreed(self, values: Mapping[str, float]) -> dict[str, float]:
            if "enough" not in values:
                return {**values, "steps": 10.0, "evaluations": 1.0} if "steps" in values else dict(values)
            self.asked += 1
            return {"enough": float(self.asked == 4)}

    recorder = Recorder()
    timed(Pace(), recorder, processes=Second())
    assert recorder.steps("test") == [10]


def test_given_steps_replace_minutes():
    recorder = Recorder()
    timed(Pace(), recorder, steps=8)
    assert recorder.steps("test") == [2, 4, 6, 8]
    assert not recorder.messages


# -- within a budget for the whole training -------------------------------------------------------------------------


def budgeted(pace: Pace, recorder: Recorder, seconds: float, *coming: str, **options: Any) -> Point:
    """Train for 200 steps, or as many as fit into a share of so many seconds."""
    budget = Budget(seconds, ["test", *coming], clock=pace)
    own = budget.for_dispensable() if options.pop("dispensable", False) else budget
    return timed(pace, recorder, **{"minutes": None, "epochs": 10, "budget": own, **options})


def test_a_large_budget_changes_nothing():
    freely, within = Recorder(), Recorder()
    expected = timed(Pace(), freely, minutes=None, epochs=10, schedule="cosine", warmup=0.1)
    found = budgeted(Pace(), within, 1000.0, schedule="cosine", warmup=0.1)
    assert torch.equal(found.x, expected.x)
    assert within.rows == freely.rows
    assert within.messages == []


def test_a_network_has_an_equal_share_of_what_is_left():
    pace, recorder = Pace(step=0.5), Recorder()
    pace.now = -10.0  # the budget begins here
    budget = Budget(110.0, ["other", "test", "later"], clock=pace)
    pace.now = 0.0
    timed(pace, recorder, minutes=None, epochs=10, budget=budget)
    assert recorder.messages == ["test: about 100 of 200 steps in 50 s"]
    assert recorder.steps("test")[-1] == 100
    assert budget.coming == ["later"]
    assert budget.share("later") == pytest.approx(50)


def test_time_that_a_network_does_not_use_is_left_to_the_next():
    pace = Pace(step=0.1)
    budget = Budget(100.0, ["test", "later"], clock=pace)
    timed(pace, Recorder(), minutes=None, epochs=10, budget=budget)
    assert budget.share("later") == pytest.approx(80), "200 steps took 20 seconds"


def test_the_seconds_before_a_stop_are_spent():
    pace = Pace()
    assert Budget(100.0, ["test"], spent=70.0, clock=pace).share("test") == 30
    assert Budget(100.0, ["test"], spent=170.0, clock=pace).share("test") == 0


@pytest.mark.parametrize("dispensable", [True, False])
def test_a_network_with_too_little_time_is_left_out_if_the_model_can_do_without_it(dispensable):
    recorder = Recorder()
    with pytest.raises(TooLittleTime, match="time for only 2 of 200 steps in 4 s") if dispensable else nullcontext():
        budgeted(Pace(step=3.0), recorder, 4.0, dispensable=dispensable)
    assert recorder.steps("test")[-1:] == ([] if dispensable else [2])


def test_a_resumed_training_keeps_the_steps_that_fitted_into_the_budget():
    memory = Memory(stop_after=50)
    with pytest.raises(Stopped):
        budgeted(Pace(step=0.5), Recorder(), 40.0, work=memory)
    recorder = Recorder()
    budgeted(Pace(step=0.01), recorder, 1000.0, work=Memory(memory.kept))
    assert recorder.steps("test")[-1] == 80


# -- optimisers and precision ---------------------------------------------------------------------------------------


class Layers(nn.Module):
    """Three linear layers, so that one is hidden; remembers the type of its products."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.layers = nn.Sequential(*(nn.Linear(4, 4) for _ in range(3)))
        self.types: set[torch.dtype] = set()

    def error(self) -> Tensor:
        outputs = self.layers(torch.eye(4))
        self.types.add(outputs.dtype)
        return (outputs.float() - 1).square().sum()


@pytest.mark.parametrize("optimiser", ["adamw", "muon"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_each_optimiser_learns_in_each_precision_and_evaluates_in_float32(optimiser, precision, monkeypatch):
    for place in (device, loop):
        monkeypatch.setattr(place, "computes_bfloat16", lambda _: True)
    module, evaluated = Layers(), Layers()

    def evaluate() -> dict[str, float]:
        evaluated.load_state_dict(module.state_dict())
        return {"error": evaluated.error().item()}

    before = module.error().item()
    module.types.clear()
    options = {"epochs": 5, "learning_rate": 0.01, "optimiser": optimiser, "precision": precision}
    train(module, lambda rows, _: module.error().expand(len(rows)), evaluate, **options)
    assert module.types == {getattr(torch, precision)}
    assert evaluated.types == {torch.float32}
    assert all(weight.dtype == torch.float32 for weight in module.parameters())
    assert module.error().item() < before / 4


def test_a_processor_without_bfloat16_computes_in_float32_and_says_so(monkeypatch):
    for place in (device, loop):
        monkeypatch.setattr(place, "computes_bfloat16", lambda _: False)
    module, recorder = Layers(), Recorder()
    train(
        module, lambda rows, _: module.error().expand(len(rows)), lambda: {"error": 0.0}, recorder, precision="bfloat16"
    )
    assert module.types == {torch.float32}
    assert recorder.messages == ["test: computed in float32, because this processor has no bfloat16"]


def test_a_training_with_muon_that_was_stopped_ends_with_the_same_weights():
    options = {"optimiser": "muon", "learning_rate": 0.01, "steps": 12, "evaluations": 3}

    def run(work: Work) -> Layers:
        module = Layers()
        loss = lambda rows, _: module.error().expand(len(rows))  # noqa: E731
        train(module, loss, lambda: {"error": module.error().item()}, work=work, **options)
        return module

    work = Memory(stop_after=7)
    with pytest.raises(Stopped):
        run(work)
    whole, resumed = run(Memory()), run(Memory(work.kept))
    for name, weight in whole.named_parameters():
        assert torch.equal(weight, resumed.get_parameter(name)), name
