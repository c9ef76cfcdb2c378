"""Inputs and outputs as users have them: what is taken by position, and what is refused with its position."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from quick import QUICK, quick
from recording import Recorder
from scipy import sparse

from ele_core import ConfigError, DataError, InvalidOutput
from ele_core.components.regressors.neural import NeuralRegressor
from ele_core.errors import InvalidInput
from ele_core.predictor.values import as_list

pd = pytest.importorskip("pandas")

TEXTS = ["one", "two", "three", "four"]
MATRIX = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
VECTORS = {"input": "vector", "regressor": {**QUICK["regressor"], "backbone": "mlp"}}


class Frame:
    """A table of one column with polars' methods and without pandas' index."""

    columns = ("text",)
    shape = (4, 1)

    def __getitem__(self, name):
        assert name == "text"
        return self

    def to_list(self):
        return TEXTS

    def to_numpy(self):
        return np.array(TEXTS)[:, None]


@pytest.mark.parametrize("role", ["input", "output"])
@pytest.mark.parametrize(
    "values",
    [
        TEXTS,
        tuple(TEXTS),
        dict.fromkeys(TEXTS).keys(),
        np.array(TEXTS),
        np.array(TEXTS, dtype=object),
        np.array(TEXTS, dtype=object)[:, None],
        pd.Series(TEXTS, index=[3, 1, 0, 2]),
        pd.Series(TEXTS, dtype="string"),
        pd.Series(TEXTS, dtype="category"),
        pd.Index(TEXTS),
        pd.DataFrame({"text": TEXTS}, index=[3, 1, 0, 2]),
        Frame(),
    ],
    ids=lambda values: type(values).__name__,
)
def test_texts_are_taken_in_the_order_of_their_positions(values, role):
    assert as_list(values, role, "fit") == TEXTS


def test_an_iterator_is_read_once():
    assert as_list(iter(TEXTS), "input", "fit") == TEXTS


@pytest.mark.parametrize(
    "values",
    [
        MATRIX,
        np.matrix(MATRIX),
        pd.DataFrame(MATRIX, columns=["a", "b"], index=[3, 1, 0, 2]),
        sparse.csr_matrix(MATRIX),
        sparse.coo_array(MATRIX),
        torch.tensor(MATRIX, requires_grad=True),
        torch.tensor(MATRIX).bfloat16(),
        torch.tensor(MATRIX).to_sparse(),
    ],
    ids=lambda values: type(values).__name__,
)
def test_a_row_of_a_numeric_matrix_is_one_vector(values):
    rows = as_list(values, "input", "fit")
    assert [list(row) for row in rows] == MATRIX.tolist()


def test_columns_of_outputs_are_one_output_each():
    for column in (np.arange(4)[:, None], np.arange(4), torch.arange(4), pd.DataFrame({"a": range(4)})):
        assert as_list(column, "output", "fit") == [0, 1, 2, 3]


@pytest.mark.parametrize("missing", [None, float("nan"), np.float32("nan"), pd.NA, pd.NaT])
def test_a_missing_value_is_refused_with_its_position(missing):
    with pytest.raises(InvalidInput, match=r"input 2: a missing value \(.*Leave out such pairs"):
        as_list(["a", "b", missing], "input", "fit")
    with pytest.raises(InvalidOutput, match="output 1: a missing value") as caught:
        as_list(pd.Series(["a", missing, "b"], dtype=object, index=[7, 8, 9]), "output", "fit")
    assert caught.value.index == 1


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("one", "fit: one text where a list is expected"),
        (b"one", "fit: one text where a list is expected"),
        ({"a": 1}, "fit, column 'a': got int, not a list of inputs"),
        ({"a": "xy"}, "fit, column 'a': one text where a list is expected"),
        ({"a": ["x", "y"], "b": [1]}, "fit: columns of different lengths: 'a' has 2, 'b' has 1"),
        ({"a"}, "fit: got set, not a list of inputs"),
        (None, "fit: got NoneType, not a list of inputs"),
        (3, "fit: got int, not a list of inputs"),
        (np.array(3), "fit: one number where a list is expected"),
        (torch.tensor(3), "fit: one number where a list is expected"),
        (pd.DataFrame(), "fit: a table of 0 columns; give one column of inputs"),
    ],
)
def test_what_is_no_list_of_inputs_is_refused_in_one_sentence(values, message):
    with pytest.raises(DataError, match=message):
        as_list(values, "input", "fit")


def test_a_row_of_columns_of_different_kinds_is_a_mapping():
    rows = [{"a": "x", "b": 1}, {"a": "y", "b": 2}]
    for columns in (pd.DataFrame(rows), {"a": pd.Series(["x", "y"]), "b": np.array([1, 2])}, rows):
        assert as_list(columns, "input", "fit") == rows
    with pytest.raises(InvalidInput, match=r"input 1: column 'b': a missing value \(nan\)"):
        as_list(pd.DataFrame({"a": ["x", "y"], "b": [1, None]}), "input", "fit")


def test_a_table_of_several_columns_is_no_list_of_outputs():
    with pytest.raises(DataError, match=r"a table of 5 columns \(0, 1, 2, 3, …\); give one column of outputs.*y\[0\]"):
        as_list(pd.DataFrame(np.zeros((2, 5))), "output", "fit")


# -- in the estimator ---------------------------------------------------------------------------------------------


def test_series_with_shuffled_indices_are_paired_by_position(pairs):
    count = len(pairs[0])
    order = np.random.default_rng(0).permutation(count)
    series = [pd.Series(values, index=index) for values, index in zip(pairs, (order, order[::-1]), strict=True)]
    plain, fitted = quick().fit(*pairs), quick().fit(*series)
    asked = series[0].sort_index()
    assert fitted.predict(asked) == plain.predict(list(asked))
    assert fitted.decode(asked)[0].input == asked.iloc[0]
    assert fitted.score(*series) == plain.score(*pairs)


@pytest.mark.parametrize("make", [np.asarray, pd.DataFrame, sparse.csr_array, torch.tensor])
def test_matrices_of_every_kind_train_the_same_model(pairs, make):
    matrix = np.random.default_rng(0).normal(size=(40, 3))
    plain = quick(**VECTORS).fit(matrix.tolist(), pairs[1][:40])
    fitted = quick(**VECTORS).fit(make(matrix), pairs[1][:40])
    for asked in (make(matrix[:9]), matrix[:9]):
        assert torch.equal(fitted.decode(asked).decoding.energies, plain.decode(matrix[:9]).decoding.energies)


def test_one_number_is_a_vector_of_one(pairs):
    numbers = np.arange(40.0)
    left, right = (quick(**VECTORS).fit(values, pairs[1][:40]) for values in (numbers, numbers[:, None]))
    assert left.predict(numbers) == right.predict(pd.DataFrame({"x": numbers}))


def test_missing_numbers_in_a_matrix_are_refused_with_their_row(pairs):
    matrix = np.ones((40, 3))
    matrix[17, 1] = np.nan
    with pytest.raises(InvalidInput, match="input 17: the vector holds NaN"):
        quick(**VECTORS).fit(pd.DataFrame(matrix), pairs[1][:40])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (3, r"output 5: got int; the output space 'sequence' takes a text or a list of tokens"),
        ({"a": 1}, "output 5: expected a text or a list of tokens, not dict"),
        ([1, 2], "output 5: got list; the output space 'sequence' takes a text or a list of tokens"),
    ],
)
def test_an_output_of_another_type_is_refused_with_what_the_space_takes(predictor, pairs, wrong, message):
    outputs = [*pairs[1][:5], wrong, *pairs[1][6:]]
    with pytest.raises(InvalidOutput, match=message):
        quick().fit(pairs[0], outputs)
    with pytest.raises(
        InvalidOutput, match=f"output 5: expected a text or a list of tokens, not {type(wrong).__name__}"
    ):
        predictor.evaluate(pairs[0], outputs)


def test_integers_of_an_array_are_refused_as_outputs(pairs):
    with pytest.raises(InvalidOutput, match="output 0: got int; the output space 'sequence'"):
        quick().fit(pairs[0], np.arange(len(pairs[0])))


@pytest.mark.parametrize("name", ["padded-graph", "molecule"])
def test_every_space_says_what_it_takes(pairs, name):
    with pytest.raises(InvalidOutput, match=r"output 0: .*(networkx.Graph|SMILES)"):
        quick(output=name).fit(pairs[0], [3] * len(pairs[0]))


def test_an_output_that_cannot_be_read_while_the_space_is_inferred_has_its_position(pairs):
    outputs = ["CC"] * len(pairs[0])
    outputs[9] = "C(("
    with pytest.raises(InvalidOutput, match=r"output 9: 'C\(\('") as caught:
        quick(output="molecule").fit(pairs[0], outputs)
    assert caught.value.index == 9


@pytest.mark.parametrize("wrong", [3, ["AH", "B"], ("a",), {"a": 1}, np.zeros(2)])
def test_an_input_of_another_type_is_refused_with_its_position_among_all(predictor, pairs, wrong):
    inputs = [*pairs[0][:33], wrong, *pairs[0][34:]]
    message = f"input 33: got {type(wrong).__name__}, not a text"
    with pytest.raises(InvalidInput, match=message):
        quick().fit(inputs, pairs[1])
    with pytest.raises(InvalidInput, match=message):
        predictor.predict(inputs)


def test_validation_pairs_and_extra_outputs_are_named_as_such(pairs):
    with pytest.raises(InvalidOutput, match=r"^validation output 1: got int"):
        quick().fit(*pairs, validation=(["one", "two"], ["1", 2]))
    with pytest.raises(InvalidInput, match=r"^validation input 1: got int"):
        quick().fit(*pairs, validation=(["one", 2], ["1", "2"]))
    with pytest.raises(InvalidOutput, match=r"^extra output 2: got int"):
        quick().fit(*pairs, extra_outputs=["1", "2", 3])
    output = {"name": "sequence", "alphabet": list("0123456789"), "length": 6}
    with pytest.raises(InvalidOutput, match=r"^extra output 1: 'x' holds 'x'"):
        quick(output=output).fit(*pairs, extra_outputs=["1", "x"])


@pytest.mark.parametrize("kind", [list, tuple])
def test_lists_of_tokens_are_outputs_and_predictions_are_their_texts(pairs, kind):
    tokens = [kind(["AH", "B", "K"][: 1 + row % 3]) for row in range(len(pairs[0]))]
    fitted = quick().fit(pairs[0], tokens)
    assert fitted.model_.space.config.alphabet == ("AH", "B", "K")
    assert set(fitted.predict(pairs[0])) <= {"AH", "AH B", "AH B K"}
    assert fitted.score(pairs[0], tokens) == fitted.score(pairs[0], [" ".join(each) for each in tokens])


def test_candidates_may_be_a_series(predictor):
    assert predictor.predict(["one"], candidates=pd.Series(["17"], index=[3])) == ["17"]


# -- out of the estimator -----------------------------------------------------------------------------------------


def test_embeddings_of_outputs_are_an_array_whose_distances_are_the_energies(predictor, pairs):
    embeddings = predictor.embed(pd.Series(pairs[1][:7]))
    assert embeddings.dtype == np.float32
    assert embeddings.shape == (7, 8)
    assert np.allclose(np.linalg.norm(embeddings, axis=1), 1, atol=1e-5)
    found = predictor.decode(pairs[0][:1], candidates=pairs[1][:7], top_k=7)[0]
    query = predictor.model_.queries(pairs[0][:1]).numpy()
    energies = dict(zip(pairs[1][:7], ((embeddings - query) ** 2).sum(axis=1), strict=True))
    assert np.allclose([energies[text] for text in found.objects], found.energies, atol=1e-5)
    assert predictor.embed([]).shape == (0, 8)
    with pytest.raises(InvalidOutput, match="output 1: expected a text"):
        predictor.embed(["1", 2])


def test_predictions_become_a_table(predictor, pairs):
    found = predictor.decode(pairs[0][:3], top_k=2)
    table = found.to_dataframe()
    assert list(table.columns) == ["input", "rank", "prediction", "energy", "status"]
    assert list(table["input"]) == [text for text in pairs[0][:3] for _ in range(2)]
    assert list(table["rank"]) == [1, 2] * 3
    assert list(table["prediction"]) == [obj for each in found for obj in each.objects]
    assert list(table["energy"]) == [energy for each in found for energy in each.energies]
    assert set(table["status"]) == {"ok"}
    pd.testing.assert_frame_equal(predictor.to_dataframe(pairs[0][:3], top_k=2), table)
    assert list(predictor.to_dataframe([]).columns) == list(table.columns)


def test_an_input_that_was_refused_has_a_row_without_a_prediction(predictor):
    from ele_core.model.predict import predict_texts
    from ele_core.runtime.context import Context

    table = predict_texts(predictor.model_, ["one", "", "two"], context=Context()).to_dataframe()
    assert list(table["prediction"].isna()) == list(table["energy"].isna()) == [False, True, False]
    assert "empty" in table["status"][1]


def test_a_table_without_pandas_says_how_to_install_it(predictor, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ConfigError, match=r"this needs the package pandas.*pip install pandas"):
        predictor.to_dataframe(["one"])


@pytest.mark.parametrize("seed", [-1, 1 << 63, 10**30])
def test_a_seed_that_is_none_is_refused(seed):
    with pytest.raises(ConfigError, match="seed: should be"):
        quick(seed=seed).fit(TEXTS, ["1", "2", "3", "4"])


def test_a_regressor_that_is_far_worse_than_the_mean_is_told(monkeypatch):
    original = NeuralRegressor.predict
    monkeypatch.setattr(NeuralRegressor, "predict", lambda self, batch: 1e3 * original(self, batch))
    recorder = Recorder()
    outputs = ["1", "2", "3", "4"]
    quick(callbacks=[recorder]).fit(TEXTS * 5, outputs * 5, validation=(TEXTS, outputs))
    assert any(" times as far from the truths as the mean of these is: the" in told for told in recorder.messages)
