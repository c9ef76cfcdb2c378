"""The neural regressor: frozen targets, the best epoch kept, and the order of predictions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from linear import given_pairs, random_sequences, sequence_space
from recording import Recorder
from torch import Tensor
from torch.nn import functional

from ele_core.components.inputs.text import TextInput
from ele_core.components.regressors import neural
from ele_core.components.regressors.neural import NeuralRegressor
from ele_core.runtime.context import Context
from ele_core.testing import LinearSurrogate
from ele_sequences.space import SequenceSpace


class SphereSurrogate(LinearSurrogate):
    """Linear, then onto the sphere; counts how often it is asked."""

    asked = 0

    def embed(self, batch: Any) -> Tensor:
        self.asked += 1
        return functional.normalize(super().embed(batch), dim=1).float()


@pytest.fixture
def space() -> SequenceSpace:
    return sequence_space()


@pytest.fixture
def surrogate(space: SequenceSpace) -> SphereSurrogate:
    return SphereSurrogate(SphereSurrogate.Config(dim=12), space)


def regressor(surrogate: Any, texts: list[str], seed: int = 0, backbone: Any = None, **training: Any) -> Any:
    inputs = TextInput()
    inputs.fit(texts)
    options = {"epochs": 8, "batch_size": 16, "evaluations": 8, "learning_rate": 0.02, **training}
    backbone = backbone or {"name": "gru", "embedding": 6, "layers": 1, "width": 8}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return NeuralRegressor(NeuralRegressor.Config(backbone=backbone, training=options), inputs, surrogate)


def task(space: SequenceSpace, surrogate: Any, context: Context | None = None, **options: Any) -> Any:
    """A fitted regressor from a text to the sequence it spells, and the packed pairs."""
    outputs = random_sequences(space, 80)
    texts = [text or "-" for text in space.unpack(outputs)]
    made = regressor(surrogate, texts, **options)
    inputs = made.inputs.pack(texts)
    made.fit(given_pairs((inputs[:60], outputs[:60]), (inputs[60:], outputs[60:])), context or Context())
    return made, inputs, outputs


def weights(made: NeuralRegressor) -> Tensor:
    return torch.cat([tensor.flatten() for tensor in made.state().values()]).clone()


def test_the_loss_on_outputs_is_frozen_and_embedded_once(space, surrogate):
    before = surrogate.weights.clone()
    task(space, surrogate)
    assert torch.equal(surrogate.weights, before)
    assert surrogate.asked == 2, "training outputs once, validation outputs once"


def test_fitting_leaves_a_learned_embedding_as_it_was(predictor, pairs, tiny):
    model = predictor.model_
    before = {name: tensor.clone() for name, tensor in model.surrogate.state().items()}
    training = tiny["regressor"]["training"]
    fresh = NeuralRegressor(
        NeuralRegressor.Config(backbone=tiny["regressor"]["backbone"], training=training), model.inputs, model.surrogate
    )
    packed = model.inputs.pack(pairs[0]), model.space.pack(pairs[1])
    fresh.fit(given_pairs(packed, packed), Context())
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.surrogate.state().items())


def test_predictions_lie_on_the_unit_sphere_and_training_brings_them_nearer(space, surrogate):
    recorder = Recorder()
    made, inputs, outputs = task(space, surrogate, Context(monitor=recorder), epochs=20)
    queries = made.predict(inputs)
    torch.testing.assert_close(queries.norm(dim=1), torch.ones(80))
    assert not queries.requires_grad
    errors = (queries - surrogate.embed(outputs)).square().sum(dim=1)
    assert errors[:60].mean() < 0.6
    losses = recorder.values("regression", "loss")
    assert losses[-1] < 0.5 * losses[0]


def test_the_best_evaluation_is_kept(space, surrogate):
    recorder = Recorder()
    made, inputs, outputs = task(
        space, surrogate, Context(monitor=recorder), learning_rate=0.5, epochs=12, schedule="constant"
    )
    reported = recorder.values("regression", "validation_error")
    errors = (made.predict(inputs[60:]) - surrogate.embed(outputs[60:])).square().sum(dim=1)
    assert float(errors.mean()) == pytest.approx(min(reported), rel=1e-5)
    assert min(reported) < reported[-1], "the last was not the best, else this shows nothing"


def test_patience_ends_the_training(space, surrogate):
    recorder = Recorder()
    task(space, surrogate, Context(monitor=recorder), learning_rate=1.0, epochs=100, evaluations=100, patience=3)
    assert recorder.best("regression")[-3:] == [False] * 3
    assert len(recorder.rows) < 100


def test_predictions_keep_the_order_of_the_inputs_though_like_lengths_go_together(space, surrogate, monkeypatch):
    made, inputs, _ = task(space, surrogate)
    texts = inputs[torch.randperm(80, generator=torch.Generator().manual_seed(0))]
    one_by_one = torch.cat([made.predict(texts[row : row + 1]) for row in range(80)])
    torch.testing.assert_close(made.predict(texts), one_by_one, rtol=1e-4, atol=1e-5)
    monkeypatch.setattr(neural, "CHUNK", 7)
    torch.testing.assert_close(made.predict(texts), one_by_one, rtol=1e-4, atol=1e-5)


def test_no_inputs_give_no_queries(surrogate):
    made = regressor(surrogate, ["ab"])
    assert made.predict(made.inputs.pack([])).shape == (0, 12)


@pytest.mark.parametrize(
    "backbone",
    [
        {"name": "gru", "embedding": 6, "layers": 2, "width": 8, "dropout": 0.3},
        {"name": "transformer", "layers": 1, "width": 8, "heads": 2, "dropout": 0.3},
    ],
)
def test_the_same_seed_gives_the_same_weights_also_with_dropout(space, surrogate, backbone):
    def fit(seed: int) -> Tensor:
        return weights(task(space, surrogate, Context(seed=seed), epochs=1, backbone=backbone)[0])

    torch.manual_seed(0)
    first = fit(1)
    assert torch.equal(first, fit(1))
    assert not torch.equal(first, fit(2))


def test_the_state_brings_a_fresh_regressor_to_the_same_queries(space, surrogate):
    made, inputs, _ = task(space, surrogate)
    other = regressor(surrogate, [text or "-" for text in space.unpack(random_sequences(space, 80))], seed=3)
    assert not torch.equal(other.predict(inputs), made.predict(inputs))
    other.restore(made.state())
    assert torch.equal(other.predict(inputs), made.predict(inputs))


class PlainSurrogate(LinearSurrogate):
    """Off the sphere: coordinates of very different spread, the last one the same for all structures."""

    spherical = False

    def embed(self, batch: Any) -> Tensor:
        scales = torch.logspace(1, -3, self.dim)
        scales[-1] = 0
        return (super().embed(batch) * scales + 5).float()


def test_off_the_sphere_queries_have_the_mean_and_the_spread_of_the_targets(space):
    surrogate = PlainSurrogate(PlainSurrogate.Config(dim=6), space)
    made, inputs, outputs = task(space, surrogate, epochs=30)
    targets = surrogate.embed(outputs[:60])
    state = made.state()
    torch.testing.assert_close(state["mean"], targets.mean(dim=0))
    torch.testing.assert_close(state["spread"], targets.std(dim=0, correction=0))
    queries = made.predict(inputs[:60])
    assert torch.equal(queries[:, -1], targets[:, -1]), "what does not vary is not learned but known"
    assert (queries - targets).square().sum() < 0.5 * (targets - targets.mean(dim=0)).square().sum()


def test_off_the_sphere_a_restored_regressor_predicts_the_same(space):
    surrogate = PlainSurrogate(PlainSurrogate.Config(dim=6), space)
    made, inputs, _ = task(space, surrogate)
    other = regressor(surrogate, [text or "-" for text in space.unpack(random_sequences(space, 80))], seed=3)
    other.restore(made.state())
    assert torch.equal(other.predict(inputs), made.predict(inputs))
