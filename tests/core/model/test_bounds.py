"""Metrics that are known only between bounds: the worse bound is the value, and what is not proven is told."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from ele_core import Bounded, Metric
from ele_core.data.truths import Truths
from ele_core.model.metrics import means, measure, texts
from ele_core.runtime.context import Context
from ele_sequences.space import SequenceSpace

KNOWN = SequenceSpace.metrics.fget


def loosened(space):
    """The metrics of a space; distances above 1 are only known to be between 1 and twice the distance."""

    def loose(metric):
        def function(predicted, true):
            value = metric.function(predicted, true)
            return Bounded(value.clamp(max=1), torch.where(value > 1, 2 * value, value))

        return dataclasses.replace(metric, function=function) if metric.name == "edit_distance" else metric

    return tuple(map(loose, KNOWN(space)))


@pytest.fixture
def loose(monkeypatch):
    monkeypatch.setattr(SequenceSpace, "metrics", property(loosened))


def test_the_worse_bound_is_the_value():
    bounds = Bounded(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 5.0]))
    low, high = (Metric("m", direction, lambda *_: bounds) for direction in ("min", "max"))
    assert low.values(None, None).tolist() == [1, 5]
    assert high.values(None, None).tolist() == [1, 2]
    assert (low.best_case, high.best_case) == ("m_at_least", "m_at_most")


@pytest.mark.usefixtures("loose")
def test_best_cases_follow_if_a_pair_is_not_proven(predictor):
    space = predictor.model_.space
    predicted, true = space.pack(["12", "3"]), space.pack(["12", "456"])
    values = measure(space, predicted, Truths.single(true), Context())
    assert values["edit_distance"].tolist() == [0, 6]
    assert values["edit_distance_at_least"].tolist() == [0, 1]
    assert means(values)["edit_distance_not_proven"] == 1
    assert list(measure(space, true, Truths.single(true), Context())) == ["exact", "edit_distance"], (
        "all are proven: nothing changes"
    )


def test_a_mean_says_what_is_not_proven():
    metrics = {"d": 1.52, "d_at_least": 1.31, "d_not_proven": 40.0, "exact": 0.5, "examples": 2000.0}
    shown = texts(metrics, "{:.4g}".format)
    assert shown == {"d": "1.52 (at least 1.31: 40 of 2,000 not proven)", "exact": "0.5", "examples": "2000"}


def test_a_metric_whose_name_ends_alike_is_none_of_these():
    assert texts({"size_at_least": 3.0}, "{:g}".format) == {"size_at_least": "3"}


@pytest.mark.usefixtures("loose")
def test_an_evaluation_tells_it_in_words_and_for_each_example(predictor, pairs):
    result = predictor.evaluate(pairs[0][:30], pairs[1][:30])
    count = int((result.values["edit_distance"] > 1).sum())
    assert count > 0
    assert f"{count} of 30 not proven)" in str(result)
    row = result.rows(predictor.model_, pairs[0][:30])[0]
    assert list(row)[-2:] == ["edit_distance", "edit_distance_at_least"]
