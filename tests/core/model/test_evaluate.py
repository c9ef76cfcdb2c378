"""Evaluation: each metric of the space, what was not among the candidates, and the oracle."""

from __future__ import annotations

import pytest
import torch

from ele_core.data.truths import Truths
from ele_core.errors import DataError
from ele_core.model.evaluate import evaluate
from ele_core.model.metrics import measure
from ele_core.runtime.context import Context
from ele_core.runtime.distributed import Processes
from ele_core.types import Choice
from ele_sequences.space import SequenceSpace


def outputs(predictor, texts):
    return predictor.model_.space.pack(texts)


def test_metrics_are_means_of_the_values_of_each_example(predictor, pairs):
    result = predictor.evaluate(pairs[0][:30], pairs[1][:30])
    for name in ("exact", "edit_distance"):
        assert result.values[name].shape == (30,)
        assert result.metrics[name] == pytest.approx(result.values[name].mean().item())
    assert result.metrics["examples"] == 30
    predicted = predictor.predict(pairs[0][:30])
    assert result.values["exact"].tolist() == [float(p == y) for p, y in zip(predicted, pairs[1][:30], strict=True)]


def test_the_oracle_finds_every_candidate_and_asks_the_regressor_for_nothing(predictor):
    model = predictor.model_
    known = model.candidates.batch[:20]
    result = evaluate(model, ["one"] * 20, known, oracle=True, context=Context())
    assert result.metrics["exact"] == 1.0
    assert "regression_error" not in result.metrics


def test_the_regression_error_is_the_squared_distance_to_the_true_embedding(predictor, pairs):
    model = predictor.model_
    result = predictor.evaluate(pairs[0][:10], pairs[1][:10])
    distance = (model.queries(pairs[0][:10]) - model.surrogate.embed(outputs(predictor, pairs[1][:10]))).square()
    assert result.metrics["regression_error"] == pytest.approx(distance.sum(dim=1).mean().item(), rel=1e-5)


def test_structures_absent_from_the_candidates_are_counted_apart(predictor):
    model = predictor.model_
    known = model.space.unpack(model.candidates.batch[:3])
    truths = outputs(predictor, [*known, "987654"])
    result = evaluate(model, ["one"] * 4, truths, oracle=True, context=Context())
    assert result.metrics["unseen"] == 0.25
    assert result.metrics["exact"] == 0.75
    assert result.metrics["exact_unseen"] == 0.0
    assert "exact_unseen" not in evaluate(model, ["one"] * 3, truths[:3], oracle=True, context=Context()).metrics


def test_another_decoder_can_be_named_and_is_remembered(predictor, pairs):
    result = predictor.evaluate(pairs[0][:5], pairs[1][:5], decoder={"name": "pgd", "steps": 2, "starts": 1})
    assert result.decoder == Choice(name="pgd", steps=2, starts=1)
    assert "exact" in str(result)


def test_exact_match_is_measured_also_where_a_space_does_not_list_it(predictor, monkeypatch):
    monkeypatch.setattr(SequenceSpace, "metrics", property(lambda _: ()))
    batch = outputs(predictor, ["12", "3"])
    measured = measure(predictor.model_.space, batch, Truths.single(outputs(predictor, ["12", "4"])), Context())
    assert measured["exact"].tolist() == [1.0, 0.0]


def test_a_single_truth_is_not_spread_over_many_inputs(predictor):
    with pytest.raises(DataError, match="3 inputs but 1 output"):
        evaluate(predictor.model_, ["one"] * 3, outputs(predictor, ["1"]), context=Context())


def test_nothing_to_evaluate_is_an_error(predictor):
    with pytest.raises(DataError, match="nothing to evaluate"):
        evaluate(predictor.model_, [], outputs(predictor, []), context=Context())


def test_evaluation_changes_no_weight(predictor, pairs):
    before = {name: tensor.clone() for name, tensor in predictor.model_.regressor.state().items()}
    predictor.evaluate(pairs[0][:5], pairs[1][:5])
    assert all(torch.equal(tensor, before[name]) for name, tensor in predictor.model_.regressor.state().items())


def test_metrics_keep_the_order_of_the_space_though_other_processes_send_theirs_in_any_order(predictor):
    class Backwards(Processes):
        """A group of two, of which this one does the only block."""

        count = 2

        def gather_named(self, own):
            return [dict(reversed(own.items())), {}]

    batch = outputs(predictor, ["12", "3"])
    truths = Truths.single(outputs(predictor, ["12", "4"]))
    measured = measure(predictor.model_.space, batch, truths, Context(processes=Backwards()))
    assert list(measured) == ["exact", "edit_distance"]
