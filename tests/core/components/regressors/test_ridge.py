"""Sketched ridge regression: the closed form, the choice of the penalty, inputs of every kind, saving and resuming."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from linear import given_pairs, random_sequences, sequence_space
from recording import Memory, Recorder, Stopped

from ele_core import StructuredPredictor
from ele_core.cli import cli
from ele_core.components.inputs.text import TextInput
from ele_core.components.inputs.vector import VectorInput, Vectors
from ele_core.components.regressors import measured, ridge
from ele_core.components.regressors.ridge import SketchedRidgeRegressor
from ele_core.errors import ConfigError, ModelError
from ele_core.runtime.context import Context
from ele_core.runtime.work import learn
from ele_core.testing import LinearSurrogate


class FloatSurrogate(LinearSurrogate):
    """In single precision, as surrogates are."""

    def embed(self, batch: Any) -> torch.Tensor:
        return super().embed(batch).float()


def task(context: Context | None = None, **options: Any) -> tuple[SketchedRidgeRegressor, Any, Any]:
    """A fitted regressor from random vectors, and the packed pairs."""
    space = sequence_space()
    outputs = random_sequences(space, 60)
    inputs = VectorInput(VectorInput.Config(standardise=False))
    values = torch.randn(60, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64).numpy()
    inputs.fit(values)
    packed = inputs.pack(values)
    config = SketchedRidgeRegressor.Config(**{"width": 1.5, "sketch": {"size": 60}, **options})
    made = SketchedRidgeRegressor(config, inputs, FloatSurrogate(FloatSurrogate.Config(dim=4), space))
    made.fit(given_pairs((packed[:45], outputs[:45]), (packed[45:], outputs[45:])), context or Context())
    return made, packed, outputs


@pytest.mark.parametrize("kind", ["subsample", "gaussian"])
def test_a_complete_sketch_gives_the_dense_solution(kind):
    made, packed, outputs = task(penalties=(1e-2,), sketch={"kind": kind, "size": 60})
    values = packed.values.double()
    gram = (-(torch.cdist(values, values[:45]) ** 2) / (2 * 1.5**2)).exp()
    targets = made.surrogate.embed(outputs[:45]).double()
    weights = torch.linalg.solve(gram[:45] + 45 * 1e-2 * torch.eye(45), targets)
    torch.testing.assert_close(made.predict(packed).double(), gram @ weights, rtol=0, atol=1e-3)


def test_a_sketch_gives_the_published_solution():
    made, packed, outputs = task(penalties=(1e-2,), sketch={"size": 12})
    rows, _ = made.config.sketch.draw(45, Context().generator("regression", "sketch"))
    values = packed.values.double()
    sketched = (-(torch.cdist(values, values[rows]) ** 2) / (2 * 1.5**2)).exp()
    small, targets = sketched[rows], made.surrogate.embed(outputs[:45]).double()
    matrix = sketched[:45].T @ sketched[:45] + 45 * 1e-2 * small
    expected = sketched @ torch.linalg.solve(matrix, sketched[:45].T @ targets)
    torch.testing.assert_close(made.predict(packed).double(), expected, rtol=0, atol=1e-3)


def test_the_penalty_of_least_validation_error_is_kept():
    recorder = Recorder()
    made, packed, outputs = task(Context(monitor=recorder), penalties=(10.0, 0.1, 1e-3, 1e-7))
    errors = recorder.values("regression", "validation_error")
    assert len(set(errors)) == 4
    kept = (made.predict(packed[45:]) - made.surrogate.embed(outputs[45:])).square().sum(dim=1).mean()
    assert kept.item() == pytest.approx(min(errors), rel=1e-3)
    assert recorder.best("regression") == [error < min(errors[:i], default=math.inf) for i, error in enumerate(errors)]


@given(st.lists(st.text("abc", min_size=1, max_size=7), min_size=1, max_size=5), st.integers(1, 4), st.booleans())
def test_texts_are_compared_by_their_runs_of_tokens(texts, longest, ends):
    inputs = TextInput(TextInput.Config(max_length=8, ends=ends))
    inputs.fit(["abc"])
    counted = inputs.features(inputs.pack(texts), grams=longest)
    for row, text in enumerate(f"<{text}>" if ends else text for text in texts):
        runs = [text[i : i + n] for n in range(1, longest + 1) for i in range(len(text) - n + 1)]
        expected = sorted(runs.count(run) for run in set(runs))
        inside = slice(int(counted.offsets[row]), int(counted.offsets[row + 1]))
        assert sorted(counted.values[inside].tolist()) == expected


def keys_of_runs(texts: tuple[str, ...], ends: bool) -> list[set[int]]:
    """The keys of the runs of one or two tokens of each text."""
    inputs = TextInput(TextInput.Config(max_length=8, ends=ends))
    inputs.fit(["abc"])
    return [set(inputs.features(inputs.pack([text]), grams=2).keys.tolist()) for text in texts]


def test_the_same_run_has_the_same_key_in_every_text():
    first, second, other = keys_of_runs(("ab", "cab", "ba"), ends=False)
    assert first < second
    assert len(first & other) == 2, "the letters, and not their order"


def test_runs_with_the_beginning_or_the_end_of_a_text_have_keys_of_their_own():
    first, second, other = keys_of_runs(("ab", "cab", "ba"), ends=True)
    assert len(first - second) == 1, "the run of the beginning and a"
    assert len(first & other) == 4, "the letters, the beginning and the end"
    assert TextInput.Config().ends


def test_other_inputs_are_compared_by_their_numbers():
    values = torch.tensor([[1.0, 0.0, -2.0]])
    features = VectorInput().features(Vectors(values), grams=3)
    assert torch.equal(features.times(torch.eye(3)), values)


# -- errors -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", [1e-2, 1e-6, 1e-9])
@pytest.mark.parametrize("size", [45, 12])
def test_predictions_without_a_pair_are_those_of_a_regression_without_it(penalty, size):
    made, packed, outputs = task(penalties=(penalty,), sketch={"size": size})
    mapped = made._map(packed[:45]).double()
    targets = made.surrogate.embed(outputs[:45]).double()
    values, vectors = torch.linalg.eigh(mapped.T @ mapped)
    rotated = vectors.T @ mapped.T @ targets
    found = ridge.left_out(mapped @ vectors, targets, values.clamp(min=0) + 45 * penalty, rotated)
    for row in range(45):
        kept = torch.arange(45) != row
        square = mapped[kept].T @ mapped[kept] + 45 * penalty * torch.eye(mapped.shape[1], dtype=torch.double)
        expected = mapped[row] @ torch.linalg.solve(square, mapped[kept].T @ targets[kept])
        torch.testing.assert_close(found[row], expected, rtol=1e-5, atol=1e-6)


def test_errors_are_measured_with_enough_pairs_and_can_be_left_out(monkeypatch):
    recorder = Recorder()
    made, *_ = task(Context(monitor=recorder), weigh_errors=True)
    assert made.errors is None
    assert list(made.modes) == []
    assert "200 training pairs" in recorder.messages[-1]
    monkeypatch.setattr(measured, "LEAST_PAIRS", 45)
    made, packed, outputs = task(weigh_errors=True)
    queries = made.predict(packed)
    truths = made.surrogate.space.relax(outputs)
    assert list(made.modes) == ["weighted", "plain"]
    weighted = made.energy(queries).of(outputs)
    assert made.energy(queries).smooth
    torch.testing.assert_close(made.energy(queries).at(truths).float(), weighted, rtol=1e-3, atol=1e-4)
    again = SketchedRidgeRegressor(made.config, made.inputs, made.surrogate)
    again.restore(made.state())
    assert torch.equal(again.energy(queries).of(outputs), weighted)
    made.use_mode("plain")
    plain = made.energy(queries).of(outputs)
    torch.testing.assert_close(plain, (queries - made.surrogate.embed(outputs)).square().sum(dim=1))
    again.restore(made.state())
    assert again.errors is None
    made.use_mode("weighted")
    assert torch.equal(made.energy(queries).of(outputs), weighted)


def test_errors_are_not_measured_if_all_outputs_are_equal(monkeypatch):
    monkeypatch.setattr(measured, "LEAST_PAIRS", 45)
    made, packed, outputs = task()
    same, recorder = outputs[torch.zeros(60, dtype=torch.long)], Recorder()
    config = made.config.model_copy(update={"weigh_errors": True})
    constant = SketchedRidgeRegressor(config, made.inputs, made.surrogate)
    constant.fit(given_pairs((packed[:45], same[:45]), (packed[45:], same[45:])), Context(monitor=recorder))
    assert constant.errors is None
    assert "all outputs are equal" in recorder.messages[-1]


def test_weights_of_another_shape_are_refused():
    made, *_ = task()
    with pytest.raises(ModelError, match="another shape"):
        made.restore({**made.state(), "weights": torch.zeros(3, 3)})


def test_a_finished_regression_is_not_learned_again(monkeypatch):
    made, packed, outputs = task()
    data, work = given_pairs((packed[:45], outputs[:45]), (packed[45:], outputs[45:])), Memory()
    learn(made, "regressor", data, Context(work=work))
    monkeypatch.setattr(SketchedRidgeRegressor, "fit", lambda *_: pytest.fail("it was learned again"))
    again = SketchedRidgeRegressor(made.config, made.inputs, made.surrogate)
    learn(again, "regressor", data, Context(work=Memory(work.kept)))
    assert torch.equal(again.predict(packed), made.predict(packed))


def test_a_stopped_regression_goes_on_to_the_same_end(monkeypatch):
    monkeypatch.setattr(ridge, "CHUNK", 10)
    undisturbed, packed, _ = task()
    work = Memory(stop_after=3)
    with pytest.raises(Stopped):
        task(Context(work=work))
    resumed = Memory(work.kept)
    again, *_ = task(Context(work=resumed))
    assert resumed.steps == 2, "three of five chunks were done"
    assert torch.equal(again.predict(packed), undisturbed.predict(packed))


SMALL = {"size": 64}
RIDGE = {
    "surrogate": {"name": "sketched-kernel", "sketch": SMALL},
    "regressor": {"name": "sketched-ridge", "sketch": SMALL},
    "decoder": "candidates",
}


def test_a_loaded_model_predicts_the_same(pairs, tmp_path):
    predictor = StructuredPredictor("sequence", **RIDGE).fit(*pairs, validation=20)
    predictor.save(tmp_path / "model")
    loaded = StructuredPredictor.load(tmp_path / "model")
    assert torch.equal(loaded.model_.queries(pairs[0]), predictor.model_.queries(pairs[0]))
    assert loaded.predict(pairs[0][:9]) == predictor.predict(pairs[0][:9])


def test_it_learns_number_words_from_the_command_line(tmp_path):
    options = [
        "task.size=400",
        "task.validation=40",
        "task.test=40",
        "surrogate={name='sketched-kernel', sketch={size=64}}",
        "regressor={name='sketched-ridge', sketch={size=64}}",
        "decoder.name=candidates",
    ]
    sets = [word for option in options for word in ("--set", option)]
    trained = CliRunner().invoke(cli, ["train", "number-words", "-o", str(tmp_path / "run"), "--no-report", *sets])
    assert trained.exit_code == 0, trained.output
    evaluated = CliRunner().invoke(cli, ["evaluate", str(tmp_path / "run")])
    assert evaluated.exit_code == 0, evaluated.output
    assert "exact" in evaluated.output
    refused = CliRunner().invoke(cli, ["evaluate", str(tmp_path / "run"), "--decoder", "pgd"])
    assert isinstance(refused.exception, ConfigError)
    assert "surrogate 'sketched-kernel' does not have" in str(refused.exception)
