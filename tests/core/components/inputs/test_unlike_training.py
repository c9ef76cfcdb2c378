"""Which inputs are unlike those of the training, and why."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ele_core.components.inputs import seen_texts
from ele_core.components.inputs.text import TextInput
from ele_core.components.inputs.vector import VectorInput
from ele_core.errors import ModelError

TEXTS = ["one two", "two one", "twenty two"]


def text_input(texts: list[str] = TEXTS, **options: object) -> TextInput:
    inputs = TextInput(TextInput.Config(**options))
    inputs.fit(texts)
    return inputs


def vector_input(rows: list[list[float]]) -> VectorInput:
    inputs = VectorInput()
    inputs.fit(rows)
    return inputs


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("one", ""),
        ("twenty one", ""),
        ("one zwö", "unknown token 'z'"),
        ("two two two", "11 tokens long, in training at most 10"),
        ("eeee", "3 of 3 pairs of neighbouring tokens are not in the training texts"),
        ("n", ""),
    ],
)
def test_a_text_unlike_the_training_texts_has_a_reason(text, reason):
    assert text_input().unlike_training([text]) == [reason]


def test_no_training_input_is_marked():
    assert text_input().unlike_training(TEXTS) == [""] * 3
    rows = np.random.default_rng(0).normal(size=(50, 4))
    assert vector_input(rows.tolist()).unlike_training(rows) == [""] * 50
    assert text_input(min_frequency=2, level="regex", pattern=r"\w+").unlike_training([]) == []


def test_texts_of_too_many_different_pairs_are_judged_by_tokens_and_length_alone(monkeypatch):
    monkeypatch.setattr(seen_texts, "MOST_PAIRS", 3)
    assert text_input().unlike_training(["eeee", "z", "o" * 11]) == [
        "",
        "unknown token 'z'",
        "11 tokens long, in training at most 10",
    ]


@pytest.mark.parametrize(
    ("vector", "reason"),
    [
        ([5, 0.5, 7], ""),
        ([19, 0.5, 7], ""),
        ([21, 0.5, 7], "number 1 is 21, in training 0 to 10"),
        ([5, -1.5, 7], "number 2 is -1.5, in training 0 to 1"),
        ([5, 0.5, 8], ""),
        ([5, 0.5, 15], "number 3 is 15, in training 7 to 7"),
    ],
)
def test_a_number_far_outside_of_its_range_is_a_reason(vector, reason):
    assert vector_input([[0, 1, 7], [10, 0, 7]]).unlike_training([vector]) == [reason]


@pytest.mark.parametrize(
    ("bits", "reason"),
    [
        ([1, 1, 0, 0, 0], ""),
        ([1, 0, 1, 0, 0], ""),
        ([1, 0, 1, 1, 0], "2 of 3 numbers that are not zero were always zero in training"),
        ([0, 0, 0, 0, 0], ""),
    ],
)
def test_bits_that_training_never_set_are_a_reason_if_they_are_most(bits, reason):
    assert vector_input([[1, 0, 0, 0, 0], [1, 1, 0, 0, 0]]).unlike_training([bits]) == [reason]


@pytest.mark.parametrize("file", ["seen-texts.json", "vector.json"])
def test_what_was_seen_is_saved_and_earlier_models_mark_nothing(tmp_path, file):
    fitted, odd = (text_input(), ["zzz"]) if "texts" in file else (vector_input([[0.0], [1.0]]), [[9.0]])
    fitted.save(tmp_path)
    loaded = type(fitted)()
    loaded.load(tmp_path)
    assert loaded.unlike_training(odd) == fitted.unlike_training(odd) != [""]
    if "texts" in file:
        (tmp_path / file).unlink()
    else:
        state = json.loads((tmp_path / file).read_text())
        (tmp_path / file).write_text(json.dumps({name: state[name] for name in ("mean", "deviation")}))
    earlier = type(fitted)()
    earlier.load(tmp_path)
    assert earlier.unlike_training(odd) == [""]


@pytest.mark.parametrize("content", ["{}", "[]", '{"longest": "x", "pairs": []}', '{"longest": 1, "pairs": [[1]]}'])
def test_a_damaged_file_is_refused(tmp_path, content):
    text_input().save(tmp_path)
    (tmp_path / "seen-texts.json").write_text(content)
    with pytest.raises(ModelError, match="texts of a training"):
        TextInput().load(tmp_path)
