"""The learned loss with a likelihood of blocks: what decoders follow, and proposers without weight."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from linear import given_pairs, random_sequences, sequence_space
from torch import Tensor

from ele_core.components.inputs.text import TextInput
from ele_core.components.regressors import joint
from ele_core.components.regressors.joint import JOINT, JointRegressor
from ele_core.energies import JointEnergy, SumOfEnergies
from ele_core.runtime.context import Context
from ele_core.testing import LinearSurrogate
from ele_core.types import Candidates, Problem

BACKBONE = {"name": "gru", "embedding": 6, "layers": 1, "width": 8}
TRAINING = {"epochs": 2, "batch_size": 16, "evaluations": 1}


class Single(LinearSurrogate):
    """Linear, in single precision."""

    def embed(self, batch: Any) -> Tensor:
        return super().embed(batch).float()


def regressor(inputs: Any, surrogate: Any) -> JointRegressor:
    network = {"backbone": BACKBONE, "training": TRAINING}
    options = {"loss": {"name": "neural", **network}, "writer": None, "blocks": {"name": "blocks", **network}}
    return JointRegressor(JointRegressor.Config(**options), inputs, surrogate)


@pytest.fixture
def fitted() -> tuple[JointRegressor, Any, Any, Problem]:
    """A regressor from a text to the sequence it spells, the packed pairs, and where decoders look."""
    space, inputs = sequence_space(), TextInput()
    surrogate = Single(Single.Config(dim=12), space)
    outputs = random_sequences(space, 80)
    texts = [text or "-" for text in space.unpack(outputs)]
    inputs.fit(texts)
    packed, made = inputs.pack(texts), regressor(inputs, surrogate)
    made.fit(given_pairs((packed[:60], outputs[:60]), (packed[60:], outputs[60:])), Context())
    candidates = Candidates(outputs[:60], surrogate.embed(outputs[:60]), surrogate=surrogate)
    return made, packed[60:], outputs[60:], Problem(space, candidates)


def test_decoders_follow_the_likelihood_of_blocks_and_know_what_truths_usually_have(fitted):
    made, inputs, truths, problem = fitted
    assert made.refine(inputs, truths, problem) == [JOINT]
    energy = made.energy(made.predict(inputs))
    assert isinstance(energy, JointEnergy)
    assert isinstance(energy.walk, SumOfEnergies)
    assert len(energy.walk.terms) == 2
    below = (energy.walk.of(truths) <= energy.walk.usual).float().mean()
    assert 0.05 <= below <= 0.15
    assert energy[:3].walk.usual == energy.walk.usual
    assert energy.proposals(3).owner.unique().tolist() == list(range(20))
    again = regressor(made.inputs, made.surrogate)
    again.restore(made.state())
    assert torch.equal(again.predict(inputs), made.predict(inputs))
    assert again.energy(again.predict(inputs)).walk.usual == pytest.approx(energy.walk.usual)


def test_a_proposer_without_weight_is_neither_asked_nor_stored(fitted, monkeypatch):
    made, inputs, truths, problem = fitted
    monkeypatch.setattr(joint, "fit_weights", lambda *_: [1.0, 0.0])
    made.refine(inputs, truths, problem)
    monkeypatch.setattr(type(made.proposers["blocks"]), "predict", None)  # calling it would fail
    queries = made.predict(inputs)
    assert torch.equal(queries, made.loss.predict(inputs))
    assert torch.equal(made.energy(queries).of(truths), made.loss.energy(queries).of(truths))
    assert not any(name.startswith("blocks") for name in made.state())
    again = regressor(made.inputs, made.surrogate)
    again.restore(made.state())
    assert torch.equal(again.predict(inputs), queries)
