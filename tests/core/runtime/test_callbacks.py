"""Callbacks that a user passes to an estimator or to a run."""

from __future__ import annotations

import json

import pytest
from sklearn.base import clone

from ele_core import StructuredPredictor
from ele_core import config as configuration
from ele_core.errors import ConfigError
from ele_core.runs.run import Run
from ele_core.runtime.monitor import Callback


class Told(Callback):
    """Remembers every call."""

    def __init__(self) -> None:
        self.events: list[tuple] = []

    def start(self, folder, earlier):
        self.events.append(("start", folder, len(earlier)))

    def step(self, stage, step, loss):
        self.events.append(("step", stage, step, float(loss)))

    def evaluation(self, stage, step, metrics, *, best=False):
        self.events.append(("evaluation", stage, step, dict(metrics), best))

    def stage_end(self, stage):
        self.events.append(("stage_end", stage))

    def message(self, text):
        self.events.append(("message", text))

    def end(self):
        self.events.append(("end",))

    def of(self, kind: str) -> list[tuple]:
        return [event[1:] for event in self.events if event[0] == kind]


def test_fit_tells_its_callbacks_everything_in_order(tiny, pairs):
    told = Told()
    StructuredPredictor("sequence", **tiny, callbacks=[told]).fit(*pairs, validation=20)
    events = [event for event in told.events if event[0] != "message"]  # what was read and planned is told first
    assert events[0] == ("start", None, 0)
    assert told.events[-1] == ("end",)
    assert told.of("stage_end") == [("embedding",), ("regression",)]
    for stage in ("embedding", "regression"):
        steps = [step for name, step, _ in told.of("step") if name == stage]
        assert steps == list(range(1, len(steps) + 1))
        evaluated = [step for name, step, *_ in told.of("evaluation") if name == stage]
        assert evaluated[-1] == steps[-1]
    assert any(best for *_, best in told.of("evaluation"))


def test_a_run_tells_its_callbacks_what_it_writes(settings, tmp_path):
    told, overrides = Told(), [word for word in settings if word != "--set"]
    run = Run.start(configuration.load("number-words", overrides), tmp_path / "run", callbacks=[told])
    written = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    heard = [{"stage": s, "step": n, "best": best, **metrics} for s, n, metrics, best in told.of("evaluation")]
    assert heard == written
    assert told.of("start") == [(tmp_path / "run", 0)]


class Stopping(Told):
    """Stops the training at the second evaluation of the regression."""

    def evaluation(self, stage, step, metrics, *, best=False):
        super().evaluation(stage, step, metrics, best=best)
        if [each for each, *_ in self.of("evaluation")].count("regression") == 2:
            raise KeyboardInterrupt


def test_a_resumed_run_tells_what_was_evaluated_before(settings, tmp_path):
    straight, stopped, told = Told(), Stopping(), Told()
    config = configuration.load("number-words", [word for word in settings if word != "--set"])
    Run.start(config, tmp_path / "straight", callbacks=[straight])
    with pytest.raises(KeyboardInterrupt):
        Run.start(config, tmp_path / "run", callbacks=[stopped], every=0)
    Run.resume(tmp_path / "run", callbacks=[told])
    every, later = straight.of("evaluation"), told.of("evaluation")
    assert told.of("start") == [(tmp_path / "run", len(every) - len(later))]
    assert later == every[-len(later) :]
    assert {stage for stage, *_ in later} == {"regression"}
    (message,) = [text for (text,) in told.of("message") if text.startswith("resumed")]
    assert message.endswith("during regression")


def test_callbacks_are_a_parameter_of_the_estimator_and_end_also_when_fit_fails(tiny, pairs):
    class Fails(Told):
        def stage_end(self, stage):
            raise KeyboardInterrupt

    failing = Fails()
    predictor = StructuredPredictor("sequence", **tiny).set_params(callbacks=[failing])
    assert len(clone(predictor).get_params()["callbacks"]) == 1
    try:
        predictor.fit(*pairs, validation=20)
    except KeyboardInterrupt:
        assert failing.events[-1] == ("end",)
    else:
        raise AssertionError("the callback's exception did not end the fit")


def test_one_callback_need_not_stand_in_a_list(tiny, pairs):
    told = Told()
    StructuredPredictor("sequence", **tiny, callbacks=told).fit(*pairs, validation=20)
    assert told.events[-1] == ("end",)


@pytest.mark.parametrize("wrong", [[Told], [print]], ids=["a class", "a function"])
def test_anything_but_callbacks_is_refused_in_a_sentence(tiny, pairs, wrong):
    with pytest.raises(ConfigError, match=r"callbacks: expected objects that derive from `Callback`.*Write a list"):
        StructuredPredictor("sequence", **tiny, callbacks=wrong).fit(*pairs, validation=20)
