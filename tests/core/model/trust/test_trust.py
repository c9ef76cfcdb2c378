"""Calibrated predictions: confidence, expected metrics, prediction sets, and what is refused."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import shutil
from contextlib import suppress

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from ele_core import AnyOf, Context, StructuredPredictor
from ele_core.data.truths import Truths
from ele_core.errors import ConfigError, DataError, ModelError
from ele_core.model.predict import predict_texts
from ele_core.model.trust.calibration import (
    ARRAYS,
    FILE,
    NAMES,
    PLAIN,
    TENSORS,
    fit_calibration,
    nearest_losses,
    rank_of_truth,
    read_calibration,
    signals,
)
from ele_core.model.trust.judged import Trust
from ele_core.model.trust.sets import Promise, prediction_sets
from ele_core.types import Decoding

INPUTS = 60


@pytest.fixture(scope="module")
def uncalibrated(pairs):
    """A predictor of some wrong answers, for which the truths are among the candidates."""
    ridge = {"name": "sketched-ridge", "penalties": [0.02]}
    fitted = StructuredPredictor("sequence", surrogate="parts", regressor=ridge, decoder="candidates")
    return fitted.fit(*pairs, validation=(pairs[0][:20], pairs[1][:20]))


@pytest.fixture(scope="module")
def calibrated(uncalibrated, pairs):
    """The same with a calibration."""
    return copy.copy(uncalibrated).calibrate(*pairs)


def test_a_fitted_predictor_says_nothing_of_trust_before_it_is_calibrated(predictor, pairs):
    found = predictor.decode(pairs[0][:3])
    assert found.confidence is None
    assert found.sets is None
    assert found[0].confidence is None
    with pytest.raises(ConfigError, match=r"no calibration.*predictor\.calibrate"):
        predictor.decode(pairs[0][:3], coverage=0.9)


def test_confidence_is_a_probability_with_the_right_mean(calibrated, pairs):
    found = calibrated.decode(pairs[0])
    assert isinstance(found.confidence, np.ndarray)
    assert ((found.confidence > 0) & (found.confidence < 1)).all()
    some = predict_texts(calibrated.model_, [pairs[0][0], "", pairs[0][1]], context=Context())
    assert np.isnan(some.confidence).tolist() == [False, True, False]
    assert some.confidence[2] == pytest.approx(found.confidence[1], abs=1e-5)
    exact = calibrated.evaluate(*pairs).metrics["exact"]
    assert found.confidence.mean().item() == pytest.approx(exact, abs=0.02)
    assert found[0].confidence == pytest.approx(found.confidence[0].item())
    assert set(found[0].expected) == {"edit_distance"}


def test_calibrating_does_not_change_the_answers(uncalibrated, calibrated, pairs):
    for top_k in (1, 3, 25):
        assert calibrated.predict(pairs[0][:20], top_k=top_k) == uncalibrated.predict(pairs[0][:20], top_k=top_k)


def test_sets_hold_the_truth_of_the_calibration_pairs_as_often_as_asked(calibrated, pairs):
    for coverage in (0.5, 0.8):
        found = calibrated.decode(pairs[0], coverage=coverage)
        held = [truth in each.set for each, truth in zip(found, pairs[1], strict=True)]
        assert coverage <= sum(held) / len(held) <= coverage + 2 / len(held)
        assert [len(each.set) for each in found] == found.sets.sizes.tolist()


def test_sets_of_a_higher_coverage_hold_those_of_a_lower_one(calibrated, pairs):
    low, high = (calibrated.decode(pairs[0][:30], coverage=coverage).sets.members for coverage in (0.5, 0.8))
    assert (low <= high).all()
    assert low.sum() < high.sum()


def test_a_risk_keeps_the_mean_distance_to_the_nearest_member(calibrated, pairs):
    found = calibrated.decode(pairs[0], risk=1.0)
    space = calibrated.model_.space
    distance = next(metric for metric in space.metrics if metric.name == "edit_distance")
    nearest = []
    for each, truth in zip(found, pairs[1], strict=True):
        batch = space.pack([truth] * len(each.set))
        nearest.append(distance.values(space.pack(each.set), batch).min().item())
    assert sum(nearest) / len(nearest) <= 1.0
    assert min(len(each.set) for each in found) >= 1


def test_coverage_for_each_size_holds_within_the_groups(calibrated, pairs):
    found = calibrated.decode(pairs[0], coverage=0.7, by="length")
    short = [truth in each.set for each, truth in zip(found, pairs[1], strict=True) if len(truth) <= 4]
    long = [truth in each.set for each, truth in zip(found, pairs[1], strict=True) if len(truth) > 4]
    assert sum(short) / len(short) >= 0.6
    assert sum(long) / len(long) >= 0.6
    with pytest.raises(ConfigError, match="no property 'colour'"):
        calibrated.decode(pairs[0][:3], coverage=0.7, by="colour")


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"coverage": 0.999}, "needs at least 999 calibration pairs, and there are 120"),
        ({"coverage": 1.5}, "above 0 and below 1"),
        ({"coverage": math.nan}, "above 0 and below 1"),
        ({"coverage": "x"}, "above 0 and below 1, not 'x'"),
        ({"coverage": 0.9, "risk": 1.0}, "one of them"),
        ({"by": "length"}, "goes with a coverage"),
        ({"risk": 0.01}, "cannot be promised"),
        ({"risk": -1}, "above 0"),
        ({"risk": math.inf}, "finite"),
        ({"min_confidence": math.nan}, "from 0 to 1"),
    ],
)
def test_promises_that_cannot_be_kept_are_refused_with_the_reason(calibrated, pairs, asked, reason):
    with pytest.raises((ConfigError, DataError), match=reason):
        calibrated.decode(pairs[0][:2], **asked)


def test_too_few_pairs_are_refused_with_the_number_needed(predictor, pairs):
    with pytest.raises(DataError, match="too few to calibrate with: 5 pairs, and at least 20"):
        copy.copy(predictor).calibrate(pairs[0][:5], pairs[1][:5])


def test_answers_below_the_least_confidence_are_left_out_and_their_rows_stay(calibrated, pairs):
    least = float(np.median(calibrated.decode(pairs[0]).confidence))
    found = calibrated.decode(pairs[0], min_confidence=least)
    kept = [each.best is not None for each in found]
    assert 0.4 < sum(kept) / len(kept) < 0.6
    rows = found.rows()
    assert len(rows) == len(pairs[0])
    assert all(("is below" in row["status"]) == (row["prediction"] == "") for row in rows)
    assert all(row["confidence"] for row in rows)


def test_other_ways_to_decode_have_no_confidence(calibrated, pairs):
    inputs = pairs[0][:3]
    assert calibrated.decode(inputs, decoder={"name": "search", "rounds": 1}).confidence is None
    assert calibrated.decode(inputs, candidates=pairs[1]).confidence is None
    with pytest.raises(ConfigError, match="its own candidates"):
        calibrated.decode(inputs, candidates=pairs[1], coverage=0.9)


def test_a_calibration_is_saved_and_loaded_with_the_model(calibrated, pairs, tmp_path):
    calibrated.save(tmp_path / "model")
    loaded = StructuredPredictor.load(tmp_path / "model")
    before, after = (each.decode(pairs[0][:9], coverage=0.8) for each in (calibrated, loaded))
    assert np.array_equal(before.confidence, after.confidence)
    assert torch.equal(before.sets.members, after.sets.members)
    assert before.rows() == after.rows()


@pytest.fixture(scope="module")
def saved(calibrated, tmp_path_factory):
    """A folder with a calibrated model."""
    folder = tmp_path_factory.mktemp("saved") / "model"
    calibrated.save(folder)
    return folder


STRANGE = (None, True, "x", [], {}, -1, 0, 0.5, 10**30, 1e300, math.nan, math.inf, -math.inf)
"""Values that are not those of a calibration, for most of its entries."""


@pytest.mark.parametrize("name", ["format", "decoder", "signals", *PLAIN])
def test_an_entry_that_was_written_anew_is_damage_or_changes_no_prediction(saved, calibrated, pairs, tmp_path, name):
    content = json.loads((saved / FILE).read_text())
    shutil.copy(saved / TENSORS, tmp_path)
    wrong = [{key: value for key, value in content.items() if key != name}, *({**content, name: v} for v in STRANGE)]
    model, confidence = calibrated.model_, calibrated.decode(pairs[0][:3]).confidence
    changed = copy.copy(calibrated)
    for each in wrong:
        (tmp_path / FILE).write_text(json.dumps(each))
        with suppress(ModelError):
            changed.model_ = dataclasses.replace(model, calibration=read_calibration(tmp_path, model.space))
            found = changed.decode(pairs[0][:3]).confidence
            assert found is None or np.array_equal(found, confidence), each[name]


@pytest.mark.parametrize("name", [*ARRAYS, "confidence.mean", "confidence.deviation", "confidence.bias"])
def test_tensors_of_another_shape_type_or_without_numbers_are_damage(saved, calibrated, tmp_path, name):
    shutil.copy(saved / FILE, tmp_path)
    tensors = load_file(saved / TENSORS)
    good = tensors[name]
    for wrong in (good[None], good.float() * math.nan, good.double() * math.nan, good.to(torch.int32)):
        save_file({**tensors, name: wrong.contiguous()}, tmp_path / TENSORS)
        with pytest.raises(ModelError, match=f"{TENSORS}: damaged"):
            read_calibration(tmp_path, calibrated.model_.space)


def test_tables_have_the_columns_of_trust(calibrated, pairs):
    found = calibrated.decode(pairs[0][:4], top_k=2, coverage=0.8)
    names = ("confidence", "expected_edit_distance", "set_size", "set_note", "set")
    assert found.columns[4:9] == names
    first, second = found.rows()[:2]
    assert all(first[name] for name in ("confidence", "set_note"))
    assert not any(second[name] for name in names), "only the best structure of an input has them"
    assert int(first["set_size"]) == (len(first["set"].split(" | ")) if first["set"] else 0)
    frame = found.to_dataframe()
    assert list(frame["confidence"][:2]) == [found[0].confidence] * 2


def test_an_evaluation_measures_trust_and_that_from_true_embeddings_does_not(calibrated, pairs):
    result = calibrated.evaluate(*pairs)
    assert result.assessment["examples"] == len(pairs[0])
    assert result.assessment["calibration_error"] < 0.1
    assert [each["coverage"] for each in result.assessment["sets"]] == [0.8, 0.9, 0.95, 0.99]
    assert result.rows(calibrated.model_, pairs[0])[0]["confidence"]
    assert not calibrated.evaluate(*pairs, oracle=True).assessment


def test_several_right_outputs_count_as_one_example(predictor, pairs):
    truths = [AnyOf(output, "1") for output in pairs[1]]
    model = copy.copy(predictor).calibrate(pairs[0], truths).model_
    assert len(model.calibration) == len(pairs[0])
    single = copy.copy(predictor).calibrate(*pairs).model_
    assert (model.calibration.scores <= single.calibration.scores).all()


def test_fit_sets_pairs_aside_for_the_calibration(tiny, pairs):
    fitted = StructuredPredictor("sequence", **tiny, decoder="candidates").fit(*pairs, validation=20, calibration=30)
    assert len(fitted.model_.calibration) == 30
    assert len(fitted.model_.candidates) == len(pairs[0]) - 20 - 30
    assert fitted.decode(pairs[0][:2]).confidence is not None


# -- the parts ----------------------------------------------------------------------------------------------------


def test_a_higher_signal_means_less_trust():
    sure, unsure = torch.tensor([[0.1, 1.0, 1.1]]), torch.tensor([[0.5, 0.51, 0.52]])
    candidate = torch.tensor([0.8])
    assert (signals(sure, candidate, 0.2) < signals(unsure, candidate, 0.2)).all()


def test_structures_that_were_not_found_are_far_away():
    alone, crowded = torch.tensor([[0.1, math.inf, math.inf]]), torch.tensor([[0.1, 0.2, 0.3]])
    found = signals(alone, None, 0.2)
    assert found.isfinite().all()
    assert (found[:, 1:4] < signals(crowded, None, 0.2)[:, 1:4]).all()
    assert len(NAMES) == found.shape[1]


def test_the_rank_of_the_truth_and_the_distance_of_the_nearest_structure(predictor):
    space = predictor.model_.space
    found = Decoding(space.pack(["12", "13", "47", "12", "99", "98"]), torch.tensor([[0.1, 0.2, 0.3], [0.1, 0.2, 0.4]]))
    truths = Truths.single(space.pack(["13", "11"]))
    assert rank_of_truth(space, found, truths).tolist() == [1, -1]
    distance = next(metric for metric in space.metrics if metric.direction == "min")
    assert nearest_losses(space, found, truths, distance).tolist() == [[1, 0, 0], [1, 1, 1]]


def test_a_set_that_all_found_structures_are_in_is_marked_as_cut(predictor):
    model = predictor.model_
    objects = ["12", "13", "47"]
    batch = model.space.pack(objects * INPUTS)
    energies = torch.tensor([0.1, 0.2, 0.3]).repeat(INPUTS, 1)
    truths = Truths.single(model.space.pack(["47"] * INPUTS))
    config = model.config
    calibration = fit_calibration(config, model.space, Decoding(batch, energies), None, truths, "a test")
    trust = Trust(calibration, Decoding(batch, energies), calibration.signals)
    sets = prediction_sets(model.space, trust, Promise(0.9))
    assert sets.cut.all()
    assert sets.notes()[0] == "cut at 3 structures"
    assert sets.objects(model.space, range(len(sets)))[0] == objects
    far = Trust(calibration, Decoding(batch, energies + 1), calibration.signals)
    assert prediction_sets(model.space, far, Promise(0.9)).notes()[0].startswith("empty")


def test_a_coverage_that_the_search_does_not_reach_is_refused_with_the_most_that_can_be_asked(predictor):
    model = predictor.model_
    batch = model.space.pack(["12", "13"] * INPUTS)
    energies = torch.tensor([0.1, 0.2]).repeat(INPUTS, 1)
    truths = Truths.single(model.space.pack(["12"] * 48 + ["99"] * 12))
    calibration = fit_calibration(model.config, model.space, Decoding(batch, energies), None, truths, "a test")
    trust = Trust(calibration, Decoding(batch, energies), calibration.signals)
    never = fit_calibration(
        model.config,
        model.space,
        Decoding(batch, energies),
        None,
        Truths.single(model.space.pack(["99"] * 60)),
        "a test",
    )
    with pytest.raises(DataError, match=r"0\.9 cannot be promised[^.]*\. Find more structures"):
        prediction_sets(model.space, Trust(never, Decoding(batch, energies), never.signals), Promise(0.9))
    with pytest.raises(DataError, match=r"0\.9 cannot be promised.*Ask for at most 0\.786"):
        prediction_sets(model.space, trust, Promise(0.9))
    assert len(prediction_sets(model.space, trust, Promise(0.78))) == INPUTS


def test_narrowing_keeps_the_best_of_each_query(predictor):
    space = predictor.model_.space
    found = Decoding(space.pack(["1", "2", "3", "4"]), torch.tensor([[0.1, 0.2], [0.3, 0.4]]))
    assert space.unpack(found.ranks(0, 1).structures) == ["1", "3"]
