"""`StructuredPredictor` by scikit-learn's conventions, and what it says of arguments that do not fit."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from quick import QUICK, quick
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from ele_core import Metric, StructuredPredictor
from ele_core.errors import ConfigError, DataError, EleError, InvalidInput, InvalidOutput, ModelError
from ele_sequences.space import SequenceSpace

# -- scikit-learn -------------------------------------------------------------------------------------------------


def test_a_clone_has_the_parameters_and_nothing_learned(predictor, pairs):
    copy = clone(predictor)
    assert copy.get_params() == predictor.get_params()
    with pytest.raises(NotFittedError, match="call fit, or load"):
        copy.predict(pairs[0][:1])


def test_a_loaded_predictor_can_be_cloned_and_fitted_again(predictor, pairs, tmp_path):
    predictor.save(tmp_path)
    again = clone(StructuredPredictor.load(tmp_path)).set_params(**QUICK)
    assert again.fit(*pairs).predict(pairs[0][:3])


def test_cross_validation_gives_a_number_for_each_fold(pairs):
    scores = cross_val_score(quick(), *pairs, cv=3, error_score="raise")
    assert scores.shape == (3,)
    assert np.isfinite(scores).all()
    assert (scores == 0).all(), "no held-out number is among the candidates"


def test_it_can_be_the_last_step_of_a_pipeline(pairs):
    shout = FunctionTransformer(lambda texts: [text.upper() for text in texts])
    pipeline = Pipeline([("shout", shout), ("predict", quick())])
    pipeline.fit(*pairs, predict__validation=10)
    assert pipeline.predict(pairs[0][:4]) == pipeline.named_steps["predict"].predict([t.upper() for t in pairs[0][:4]])
    assert 0 <= pipeline.score(*pairs) <= 1
    assert clone(pipeline).set_params(predict__seed=2).get_params()["predict__seed"] == 2


@pytest.mark.parametrize("call", ["predict", "decode", "save"])
def test_nothing_works_before_fitting(call, tmp_path):
    with pytest.raises(NotFittedError):
        getattr(quick(), call)(tmp_path if call == "save" else ["one"])


def test_the_same_seed_predicts_the_same_and_another_seed_differs(pairs):
    def energies(seed: int) -> torch.Tensor:
        return quick(seed=seed).fit(*pairs).decode(pairs[0][:20]).decoding.energies

    first = energies(1)
    assert torch.equal(first, energies(1))
    assert not torch.equal(first, energies(2))


def test_fitting_twice_starts_afresh(pairs):
    predictor = quick()
    first = predictor.fit(*pairs).decode(pairs[0][:5]).decoding.energies
    assert torch.equal(predictor.fit(*pairs).decode(pairs[0][:5]).decoding.energies, first)


# -- fitting ------------------------------------------------------------------------------------------------------


def test_a_fit_into_a_run_is_the_same_and_is_not_done_again(pairs, tmp_path):
    plain = quick().fit(*pairs)
    for _ in range(2):
        kept = quick().fit(*pairs, run=tmp_path / "run")
        left, right = (each.decode(pairs[0][:9]).decoding.energies for each in (plain, kept))
        assert torch.equal(left, right)
    assert (tmp_path / "run" / "model").is_dir()
    with pytest.raises(DataError, match="the data, or their split, have changed"):
        quick().fit(pairs[0][1:], pairs[1][1:], run=tmp_path / "run")
    with pytest.raises(ModelError, match=r"the configuration has changed: seed: 0 → 1"):
        quick(seed=1).fit(*pairs, run=tmp_path / "run")


def test_a_run_is_not_taken_for_one_with_another_validation_set(pairs, tmp_path):
    quick().fit(*pairs, validation=20, run=tmp_path / "run")
    with pytest.raises(EleError, match="changed"):
        quick().fit(*pairs, validation=40, run=tmp_path / "run")


def test_inputs_and_outputs_must_stand_in_pairs(pairs):
    for x, y, message in [
        (pairs[0][:5], pairs[1][:4], "5 inputs but 4 outputs"),
        ([], [], "there are no pairs"),
        ("one", ["1"], "one text where a list is expected"),
    ]:
        with pytest.raises(DataError, match=message):
            quick().fit(x, y)
    with pytest.raises(DataError, match="validation: 2 inputs but 1 output"):
        quick().fit(*pairs, validation=(["one", "two"], ["1"]))
    with pytest.raises(DataError, match="the validation set is empty"):
        quick().fit(*pairs, validation=([], []))


@pytest.mark.parametrize(("validation", "candidates"), [(0.25, 90), (30, 90), (0, 119), (0.0001, 119)])
def test_a_share_or_a_number_is_held_out_for_validation(pairs, validation, candidates):
    assert len(quick().fit(*pairs, validation=validation).model_.candidates) == candidates


def test_pairs_of_their_own_validate_and_are_no_candidates(pairs):
    fitted = quick().fit(*pairs, validation=(["nine hundred"], ["900"]))
    assert len(fitted.model_.candidates) == 120
    assert "900" not in fitted.model_.space.unpack(fitted.model_.candidates.batch)


def test_validation_outputs_and_extra_outputs_widen_the_space(pairs):
    fitted = quick().fit(*pairs, validation=(["x"], ["1234567"]), extra_outputs=["abcdefgh"])
    space = fitted.model_.space
    assert space.config.length == 8
    assert set("abcdefgh") < set(space.config.alphabet)


def test_a_validation_input_longer_than_all_of_training_still_fits(pairs):
    longest = "three hundred and thirty-three thousand three hundred and seventy-seven and some more words"
    assert quick().fit(*pairs, validation=([longest], ["1"])).predict([longest])


def test_extra_outputs_are_pre_trained_on(pairs):
    surrogate = {**QUICK["surrogate"], "pretraining_steps": 3}
    without = quick(surrogate=surrogate).fit(*pairs)
    extra = np.array([str(number) for number in range(100)])
    fitted = quick(surrogate=surrogate).fit(*pairs, extra_outputs=extra)
    left, right = (each.model_.surrogate.state()["network.0.weight"] for each in (without, fitted))
    assert not torch.equal(left, right)
    assert len(fitted.model_.candidates) == len(without.model_.candidates)


def test_an_output_outside_a_given_space_is_named_with_its_place():
    output = {"name": "sequence", "alphabet": list("0123456789"), "length": 6}
    with pytest.raises(InvalidOutput, match=r"output 3: '7x' holds 'x'") as caught:
        quick(output=output).fit([*"abcd", "e"], ["1", "2", "3", "7x", "4"])
    assert caught.value.index == 3


def test_outputs_no_space_can_hold_are_a_data_error():
    with pytest.raises(DataError, match=r"no output space can be inferred.*alphabet"):
        quick().fit(["a", "b", "c"], ["", "", ""])


def test_an_input_that_cannot_be_used_is_named_with_its_place(predictor):
    with pytest.raises(InvalidInput, match="input 1: the text is empty"):
        predictor.predict(["one", ""])


def test_unknown_components_and_options_are_told_at_once(pairs):
    with pytest.raises(ConfigError) as caught:
        quick(regressor={"name": "neural", "backbone": "gruu"}, decoder={"name": "pgd", "step": 3}).fit(*pairs)
    assert "did you mean 'gru'" in str(caught.value)
    assert "decoder.step: unknown option; did you mean 'steps'" in str(caught.value)


def test_a_task_gives_its_settings_for_data_of_ones_own():
    predictor = StructuredPredictor.for_task("number-words", seed=5)
    assert predictor.output["name"] == "sequence"
    assert predictor.surrogate is predictor.regressor is predictor.decoder is None, "they are chosen for the data"
    assert predictor.seed == 5
    assert "alphabet" not in predictor.output, "labels and sizes are inferred from the data"
    replaced = StructuredPredictor.for_task("number-words", **QUICK)
    fitted = replaced.set_params(decoder="candidates").fit(["a", "b", "c", "d"] * 3, ["x", "yy", "z" * 9, "w"] * 3)
    assert fitted.model_.space.config.length == 9


# -- predicting ---------------------------------------------------------------------------------------------------


def test_more_structures_than_memory_holds_are_refused(predictor, pairs):
    with pytest.raises(ConfigError, match="top_k: should be at most 10,000 here, not 1,000,000,000"):
        predictor.predict(pairs[0][:2], top_k=10**9)


def test_predictions_are_objects_and_top_k_lists_of_them(predictor, pairs):
    single = predictor.predict(pairs[0][:5])
    several = predictor.predict(pairs[0][:5], top_k=3)
    assert [len(best) for best in several] == [3] * 5
    assert [best[0] for best in several] == single
    assert all(len(set(best)) == 3 for best in several)
    assert predictor.predict(pairs[0][:1], top_k=1) == [single[:1]]
    assert predictor.predict([]) == []


@pytest.mark.parametrize("top_k", [0, -1])
def test_asking_for_no_structures_is_refused(predictor, top_k):
    with pytest.raises(ConfigError, match="at least 1"):
        predictor.predict(["one"], top_k=top_k)


def test_one_text_is_not_taken_for_a_list_of_its_characters(predictor):
    with pytest.raises(DataError, match="one text where a list is expected"):
        predictor.predict("forty-two")


def test_decoding_gives_energies_in_order_beside_the_objects(predictor, pairs):
    found = predictor.decode(pairs[0][:4], top_k=2, decoder={"name": "pgd", "steps": 3, "trace": 1})
    assert len(found) == len(list(found)) == 4
    assert found[2].input == pairs[0][2]
    assert found[2].best == found[2].objects[0]
    assert found[-1].energies == sorted(found[-1].energies)
    assert found.decoding.trace.steps == [0, 1, 2, 3]


def test_given_candidates_are_chosen_from_for_all_inputs(predictor, pairs):
    assert set(predictor.predict(pairs[0][:20], candidates=["17", "4321"])) <= {"17", "4321"}


def test_each_input_may_have_candidates_of_its_own(predictor):
    words = ["one", "two", "three"]
    found = predictor.decode(words, candidates=[["1", "9"], ["22"], ["3", "33", "333"]], top_k=3)
    assert [set(each.objects) for each in found] == [{"1", "9"}, {"22"}, {"3", "33", "333"}]
    assert [len(each.energies) for each in found] == [2, 1, 3]


def test_candidates_of_their_own_stay_with_their_inputs_where_many_are_decoded_in_blocks(predictor, monkeypatch):
    words, own = ["one", "two", "three", "four", "five"], [["1", "9"], ["22"], ["3", "33"], ["4"], ["5", "55"]]
    whole = predictor.decode(words, candidates=own, top_k=2)
    monkeypatch.setattr("ele_core.model.model.BLOCK", 2)
    blocks = predictor.decode(words, candidates=own, top_k=2)
    assert [each.objects for each in blocks] == [each.objects for each in whole]
    assert [set(each.objects) for each in blocks] == [set(each) for each in own]


def test_an_input_without_candidates_is_named_by_its_place_among_all(predictor, monkeypatch):
    monkeypatch.setattr("ele_core.model.model.BLOCK", 2)
    with pytest.raises(DataError, match="input 3 has none"):
        predictor.predict(["one"] * 5, candidates=[["1"], ["2"], ["3"], [], ["5"]])


@pytest.mark.parametrize(
    ("candidates", "message"),
    [([["1"], []], "input 1 has none"), ([["1"]], "input 1 has none"), ([["1"], ["2"], ["3"]], "3 sets for 2 inputs")],
)
def test_candidates_that_do_not_match_the_inputs_are_refused(predictor, candidates, message):
    with pytest.raises(DataError, match=message):
        predictor.predict(["one", "two"], candidates=candidates)


def test_a_candidate_outside_the_space_is_named(predictor):
    with pytest.raises(InvalidOutput, match="output 1: 'x' holds 'x'"):
        predictor.predict(["one"], candidates=["1", "x"])


def test_a_decoder_without_a_name_is_refused(predictor):
    with pytest.raises(ConfigError, match="a component needs a name"):
        predictor.predict(["one"], decoder={"steps": 3})


# -- scoring ------------------------------------------------------------------------------------------------------


def test_the_score_is_the_primary_metric_and_greater_is_better(predictor, pairs, monkeypatch):
    known = predictor.predict(pairs[0][:10])
    assert predictor.score(pairs[0][:10], known) == 1.0
    assert predictor.score(pairs[0][:10], ["999999"] * 10) == 0.0
    distance = Metric("far", "min", lambda predicted, true: (predicted.tokens != true.tokens).sum(dim=1).float())
    monkeypatch.setattr(SequenceSpace, "metrics", property(lambda _: (distance,)))
    assert predictor.score(pairs[0][:10], known) == 0.0
    assert predictor.score(pairs[0][:10], ["999999"] * 10) < -1


@pytest.mark.parametrize("call", ["score", "evaluate"])
def test_scoring_needs_pairs(predictor, pairs, call):
    for x, y, sizes in [
        (pairs[0][:5], pairs[1][:1], "5 inputs but 1 output"),
        (pairs[0][:1], pairs[1][:5], "1 input but 5 outputs"),
    ]:
        with pytest.raises(DataError, match=sizes):
            getattr(predictor, call)(x, y)
    with pytest.raises(DataError, match="nothing to evaluate"):
        getattr(predictor, call)([], [])


def test_at_a_prompt_fit_shows_its_progress(pairs, capsys, monkeypatch):
    quick().fit(*pairs)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    quick().fit(*pairs)
    assert "recipe: " in capsys.readouterr().err
    quick(verbose=False).fit(*pairs)
    assert capsys.readouterr().err == ""
