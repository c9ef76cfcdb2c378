"""Constraints that follow from the input: stated once, and obeyed when a model is chosen, calibrated and used."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from recording import Recorder

from ele_core import DataSet, Record, Run, StructuredPredictor, Task
from ele_core.components.inputs.columns import ColumnsInput
from ele_core.components.inputs.text import TextInput
from ele_core.config import load
from ele_core.energies import rivals_of
from ele_core.errors import ConfigError, DataError, InvalidInput, PluginError
from ele_core.model import train
from ele_core.model.constraints import combined, implied
from ele_core.model.model import Model
from ele_core.model.predict import Request, predict_texts
from ele_core.model.results import NOT_SATISFIED
from ele_core.model.trust.judged import without_confidence
from ele_core.plugins import PluginInfo, Registry, registry
from ele_core.report import Wanted, write_report
from ele_core.report.trial import Trial
from ele_core.runs.calibrate import calibrate_run
from ele_core.runtime.context import Context
from ele_core.runtime.monitor import Monitor
from ele_core.types import Candidates, Problem
from ele_sequences.space import SequenceConstraint, SequenceSpace

WORDS = {"length": "@words"}
PARTS: dict[str, Any] = {"surrogate": "parts", "regressor": "nearest-input", "decoder": "candidates"}


def counted_words(count: int) -> tuple[list[str], list[str]]:
    """Words of random letters and lengths, and a letter for each word: similar texts have other numbers of words."""
    drawn = random.Random(0)

    def word() -> str:
        return "".join(drawn.choices("bcdfgh", k=drawn.randint(1, 8)))

    texts = [" ".join(word() for _ in range(drawn.randint(1, 6))) for _ in range(count)]
    return texts, ["a" * len(text.split()) for text in texts]


PAIRS = counted_words(160)
NEW = PAIRS[0][120:], PAIRS[1][120:]


class CountWords(Task):
    """As many letters as the input has words."""

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        return {"output": {"name": "sequence", "alphabet": ["a"], "length": 8}, **PARTS, "constraints": WORDS}

    def load(self, space: Any, context: Context) -> DataSet:
        texts, outputs = PAIRS
        parts = torch.arange(160).split([100, 20, 40])
        return DataSet(texts, space.pack(outputs), *parts, source="count", fingerprint="1")


class Stubborn(TextInput):
    """Its properties are whatever the test says."""

    found: Any = None

    def properties(self, value: str) -> Any:
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


@pytest.fixture(scope="module")
def known() -> Registry:
    records = {
        "task": (Record("count", CountWords, "Counts words."),),
        "input": (Record("stubborn", Stubborn, "Texts."),),
    }
    return Registry([*registry().plugins(), PluginInfo("mine", "ele-mine", "1.0", records=records)])


@pytest.fixture(scope="module")
def fitted() -> StructuredPredictor:
    return StructuredPredictor("sequence", **PARTS, constraints=WORDS).fit(
        PAIRS[0][:120], PAIRS[1][:120], validation=20
    )


@pytest.fixture(scope="module")
def run(known: Registry, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("implied") / "run"
    return Run.start(load("count", ["calibration.pairs=30"], known), folder)


def test_what_follows_from_the_input_turns_wrong_answers_into_right_ones(fitted):
    free = StructuredPredictor("sequence", **PARTS).fit(PAIRS[0][:120], PAIRS[1][:120], validation=20)
    assert free.score(*NEW) < 0.7
    assert fitted.evaluate(*NEW).metrics["exact"] == fitted.evaluate(*NEW).metrics["answered"] == 1
    assert fitted.predict(NEW[0]) == NEW[1]
    assert fitted.get_params()["constraints"] == WORDS


def test_a_saved_predictor_remembers_what_follows(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    again = StructuredPredictor.load(tmp_path / "model", device="cpu")
    assert again.constraints == WORDS
    assert again.predict(NEW[0]) == NEW[1]


def test_given_constraints_are_added_and_take_precedence(fitted):
    first, second = fitted.predict(["bb c", "bb c"], constraints=[{"length": 3}, {"prefix": "a"}])
    assert (first, second) == ("aaa", "aa")
    assert combined([SequenceConstraint(length=2), None], [SequenceConstraint(prefix="a"), None]) == [
        SequenceConstraint(length=2, prefix="a"),
        None,
    ]


def test_an_input_that_no_structure_suits_has_no_answer(fitted):
    long = "b " * 9
    found = fitted.decode([long, "bb c"])
    assert [each.status for each in found] == [NOT_SATISFIED, "ok"]
    result = fitted.evaluate([long, "bb c"], ["aa", "aa"])
    assert result.metrics["answered"] == 0.5
    assert result.metrics["exact"] == 0.5, "no answer is not a right one"


def test_every_stage_of_a_training_decodes_with_what_follows(monkeypatch, known, tmp_path):
    bound = []
    decode = Model.decode

    def watched(self: Model, queries: Any, *options: Any, **more: Any) -> Any:
        bound.append((len(queries), more.get("constraints")))
        return decode(self, queries, *options, **more)

    monkeypatch.setattr(Model, "decode", watched)
    options = ["calibration.pairs=30", 'selection.decoders=["search", "candidates"]', "selection.pairs=10"]
    recorder = Recorder()
    Run.start(load("count", options, known), tmp_path / "run", recorder)
    assert [size for size, _ in bound] == [10, 10, 30], "two decoders are tried, then the calibration"
    assert all(len(own) == size and all(each.length >= 1 for each in own) for size, own in bound)
    assert any("search 0; candidates 0." in text for text in recorder.messages), "the edit distance"


def test_a_run_evaluates_with_what_its_task_says_unless_that_is_switched_off(run):
    assert run.config.constraints == WORDS
    with_it, without = run.evaluate(), run.evaluate(overrides=["constraints.length=none"])
    assert with_it.metrics["exact"] == 1
    assert without.metrics["exact"] < 0.7
    assert "answered" not in without.metrics
    assert run.evaluate(given=("length",), overrides=["constraints.length=none"]).metrics["exact"] == 1, "as the flag"
    assert run.evaluate(oracle=True).metrics["answered"] == 1


def test_a_calibration_is_for_the_constraints_that_it_was_made_with(run):
    model = run.model()
    assert model.calibration.constraints == WORDS
    (found,) = predict_texts(model, ["bb c"], context=Context())
    assert found.confidence > 0.9
    off = run.model(["constraints.length=none"])
    assert "other options of decoding" in without_confidence(off, None)
    assert predict_texts(off, ["bb c"], context=Context())[0].confidence is None
    (given,) = predict_texts(model, ["bb c"], Request(constraints=[SequenceConstraint(length=3)]), context=Context())
    assert given.confidence is None, "not calibrated with a constraint that a user adds"


def test_a_calibration_can_be_repeated_from_the_command(run, known):
    calibrate_run(run.folder, registry=known)
    stored = json.loads((run.folder / "model" / "calibration.json").read_text())
    assert stored["constraints"] == WORDS
    unanswered = predict_texts(Run(run.folder, known).model(), ["b " * 7], context=Context())[0]
    assert (unanswered.status, unanswered.confidence) == (NOT_SATISFIED, 0)


def test_pages_show_inputs_without_an_answer(run, tmp_path):
    wanted = Wanted(overrides=["constraints.length=@characters"], examples=6)
    page = write_report(run, wanted, Monitor(), tmp_path / "report.html")
    assert "answered" in page.read_text()
    with pytest.raises(DataError, match=NOT_SATISFIED):
        Trial(run.model(), "count").answer("b " * 7, "candidates", 1)


def test_a_training_that_was_stopped_continues_with_what_follows(known, tmp_path, monkeypatch):
    def stopped(*_: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(train, "select", stopped)
        with pytest.raises(KeyboardInterrupt):
            Run.start(load("count", registry=known), tmp_path / "run")
    again = Run.resume(tmp_path / "run", registry=known)
    assert again.config.constraints == WORDS
    assert again.evaluate().metrics["exact"] == 1


def test_rivals_that_violate_the_constraint_of_their_query_do_not_count():
    space = SequenceSpace(SequenceSpace.Config(alphabet=("a", "b"), length=4))
    truths, every = space.pack(["ab", "aab"]), space.pack(["a", "b", "ab", "ba", "bb", "aaa", "bbb"])
    candidates = Candidates(every, torch.zeros(len(every), 1))
    impossible = SequenceConstraint(prefix="bbbb")
    problem = Problem(space, candidates, [SequenceConstraint(length=2), impossible])
    rivals, owner = rivals_of([], truths, problem)
    texts = space.unpack(rivals)
    assert {len(text) for text, own in zip(texts, owner.tolist(), strict=True) if own == 0} == {2}
    free, by = rivals_of([], truths, Problem(space, candidates))
    assert (owner == 1).sum() == (by == 1).sum(), "a query without others keeps its own"
    assert len(free) > len(rivals)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"size": "@words"}, "constraints: there is no constraint 'size': these outputs have length"),
        ({"length": "@word"}, r"constraints\.length: these inputs have no property 'word': they have text, char"),
        ({"length": "long"}, "constraints: length: should be a valid integer"),
        ({"length": "@text"}, "input 0: no constraint follows from it: length: should be a valid integer"),
    ],
)
def test_constraints_that_cannot_follow_are_refused_before_training(monkeypatch, options, reason):
    monkeypatch.setattr(train, "learn", lambda *_: pytest.fail("trained"))
    predictor = StructuredPredictor("sequence", **PARTS, constraints=options)
    with pytest.raises((ConfigError, DataError), match=reason):
        predictor.fit(*PAIRS, validation=20)


def test_outputs_that_contradict_what_follows_are_told():
    recorder = Recorder()
    outputs = [text + "a" if row % 2 else text for row, text in enumerate(PAIRS[1])]
    config = {"output": "sequence", **PARTS, "constraints": WORDS}
    StructuredPredictor(**config, callbacks=[recorder]).fit(
        PAIRS[0], outputs, validation=(NEW[0][:4], outputs[120:124])
    )
    (told,) = [text for text in recorder.messages if "violate" in text]
    assert told.startswith("warning: 2 of 4 validation outputs violate the constraint of their input, first that of '")


@pytest.mark.parametrize(
    ("found", "reason"),
    [(ValueError("no luck"), "stubborn.*ValueError: no luck"), (["words"], "of Stubborn gives list, not a mapping")],
)
def test_a_mistake_of_a_plugin_is_told_with_its_name(known, monkeypatch, found, reason):
    inputs = known.create("input", "stubborn")
    monkeypatch.setattr(Stubborn, "found", found)
    with pytest.raises(PluginError, match=reason):
        implied(WORDS, SequenceSpace(SequenceSpace.Config(alphabet=("a",), length=4)), inputs, ["o o"])


def test_nothing_follows_from_a_property_that_is_missing(known, monkeypatch):
    space = SequenceSpace(SequenceSpace.Config(alphabet=("a",), length=4))
    monkeypatch.setattr(Stubborn, "found", {"words": None})
    inputs = known.create("input", "stubborn")
    assert implied(WORDS, space, inputs, ["o o"]) == [None]
    assert implied({**WORDS, "max_length": 3}, space, inputs, ["o o"]) == [SequenceConstraint(max_length=3)]
    assert implied({"length": "none"}, space, inputs, ["o o"]) is None


def test_a_column_of_a_file_gives_the_constraint_and_a_bad_cell_only_its_own_row(tmp_path: Path):
    table = tmp_path / "pairs.csv"
    rows = [f"{text},{len(output)},{output}" for text, output in zip(*PAIRS, strict=True)]
    table.write_text("\n".join(["words,size,output", *rows]))
    section = {"name": "columns", "columns": {"words": "text", "size": {"name": "text"}}}
    given = {"data": {"file": str(table), "input": ["words", "size"]}, "input": section, "output": "sequence"}
    model = Run.start(load({**given, **PARTS, "constraints": {"length": "@size"}}), tmp_path / "run").model()
    cells = [{"words": "bb c", "size": size} for size in ("3", "x")]
    found = predict_texts(model, cells, context=Context())
    assert found[0].best == "aaa"
    assert "no constraint follows from it: length: should be a valid integer" in found[1].status


def test_columns_have_the_properties_of_each():
    inputs = ColumnsInput(ColumnsInput.Config(columns={"a": {"name": "text"}, "b": {"name": "bits"}}))
    inputs.fit([{"a": "x y", "b": {3: 1}}])
    assert inputs.properties({"a": "x y", "b": {3: 1, 17: 2}}) == {
        "a": "x y",
        "b": "3 17:2",
        "a.text": "x y",
        "a.characters": 3,
        "a.words": 2,
        "b.bits": "3 17",
    }


def test_an_input_refused_by_its_constraint_is_named(fitted):
    options = {"length": "@text"}
    with pytest.raises(InvalidInput, match="input 1: no constraint follows"):
        implied(options, fitted.model_.space, fitted.model_.inputs, ["3", "o"])
