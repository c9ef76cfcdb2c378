"""`Predictions`: what is unpacked, and that numbers stay numbers until a table is written."""

import dataclasses
import json
import re

import numpy as np
import pytest

from ele_core import Context
from ele_core.data import objects
from ele_core.files.columns import Table
from ele_core.model import predict as predicting
from ele_core.model.predict import Request, predict, predict_texts
from ele_core.model.results import NOT_FINITE, rounded
from ele_core.model.tables import PredictionTable, contents


@pytest.fixture
def unpacked(predictor, monkeypatch):
    """The number of structures in each call of `unpack`."""
    counts, original = [], predictor.model_.space.unpack
    monkeypatch.setattr(predictor.model_.space, "unpack", lambda batch: counts.append(len(batch)) or original(batch))
    return counts


def test_one_prediction_unpacks_one_structure(predictor, pairs, unpacked):
    found = predictor.decode(pairs[0][:50])
    assert unpacked == []
    assert found[7].best == found[-43].best
    assert unpacked == [1, 1]
    assert [each.best for each in found[3:6]] == [found[place].best for place in (3, 4, 5)]
    assert unpacked[2:] == [3, 1, 1, 1]
    with pytest.raises(IndexError):
        found[50]


def test_only_the_structures_asked_for_are_unpacked(predictor, pairs, unpacked):
    found = predictor.decode(pairs[0][:20], top_k=3)
    assert len(found[4].objects) == 3
    assert unpacked == [3]


def test_predictions_are_read_in_blocks(predictor, pairs, unpacked, monkeypatch):
    from ele_core.model import results

    found = predictor.decode(pairs[0][:20])
    one_by_one = [found[place] for place in range(20)]
    unpacked.clear()
    monkeypatch.setattr(results, "UNPACKED_AT_ONCE", 8)
    assert list(found) == one_by_one
    assert unpacked == [8, 8, 4]


def test_inputs_that_cannot_be_used_have_no_row_of_the_decoding(predictor, monkeypatch):
    texts = ["one", "", "two", "", "three"]
    whole = predict_texts(predictor.model_, texts, context=Context())
    assert [whole[place].status for place in (1, 3)] == ["the text is empty."] * 2
    assert [whole[place].best for place in (0, 2, 4)] == predictor.predict(["one", "two", "three"])
    for module in (objects, predicting):
        monkeypatch.setattr(module, "CHUNK", 2)
    chunked = predict_texts(predictor.model_, texts, context=Context())
    assert [(each.best, each.status) for each in chunked] == [(each.best, each.status) for each in whole]
    assert [each.best for each in predict(predictor.model_, ["one", "two", "three"], Request(), Context())] == [
        whole[place].best for place in (0, 2, 4)
    ]


def test_numbers_are_numbers_until_a_table_is_written(predictor):
    found = predict_texts(predictor.model_, ["one", "", "two"], context=Context())
    cells = [row for _, row in found.numbered_rows()]
    assert [type(row["energy"]) for row in cells] == [float, type(None), float]
    assert [row["energy"] for row in found.rows()] == [f"{cells[0]['energy']:.6g}", "", f"{cells[2]['energy']:.6g}"]
    table = PredictionTable(Table("x.csv", ["name"], {0: ["one", "", "two"]}), [0])
    rows, columns = table.rows(found, rounded, skip=False), [*table.kept, *table.names().values()]
    lines = contents(rows, columns, "x.jsonl", as_json=False).decode().splitlines()
    assert [json.loads(line)["energy"] for line in lines] == [
        float(f"{cells[0]['energy']:.6g}"),
        None,
        float(f"{cells[2]['energy']:.6g}"),
    ]
    text = contents(rows, columns, "x.csv", as_json=False).decode()
    assert text.splitlines()[0] == "name,input,prediction,energy,status"


def test_an_input_whose_energies_are_infinite_is_told_so_and_of_no_constraint(predictor, pairs, monkeypatch):
    regressor = predictor.model_.regressor
    original = regressor.predict
    monkeypatch.setattr(regressor, "predict", lambda batch: original(batch) * 1e30)
    found = predictor.decode(pairs[0][:2], decoder="candidates")
    assert [each.status for each in found] == [NOT_FINITE] * 2


def test_what_a_prompt_shows_is_short(predictor, pairs):
    found = predictor.decode(pairs[0][:50])
    assert repr(found) == "Predictions(50 inputs, top_k=1)"
    assert re.fullmatch(r"Prediction\(input='.+', objects=\['\d+'\], energies=\[[\d.e-]+\]\)", repr(found[0]))
    refused = predict_texts(predictor.model_, ["one", ""], context=Context())
    assert repr(refused) == "Predictions(2 inputs, top_k=1, 1 not used)"
    assert "status='the text is empty.'" in repr(refused[1])
    long = dataclasses.replace(found[0], input=np.zeros(2048), confidence=0.25)
    assert len(repr(long)) < 500
    assert repr(long).endswith("confidence=0.25)")
    assert re.fullmatch(r"Evaluation\(.*exact .*; decoder candidates\)", repr(predictor.evaluate(*pairs)))
    assert repr(predictor.neighbours(pairs[1][:3], k=2)) == "Neighbours(3 × 2: objects, distances, rows)"
