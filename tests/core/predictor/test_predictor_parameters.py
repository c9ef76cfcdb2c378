"""Parameters of `StructuredPredictor` by scikit-learn's conventions, with and without scikit-learn."""

from __future__ import annotations

import copy
import pickle

import pytest
from quick import QUICK, quick
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

from ele_core import ConfigError, EleError, StructuredPredictor


def test_parameters_are_kept_as_given_and_can_be_set():
    predictor = quick(seed=3)
    parameters = predictor.get_params()
    assert parameters["surrogate"] is QUICK["surrogate"]
    assert parameters["seed"] == 3
    assert predictor.set_params(seed=4, decoder="pgd").get_params()["decoder"] == "pgd"
    with pytest.raises(ValueError, match="Invalid parameter 'epochs'"):
        predictor.set_params(epochs=3)


def test_the_options_of_components_are_parameters_with_their_values():
    deep = quick(decoder={"name": "pgd", "steps": 7}).get_params()
    assert deep["regressor__backbone__width"] == 4, "as given"
    assert deep["regressor__training__batch_size"] == 128, "the default"
    assert deep["decoder__name"] == "pgd"
    assert deep["decoder__steps"] == 7
    assert deep["surrogate__mining"] is None
    assert set(quick().get_params(deep=False)) == {name for name in deep if "__" not in name}


def test_what_is_inferred_from_data_has_no_value_but_can_be_set():
    predictor = quick(output={"name": "sequence", "edit_rate": 0.2})
    given = {name: value for name, value in predictor.get_params().items() if name.startswith("output__")}
    assert given == {"output__name": "sequence", "output__edit_rate": 0.2}
    assert predictor.set_params(output__separator=" ").output["separator"] == " "


def test_setting_all_parameters_to_their_values_changes_nothing():
    predictor = quick(decoder="pgd")
    before = predictor._config()
    assert predictor.set_params(**predictor.get_params())._config() == before


def test_a_nested_option_is_set_and_the_given_mappings_stay_as_they_are():
    before = copy.deepcopy(QUICK)
    predictor = quick().set_params(regressor__backbone__width=8, surrogate__mining__group=16, decoder__name="pgd")
    assert predictor.regressor["backbone"] == {**QUICK["regressor"]["backbone"], "width": 8}
    assert predictor.surrogate["mining"] == {"group": 16}
    assert predictor.decoder == {"name": "pgd"}
    assert before == QUICK


@pytest.mark.parametrize("given", [{"regressor": "neural"}, {"recipe": "paper"}])
def test_an_option_of_a_component_that_is_only_named_or_not_chosen_can_be_set(given):
    predictor = StructuredPredictor("sequence", **given)
    assert ("regressor__backbone__width" in predictor.get_params()) == ("regressor" in given)
    predictor.set_params(regressor__backbone__width=8)
    named = {"name": "neural"} if "regressor" in given else {}
    assert predictor.regressor == {**named, "backbone": {"width": 8}}
    assert predictor.get_params()["regressor__backbone__width"] == 8
    assert predictor.get_params()["regressor__backbone__name"] == "gru"


def test_the_option_of_a_component_inside_that_of_the_recipe_is_refused_with_its_name():
    predictor = StructuredPredictor("sequence")
    with pytest.raises(ConfigError, match="did you mean 'regressor__writer__backbone__width'"):
        predictor.set_params(regressor__backbone__width=8)
    predictor.set_params(regressor__writer__backbone__width=8)
    assert predictor.regressor == {"writer": {"backbone": {"width": 8}}}


@pytest.mark.parametrize("named", ["regressor__backbone", "regressor__backbone__name"])
def test_another_component_drops_the_options_of_the_present_one(named):
    changes = {"regressor__backbone__heads": 2, named: "transformer", "regressor__backbone__width": 8}
    predictor = quick().set_params(**changes)
    assert predictor.regressor["backbone"] == {"name": "transformer", "width": 8, "heads": 2}


@pytest.mark.parametrize(
    ("wrong", "close"),
    [
        ("regressor__backbone__widht", "'regressor__backbone__width'"),
        ("regressor__epochs", "'regressor__training__epochs'"),
        ("surrogat__dim", "'surrogate__dim'"),
        ("sed", "'seed'"),
        ("zzzz", None),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_one_and_changes_nothing(wrong, close):
    predictor = quick()
    with pytest.raises(ConfigError, match=f"Invalid parameter '{wrong}' of StructuredPredictor") as caught:
        predictor.set_params(**{wrong: 1, "seed": 9})
    assert isinstance(caught.value, ValueError)
    assert str(caught.value).endswith(f"did you mean {close}?" if close else "get_params() returns all names.")
    assert predictor.seed == 0


def test_parameters_of_a_component_that_is_not_installed_are_those_given():
    deep = quick(regressor={"name": "absent", "depth": 3}).get_params()
    assert deep["regressor__depth"] == 3
    with pytest.raises(ValueError, match="did you mean 'regressor__depth'"):
        quick(regressor={"name": "absent", "depth": 3}).set_params(regressor__dept=2)


def test_a_grid_of_nested_options_is_searched_also_inside_a_pipeline(pairs):
    shout = FunctionTransformer(lambda texts: [text.upper() for text in texts])
    pipeline = Pipeline([("shout", shout), ("predict", quick())])
    for estimator, name in [(quick(), "regressor__backbone__width"), (pipeline, "predict__regressor__backbone__width")]:
        search = GridSearchCV(estimator, {name: [2, 3]}, cv=2, error_score="raise").fit(*pairs)
        fitted = search.best_estimator_ if estimator is not pipeline else search.best_estimator_["predict"]
        assert fitted.model_.regressor.config.backbone.options["width"] == search.best_params_[name]
        assert len(search.cv_results_["params"]) == 2


def test_a_clone_of_a_changed_predictor_is_changed_too():
    changed = quick().set_params(regressor__backbone__width=8)
    assert clone(changed).get_params() == changed.get_params()


def test_scikit_learn_knows_whether_it_is_fitted(predictor):
    check_is_fitted(predictor)
    with pytest.raises(ValueError, match="not fitted"):
        check_is_fitted(quick())


def test_it_can_be_pickled_before_and_after_fitting(predictor, pairs):
    assert pickle.loads(pickle.dumps(quick())).get_params() == quick().get_params()
    assert pickle.loads(pickle.dumps(predictor)).predict(pairs[0][:3]) == predictor.predict(pairs[0][:3])


def test_it_is_shown_with_what_is_not_a_default():
    assert repr(StructuredPredictor("sequence")) == "StructuredPredictor(output='sequence')"
    assert repr(StructuredPredictor("sequence", seed=3)) == "StructuredPredictor(output='sequence', seed=3)"
    assert len(repr(quick(output={"name": "sequence", "alphabet": [str(i) for i in range(9999)]}))) < 500


WITHOUT = """
import sys
sys.modules["sklearn"] = None  # importing it fails, as if it were not installed
from ele_core import StructuredPredictor
from ele_core.errors import ModelError
predictor = StructuredPredictor("sequence", recipe="paper").set_params(
    surrogate__training__epochs=1, regressor__training__epochs=1, regressor__backbone__width=4, surrogate__dim=4
)
try:
    predictor.predict(["a"])
except ModelError as error:
    print(error)
predictor.fit(list("abcdefghij"), list("0123456789"))
predictor.save("model")
print(StructuredPredictor.load("model").get_params()["regressor__backbone__width"], len(predictor.predict(["a", "b"])))
"""


def test_it_works_without_scikit_learn(run_python):
    told, values = run_python("-W", "error", "-c", WITHOUT).stdout.splitlines()
    assert "not fitted yet: call fit, or load a saved one" in told
    assert values == "4 2"


def test_not_being_fitted_is_an_error_of_both(tmp_path):
    from sklearn.exceptions import NotFittedError

    for kind in (NotFittedError, EleError):
        with pytest.raises(kind, match="not fitted yet"):
            quick().save(tmp_path)
