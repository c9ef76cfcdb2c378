"""Rivals for any pairs: each learns from the training pairs and answers every row; which fit; `--rivals`."""

from __future__ import annotations

import dataclasses
import json
import shutil

import pytest
import torch
from click.testing import CliRunner

from ele_core import ConfigError, Context, load_config
from ele_core.cli import cli
from ele_core.data.prepare import Pairs, prepare
from ele_core.experiments import rivals
from ele_core.experiments.rivals import (
    CPU,
    Attention,
    KernelRidge,
    Phonetisaurus,
    Written,
    answered,
    fitting,
    levels_of,
    measure_rival,
)
from ele_core.runtime.monitor import Monitor
from ele_sequences.g2p.task import TABLE

LETTERS = {"B": "B", "C": "K", "D": "D", "F": "F", "L": "L", "M": "M", "P": "P", "T": "T", "A": "AE", "I": "IH"}
WORDS = [a + v + b + w for a in "BCDFLMPT" for v in "AI" for b in "BCDFLMPT" for w in "AI"]
SMALL = Attention(minutes=0.2, least_steps=300, width=48, batch_size=32, dropout=0.0, beam=3)


class Heard(Monitor):
    def __init__(self):
        super().__init__()
        self.told = []

    def message(self, text):
        self.told.append(text)


def own(inputs, outputs, space="sequence", **options):
    """Pairs of one's own: the last 36 to test on, the 20 before to validate on."""
    count = len(inputs)
    pairs = Pairs(inputs, outputs, torch.arange(count - 56), torch.arange(count - 56, count - 36))
    config = load_config({"output": {"name": space, **options}, "input": "text"})
    prepared = prepare(config, Context(), pairs)
    data = dataclasses.replace(prepared.data, test=torch.arange(count - 36, count))
    return dataclasses.replace(prepared, data=data)


@pytest.fixture(scope="module")
def spoken():
    order = torch.randperm(len(WORDS), generator=torch.Generator().manual_seed(0)).tolist()
    words = [WORDS[place] for place in order]
    return own(words, [" ".join(LETTERS[letter] for letter in word) for word in words], separator=" ")


@pytest.fixture(scope="module")
def sentences():
    numbers = [f"{a} and {b}" for a in ("one", "two", "four", "nine") for b in ("six", "ten", "two", "one")]
    return own(numbers * 6, [text.replace(" and ", "") for text in numbers] * 6)


def test_attention_learns_a_regular_spelling(spoken):
    found = measure_rival(SMALL, spoken, Context())
    assert found["exact"] > 0.5
    assert found[CPU] > 0


def test_attention_with_equal_seeds_and_steps_answers_alike(spoken):
    few = dataclasses.replace(SMALL, minutes=None, epochs=0, least_steps=20)
    answers = [few.predict(spoken, spoken.data.test, Context(seed)).tokens for seed in (0, 0, 1)]
    assert torch.equal(answers[0], answers[1])
    assert not torch.equal(answers[0], answers[2])


def test_attention_stops_when_its_time_is_over(spoken):
    monitor = Heard()
    context = Context(monitor=monitor)
    dataclasses.replace(SMALL, minutes=1e-4, least_steps=10_000).predict(spoken, spoken.data.test, context)
    (told,) = monitor.told
    assert int(told.split(": ")[1].split()[0]) < 10


def test_attention_tries_no_other_tokens_when_its_time_is_over(sentences):
    monitor = Heard()
    context = Context(monitor=monitor)
    dataclasses.replace(SMALL, minutes=1e-5, least_steps=10_000).predict(sentences, sentences.data.test, context)
    assert len(monitor.told) == 1


def test_attention_answers_inputs_with_unknown_tokens(spoken):
    inputs = [*spoken.data.inputs[:-1], "ÇÇ"]
    unknown = dataclasses.replace(spoken, data=dataclasses.replace(spoken.data, inputs=inputs))
    few = dataclasses.replace(SMALL, minutes=None, epochs=0, least_steps=2)
    assert len(few.predict(unknown, unknown.data.test, Context())) == 36


def test_words_and_characters_are_tried_unless_few_words_make_all_outputs(spoken, sentences):
    train, held_out = (Written.at(sentences, rows) for rows in (sentences.data.train, sentences.data.validation))
    assert levels_of(train, held_out) == [(True, False), (False, False)]
    train, held_out = (Written.at(spoken, rows) for rows in (spoken.data.train, spoken.data.validation))
    assert levels_of(train, held_out) == [(False, True)]
    assert levels_of(train, Written(["X"], ["new words"])) == [(False, True), (False, False)]


def test_the_tokens_that_write_more_validation_pairs_right_are_kept(sentences, monkeypatch):
    tried = []

    def fit(_, writer, *__):
        tried.append(writer.level)
        return [0.2, 0.7][len(tried) - 1]

    written = []
    monkeypatch.setattr(Attention, "fit", fit)
    answers = rivals.Writer.answers
    monkeypatch.setattr(rivals.Writer, "answers", lambda self, *a: written.append(self.level) or answers(self, *a))
    dataclasses.replace(SMALL, minutes=None).predict(sentences, sentences.data.test, Context())
    assert tried == [(True, False), (False, False)]
    assert written == [(False, False)]


@pytest.mark.parametrize(("seconds", "widths"), [(2.0, [48, 96]), (4.0, [48])])
def test_a_wider_network_is_tried_if_the_time_suffices(spoken, monkeypatch, seconds, widths):
    tried = []

    def trained(self, level, train, *_):
        tried.append(self.width)
        return rivals.Trained(rivals.Writer.new(train, level, self), 0.5, seconds)

    monkeypatch.setattr(Attention, "trained", trained)
    SMALL.predict(spoken, spoken.data.test[:2], Context())
    assert tried == widths, "of 12 seconds"


def test_an_answer_that_is_no_output_gives_way_to_the_next_and_to_copying(spoken):
    rows = spoken.data.test[:3]
    found = spoken.space.unpack(answered(spoken, rows, [["nonsense", "B AE"], ["K IH", "B AE"], ["", "what"]]))
    assert found[:2] == ["B AE", "K IH"]
    assert found[2] == "" or found[2] in Written.at(spoken, spoken.data.train).outputs


def test_kernel_ridge_answers_training_outputs_and_the_right_ones_where_it_can(sentences):
    rival = KernelRidge()
    answers = sentences.space.unpack(rival.predict(sentences, sentences.data.test, Context()))
    assert set(answers) <= set(Written.at(sentences, sentences.data.train).outputs)
    assert measure_rival(rival, sentences, Context())["exact"] > 0.9, "every test input is a training input too"


def test_phonetisaurus_learns_a_regular_spelling(spoken):
    pytest.importorskip("phonetisaurus")
    assert measure_rival(Phonetisaurus(order=3), spoken, Context())["exact"] > 0.8


def test_phonetisaurus_that_is_not_installed_says_how_to_get_it(spoken, monkeypatch):
    monkeypatch.setattr(rivals.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"phonetisaurus, which is not installed.*pip install"):
        Phonetisaurus().predict(spoken, spoken.data.test[:1], Context())


def test_the_rivals_that_fit_depend_on_the_pairs(spoken, sentences, monkeypatch):
    ridge, attention = "kernel ridge with the nearest candidate", "an attention network"
    monkeypatch.setattr(rivals, "installed", lambda _: True)
    assert list(fitting(spoken, 30, Monitor())) == [attention, "Phonetisaurus (beam 10,000)", ridge]
    found = fitting(sentences, 30, Monitor())
    assert list(found) == [attention, ridge], "inputs are no words"
    assert found[attention].minutes == 0.5
    monkeypatch.setattr(rivals, "LONGEST", 2)
    assert list(fitting(sentences, 30, Monitor())) == [ridge], "texts are too long to write"


def test_inputs_that_are_no_texts_leave_the_kernel(monkeypatch, spoken):
    monkeypatch.setattr(type(spoken.inputs), "reads", "vectors")
    assert list(fitting(spoken, 30, Monitor())) == ["kernel ridge with the nearest candidate"]


def test_a_rival_that_would_fit_and_is_not_installed_is_named(spoken, monkeypatch):
    monkeypatch.setattr(rivals, "installed", lambda _: False)
    monitor = Heard()
    assert "Phonetisaurus (beam 10,000)" not in fitting(spoken, 30, monitor)
    assert "pip install 'explicit-loss-embedding[phonetisaurus]'" in monitor.told[0]


def test_the_rivals_of_the_study_are_recorded_with_their_settings():
    settings = [row.rival.settings for row in TABLE.rows if row.rival is not None]
    assert {own["name"] for own in settings} == {"Phonetisaurus", "Attention"}
    json.dumps(settings)


# -- ele evaluate --rivals ----------------------------------------------------------------------------------------


def evaluate(run, *arguments):
    return CliRunner().invoke(cli, ["evaluate", str(run), "--limit", "9", *arguments])


def test_evaluate_measures_rivals_once_and_stores_them(trained_run, tmp_path):
    run = shutil.copytree(trained_run, tmp_path / "run")
    first = evaluate(run, "--rivals", "--minutes", "0.01")
    assert first.exit_code == 0, first.output
    assert "Rivals, on the same pairs:\n  an attention network: exact " in first.output
    again = evaluate(run, "--rivals", "--json")
    assert "training a rival" not in again.stderr
    found = json.loads(again.stdout)["rivals"]
    assert list(found) == ["an attention network", "kernel ridge with the nearest candidate"]
    assert found["an attention network"].keys() == {"exact", "edit_distance", CPU}
    assert not rivals_changed(run)
    assert json.loads(evaluate(run, "--json").stdout)["rivals"] == found, "shown as long as they are stored"


def rivals_changed(run):
    from ele_core.runs.measurements import changed

    return changed(run)


def test_a_model_behind_a_rival_is_told_in_the_console_the_json_and_the_file(trained_run, tmp_path, monkeypatch):
    run = shutil.copytree(trained_run, tmp_path / "run")
    monkeypatch.setattr(rivals, "measure_rival", lambda *_: {"exact": 1.0, "edit_distance": 0.0, CPU: 2.0})
    told = evaluate(run, "--rivals")
    assert "This model is behind an attention network (edit_distance " in told.stderr
    (file,) = (run / "predictions").glob("*.json")
    assert json.loads(file.read_text("utf-8"))["behind"].startswith("This model is behind an attention network")
    assert "behind an attention network" in json.loads(evaluate(run, "--json").stdout)["behind"]


def test_rivals_are_not_measured_on_the_pairs_that_they_choose_by(trained_run, tmp_path):
    run = shutil.copytree(trained_run, tmp_path / "run")
    told = CliRunner().invoke(cli, ["evaluate", str(run), "--split", "validation", "--rivals"])
    assert told.exit_code != 0
    assert "rivals choose their settings on the validation pairs" in str(told.exception)
