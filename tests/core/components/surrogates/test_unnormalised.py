"""The contrastive surrogate off the sphere: scaled, untrained or trained, with weighted energies and gradients."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from linear import outputs_only

from ele_core import StructuredPredictor
from ele_core.components.surrogates.contrastive import ContrastiveSurrogate, Views
from ele_core.energies import WeightedDistance
from ele_core.errors import ModelError
from ele_core.runtime.context import Context
from ele_core.testing import check_surrogate
from ele_sequences.number_words import spell
from ele_sequences.space import SequenceSpace

SPACE = SequenceSpace(SequenceSpace.Config(alphabet=tuple("abc"), length=5))
TRAINING = {"epochs": 8, "batch_size": 32, "evaluations": 4, "learning_rate": 0.003}
ADDITIVE: dict[str, Any] = {
    "name": "contrastive",
    "dim": 64,
    "spherical": False,
    "training": None,
    "encoder": {"name": "contexts"},
}


def surrogate(**options: Any) -> ContrastiveSurrogate:
    settings = {name: value for name, value in {**ADDITIVE, **options}.items() if name != "name"}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return ContrastiveSurrogate(ContrastiveSurrogate.Config(**settings), SPACE)


def outputs(count: int, seed: int = 0) -> Any:
    labels = SPACE.geometry["tokens"].sample_labels(count, torch.Generator().manual_seed(seed))
    return SPACE.unrelax(SPACE.relax(SPACE.Batch(labels)))


@pytest.mark.parametrize("training", [None, TRAINING])
def test_it_has_a_spread_of_one_and_is_restored(training):
    made = surrogate(training=training)
    made.fit(outputs_only(outputs(100), outputs(30, 1)), Context())
    embedded = made.embed(outputs(100))
    assert float((embedded - embedded.mean(0)).square().sum(1).mean()) == pytest.approx(1, abs=1e-4)
    torch.testing.assert_close(made.embed_at(SPACE.relax(outputs(100))), embedded, rtol=1e-4, atol=1e-5)
    again = surrogate(training=training)
    again.restore(made.state())
    assert torch.equal(again.embed(outputs(100)), embedded)


def test_without_training_the_weights_stay_and_nothing_is_planned():
    made = surrogate()
    before = {name: value.clone() for name, value in made.encoder.state_dict().items()}
    made.fit(outputs_only(outputs(40), outputs(10)), Context())
    assert all(torch.equal(value, before[name]) for name, value in made.encoder.state_dict().items())
    assert made.planned(100, 0) == []


def test_it_keeps_the_laws():
    assert [str(result) for result in check_surrogate(surrogate()) if result.status == "failed"] == []


def test_training_lessens_the_contrastive_loss_of_other_structures():
    def loss(made: ContrastiveSurrogate) -> float:
        made.fit(outputs_only(outputs(100), outputs(30, 1)), Context())
        return Views(made, outputs(100, 2), Context()).evaluate()["validation_loss"]

    assert loss(surrogate(training=TRAINING)) < 0.98 * loss(surrogate())


def test_equal_outputs_give_a_finite_embedding():
    made = surrogate()
    made.fit(outputs_only(SPACE.pack(["ab"] * 20), SPACE.pack(["ab"])), Context())
    assert made.scale == 1
    assert bool(made.embed(SPACE.pack(["ab", "c"])).isfinite().all())


@pytest.mark.parametrize("scale", [None, torch.zeros(1), torch.ones(2), torch.tensor([torch.inf])])
def test_a_state_without_a_proper_scale_is_refused(scale):
    state = {name: value for name, value in surrogate().state().items() if name != "embedding_scale"}
    with pytest.raises(ModelError, match="scale"):
        surrogate().restore(state if scale is None else {**state, "embedding_scale": scale})


@pytest.mark.parametrize("decoder", ["pgd", "search"])
def test_a_kernel_with_weighted_energies_learns_numbers_with_every_decoder(decoder, tmp_path):
    numbers = torch.randperm(1000, generator=torch.Generator().manual_seed(0))[:320].tolist()
    words, digits = [spell(number) for number in numbers], [str(number) for number in numbers]
    predictor = StructuredPredictor(
        "sequence",
        surrogate=ADDITIVE,
        regressor={"name": "sketched-ridge", "weigh_errors": True},
        decoder=decoder,
    ).fit(words[:270], digits[:270], validation=30)
    model = predictor.model_
    assert isinstance(model.regressor.energy(model.queries(words[:2])), WeightedDistance)
    predictor.save(tmp_path / "model")
    found = StructuredPredictor.load(tmp_path / "model").predict(words[270:])
    assert found == predictor.predict(words[270:])
    assert sum(one == other for one, other in zip(found, digits[270:], strict=True)) >= 15
