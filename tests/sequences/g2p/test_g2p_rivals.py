"""The rivals of g2p learn from the training pairs and answer every row."""

from __future__ import annotations

import json

import pytest
import torch

from ele_core import ConfigError, Context, load_config
from ele_core.data.prepare import prepare
from ele_core.model.metrics import means, measure
from ele_sequences.g2p import rivals
from ele_sequences.g2p.rivals import Attention, Phonetisaurus
from ele_sequences.g2p.task import TABLE

LETTERS = {"B": "B", "C": "K", "D": "D", "F": "F", "L": "L", "M": "M", "P": "P", "T": "T", "A": "AE", "I": "IH"}
WORDS = [a + v + b + w for a in "BCDFLMPT" for v in "AI" for b in "BCDFLMPT" for w in "AI"]


@pytest.fixture
def prepared(tmp_path):
    rows = [f"{word}\t{' '.join(LETTERS[letter] for letter in word)}" for word in WORDS]
    parts = {"train": rows[:200], "dev": rows[200:220], "test": rows[220:]}
    for part, own in parts.items():
        (tmp_path / f"{part}.tsv").write_text("\n".join(own) + "\n", "utf-8")
    return prepare(load_config("g2p", [f"task.path={json.dumps(str(tmp_path))}", "input.runs=100"]), Context())


def wer(prepared, rival):
    rows, truths = prepared.examples("test")
    answers = rival.predict(prepared, rows, Context())
    assert len(answers) == len(rows)
    return means(measure(prepared.space, answers, truths, Context()))["wer"]


def test_attention_learns_a_regular_spelling(prepared):
    assert wer(prepared, Attention(minutes=0.1, width=48, batch_size=32, dropout=0.0, beam=3)) < 0.5


def test_attention_answers_words_with_unknown_letters(prepared):
    rows = prepared.data.test[:2]
    prepared.data.inputs[int(rows[0])] = "ÇÇ"
    assert len(Attention(minutes=0.002, width=16).predict(prepared, rows, Context())) == 2


def test_phonetisaurus_learns_a_regular_spelling(prepared):
    pytest.importorskip("phonetisaurus")
    assert wer(prepared, Phonetisaurus(order=3)) < 0.2


def test_phonetisaurus_that_is_not_installed_says_how_to_get_it(prepared, monkeypatch):
    monkeypatch.setattr(rivals.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"phonetisaurus, which is not installed.*pip install"):
        Phonetisaurus().predict(prepared, prepared.data.test[:1], Context())


def test_the_rivals_of_the_study_are_recorded_with_their_settings():
    settings = [row.rival.settings for row in TABLE.rows if row.rival is not None]
    assert {own["name"] for own in settings} == {"Phonetisaurus", "Attention"}
    json.dumps(settings)


def test_a_space_without_phonemes_is_refused(prepared):
    from dataclasses import replace

    from ele_sequences.space import SequenceSpace

    plain = replace(prepared, space=SequenceSpace(SequenceSpace.Config(alphabet=("A",), length=2)))
    with pytest.raises(ConfigError, match="answers phonemes"):
        Phonetisaurus().predict(plain, torch.arange(1), Context())
