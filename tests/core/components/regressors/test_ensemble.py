"""An ensemble: the mean of regressors that differ in their random numbers alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from linear import given_pairs, random_sequences, sequence_space
from recording import Memory, Recorder, Stopped
from torch.nn import functional

from ele_core.components.inputs.text import TextInput
from ele_core.components.regressors.ensemble import EnsembleRegressor
from ele_core.runtime.context import Context
from ele_core.testing import LinearSurrogate

MEMBER = {
    "name": "neural",
    "backbone": {"name": "gru", "embedding": 6, "layers": 1, "width": 8},
    "training": {"epochs": 4, "batch_size": 16, "evaluations": 2, "learning_rate": 0.02},
}


class Plain(LinearSurrogate):
    """Off the sphere."""

    spherical = False

    def embed(self, batch: Any) -> torch.Tensor:
        return super().embed(batch).float()


class Sphere(Plain):
    """On the sphere."""

    spherical = True

    def embed(self, batch: Any) -> torch.Tensor:
        return functional.normalize(super().embed(batch), dim=1)


def fitted(surrogate: type[LinearSurrogate], context: Context | None = None, members: int = 3) -> Any:
    """An ensemble from a text to the sequence it spells, with packed pairs; the last twenty are for validation."""
    space = sequence_space()
    outputs = random_sequences(space, 80)
    texts = [text or "-" for text in space.unpack(outputs)]
    inputs = TextInput()
    inputs.fit(texts)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        options = EnsembleRegressor.Config(member=MEMBER, members=members)
        made = EnsembleRegressor(options, inputs, surrogate(surrogate.Config(dim=12), space))
    packed = inputs.pack(texts)
    made.fit(given_pairs((packed[:60], outputs[:60]), (packed[60:], outputs[60:])), context or Context())
    return made, packed, outputs


@pytest.mark.parametrize("surrogate", [Plain, Sphere])
def test_queries_are_the_mean_of_members_that_differ(surrogate):
    made, packed, _ = fitted(surrogate)
    own = torch.stack([member.predict(packed) for member in made.members])
    assert not own[0].allclose(own[1])
    mean = own.mean(dim=0)
    expected = functional.normalize(mean, dim=1) if surrogate.spherical else mean
    torch.testing.assert_close(made.predict(packed), expected)


def test_the_error_of_the_mean_is_reported_and_at_most_the_mean_of_the_errors():
    recorder = Recorder()
    made, packed, outputs = fitted(Plain, Context(monitor=recorder))
    assert recorder.stages() == ["regression 1", "ensemble", "regression 2", "regression 3"]
    assert recorder.steps("ensemble") == [1, 2, 3]
    errors = [made.surrogate.energy(m.predict(packed[60:])).of(outputs[60:]).mean().item() for m in made.members]
    together = made.surrogate.energy(made.predict(packed[60:])).of(outputs[60:]).mean().item()
    assert together < sum(errors) / 3
    assert recorder.values("ensemble", "validation_error")[-1] == pytest.approx(together, rel=1e-5)


def test_members_do_not_depend_on_how_many_follow():
    two, three = (fitted(Plain, members=members)[0].state() for members in (2, 3))
    assert all(torch.equal(value, three[name]) for name, value in two.items())
    assert len(three) == 1.5 * len(two)


def test_a_training_that_is_stopped_in_any_member_ends_with_the_same_weights():
    whole = fitted(Plain)[0].state()
    for steps in (3, 20, 40):
        work = Memory(stop_after=steps)
        with pytest.raises(Stopped):
            fitted(Plain, Context(work=work))
        resumed = fitted(Plain, Context(work=Memory(work.kept)))[0].state()
        assert all(torch.equal(value, whole[name]) for name, value in resumed.items())


def test_a_restored_ensemble_predicts_the_same():
    made, packed, _ = fitted(Plain)
    other = EnsembleRegressor(made.config, made.inputs, made.surrogate)
    other.restore(made.state())
    assert torch.equal(other.predict(packed), made.predict(packed))
    assert other.predict(packed[:0]).shape == (0, 12)
