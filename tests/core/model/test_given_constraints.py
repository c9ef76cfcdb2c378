"""Constraints as users give them: mappings, objects, columns and parts of the truth; mistakes are told at once."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from ele_core.errors import ConfigError, DataError
from ele_core.files.columns import Table
from ele_core.model.constraints import from_options, from_truths, read_constraints
from ele_core.model.predict import Request, predict_texts
from ele_core.model.results import NOT_SATISFIED
from ele_core.runtime.context import Context
from ele_core.runtime.work import Snapshot, Work
from ele_core.types import Decoding
from ele_sequences.space import SequenceConstraint

INPUTS = ["one", "twenty", "thirty-one"]


@pytest.fixture
def space(predictor) -> Any:
    return predictor.model_.space


def test_one_constraint_is_for_all_inputs_and_a_list_has_one_for_each(predictor):
    assert all(len(found) == 3 for found in predictor.predict(INPUTS, constraints={"length": 3}))
    found = predictor.predict(INPUTS, constraints=[{"length": 2}, None, SequenceConstraint(prefix="4")])
    assert len(found[0]) == 2
    assert found[2].startswith("4")
    assert found[1] == predictor.predict(INPUTS)[1]


def test_values_that_are_none_are_no_constraint(predictor, space):
    assert read_constraints(space, [{"length": None}, {}], 2) == [None, None]
    assert predictor.predict(INPUTS, constraints={"length": None}) == predictor.predict(INPUTS)


@pytest.mark.parametrize("decoder", ["candidates", "search", "pgd"])
def test_an_input_without_a_structure_keeps_its_row(predictor, decoder):
    found = predictor.decode(INPUTS, decoder=decoder, constraints=[{"prefix": "x"}, None, {"length": 2}], top_k=2)
    assert [each.status for each in found] == [NOT_SATISFIED, "ok", "ok"]
    assert found[0].best is None
    rows = found.rows()
    assert rows[0] == {"input": "one", "prediction": "", "energy": "", "status": NOT_SATISFIED}
    assert predictor.predict(INPUTS[:1], decoder=decoder, constraints={"prefix": "x"}) == [None]
    assert NOT_SATISFIED in str(found)
    assert NOT_SATISFIED in found._repr_html_()
    table = found.to_dataframe()
    assert table["status"][0] == NOT_SATISFIED
    assert table["prediction"].isna()[0]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"lenght": 3}, "there is no constraint 'lenght': these outputs have length, min_length"),
        ({"length": -1}, "length: should be greater than or equal to 0"),
        ({"length": "long"}, "length: should be a valid integer"),
        ([{"length": 1}], "1 constraint for 3 inputs"),
        ([None, None, {"length": -1}], r"constraints\[2\]: length"),
        (["a", None, None], "expected a mapping or a SequenceConstraint, not str"),
    ],
)
def test_a_wrong_constraint_is_told_before_anything_is_decoded(predictor, monkeypatch, given, reason):
    monkeypatch.setattr(type(predictor.model_), "decode", lambda *_, **__: pytest.fail("decoded"))
    with pytest.raises((ConfigError, DataError), match=reason):
        predictor.predict(INPUTS, constraints=given)


def test_a_space_without_constraints_says_so(predictor, space, monkeypatch):
    monkeypatch.setattr(type(space), "Rules", None)
    with pytest.raises(ConfigError, match="these outputs have no constraints"):
        predictor.predict(INPUTS, constraints={"length": 3})
    with pytest.raises(ConfigError, match="these outputs have no constraints"):
        predictor.evaluate(INPUTS, ["1", "20", "31"], given=["length"])


def test_options_take_values_and_columns(space):
    table = Table("a.csv", ["x", "n", "p"], {0: INPUTS, 1: ["3", "", "2"], 2: ["1", " ", ""]}, [2, 3, 4])
    found = from_options(space, ["length=@n", "prefix=@p"], table)
    assert found == [SequenceConstraint(length=3, prefix="1"), None, SequenceConstraint(length=2)]
    assert from_options(space, ["length=2"], table) == [SequenceConstraint(length=2)] * 3
    assert from_options(space, [], table) is None


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("length", "'length' is not a constraint"),
        ("length=", "'length=' is not a constraint"),
        ("size=3", "there is no constraint 'size'"),
        ("length=x", "length: should be a valid integer"),
        ("length=@m", "no column is called 'm'"),
        ("length=@p", "a.csv, line 4: length"),
    ],
)
def test_wrong_options_are_refused(space, option, reason):
    table = Table("a.csv", ["x", "n", "p"], {0: INPUTS, 1: ["3", "", "2"], 2: ["", "", "x"]}, [2, 3, 4])
    with pytest.raises((ConfigError, DataError), match=reason):
        from_options(space, [option], table)


def test_columns_need_names(space):
    with pytest.raises(DataError, match="no named columns"):
        from_options(space, ["length=@n"], Table("a.txt", [], {0: INPUTS}))


def test_texts_that_cannot_be_read_do_not_shift_the_constraints(predictor):
    given = [SequenceConstraint(length=number) for number in (1, 2, 3)]
    found = predict_texts(predictor.model_, ["one", "", "two"], Request(constraints=given), context=Context())
    assert len(found[0].best) == 1
    assert found[1].status == "the text is empty."
    assert len(found[2].best) == 3


def test_evaluation_with_a_part_of_the_truth_given(predictor, pairs):
    inputs, outputs = pairs[0][:30], pairs[1][:30]
    free, given = (predictor.evaluate(inputs, outputs, given=names) for names in ((), ("length",)))
    lengths = [len(text) for text in predictor.model_.space.unpack(given.decoding.best)]
    assert lengths == [len(text) for text in outputs]
    assert given.metrics["answered"] == 1
    assert "answered" not in free.metrics
    assert given.given == ("length",)


@pytest.mark.parametrize(
    ("names", "reason"), [(("weight",), "there is no constraint 'weight'"), (("prefix",), "prefix: cannot be computed")]
)
def test_a_part_of_the_truth_that_cannot_be_given_is_refused(predictor, pairs, names, reason):
    with pytest.raises(ConfigError, match=reason):
        predictor.evaluate(pairs[0][:3], pairs[1][:3], given=names)


def test_nothing_given_is_no_constraint(space):
    assert from_truths(space, space.pack(["1"]), []) is None


def test_a_decoder_that_ignores_constraints_is_refused(predictor, monkeypatch):
    from ele_core.components.decoders.candidates import CandidatesDecoder

    decode = CandidatesDecoder.decode

    def ignoring(self: Any, queries: Any, problem: Any, **options: Any) -> Decoding:
        return decode(self, queries, dataclasses.replace(problem, constraints=None), **options)

    monkeypatch.setattr(CandidatesDecoder, "decode", ignoring)
    with pytest.raises(ConfigError, match="'candidates' ignores constraints"):
        predictor.predict(INPUTS, constraints={"length": 1})


def test_work_under_other_constraints_is_not_resumed(predictor):
    class Kept(Work):
        def __init__(self) -> None:
            self.states: dict[str, Snapshot] = {}

        def saved(self, name: str) -> Snapshot | None:
            return self.states.get(name)

        def step(self, name: str, snapshot: Any) -> None:
            self.states[name] = snapshot()

    model, context = predictor.model_, dataclasses.replace(Context(), work=Kept())
    queries = model.queries(INPUTS)
    lengths = []
    for length in (2, 3, 2):
        found = model.decode(queries, constraints=[SequenceConstraint(length=length)] * 3, context=context)
        lengths.append((found.structures.tokens != 0).sum(dim=1).unique().tolist())
    assert lengths == [[2], [3], [2]]
    assert len(context.work.states) == 2  # type: ignore[attr-defined]
    assert torch.equal(
        model.decode(queries, context=context).energies, model.decode(queries, context=Context()).energies
    )
