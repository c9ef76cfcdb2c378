"""The learned loss with proposers: weights, modes, queries, saving, and files made by somebody else."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from linear import given_pairs, random_sequences, sequence_space
from mistakes.bases import vectors
from mistakes.of_proposers import Nearby
from recording import Memory, Recorder, Stopped

from ele_core import Record, hookimpl
from ele_core.components.regressors.joint import ALONE, JOINT, JointRegressor
from ele_core.energies import JointEnergy, SumOfEnergies
from ele_core.errors import ModelError
from ele_core.plugins import Registry, registry
from ele_core.runtime.budget import Budget, TooLittleTime
from ele_core.runtime.context import Context
from ele_core.testing import LinearSurrogate
from ele_core.types import Candidates, PlannedStage, Problem, Stage

NETWORK = {
    "name": "neural",
    "backbone": {"name": "mlp", "hidden": [4]},
    "training": {"epochs": 1, "batch_size": 8, "evaluations": 1},
    "weigh_errors": False,
}


class Costly(Nearby):
    """A proposer whose energies take long."""

    def energy(self, queries):
        found = super().energy(queries)
        return type("CostlyEnergy", (type(found),), {"costly": True})(self, queries)


class Mute(Nearby):
    """A proposer that found that it cannot propose."""

    def predict(self, inputs):
        return inputs.values[:, :0]


@pytest.fixture(scope="module")
def known() -> Registry:
    class Plugin:
        @hookimpl
        def ele_proposers(self):
            for cls in (Nearby, Costly, Mute, Hurried):
                yield Record(cls.__name__.lower(), cls, "Outputs of near inputs.")

    own = Registry(registry().plugins())
    own.register(Plugin())
    return own


@pytest.fixture
def made(known):
    return fitted(known)


def fitted(known: Registry, writer: str = "nearby", context: Context | None = None, **more: Any) -> Any:
    """A fitted regressor, with its packed inputs and outputs: each input has an output of its own."""
    space, inputs = sequence_space(), vectors()
    outputs = random_sequences(space, 12)
    values = torch.randn(12, inputs.dimension, generator=torch.Generator().manual_seed(0)).tolist()
    packed = inputs.pack(values)
    torch.manual_seed(0)
    surrogate = LinearSurrogate(LinearSurrogate.Config(dim=12), space)
    section = {"name": "joint", "loss": NETWORK, "writer": writer, **more}
    regressor = known.create("regressor", section, inputs, surrogate)
    regressor.fit(given_pairs((packed, outputs), (packed[:6], outputs[:6])), context or Context())
    return regressor, packed, outputs, Problem(space, Candidates(outputs, surrogate.embed(outputs).float()))


def test_weights_are_fitted_so_that_truths_win(made):
    regressor, packed, outputs, problem = made
    assert isinstance(regressor, JointRegressor)
    assert regressor.refine(packed, outputs, problem) == [JOINT]
    assert float(regressor.weights[0]) > 0
    regressor.use_mode(JOINT)
    energy = regressor.energy(regressor.predict(packed))
    assert isinstance(energy, JointEnergy)
    alone = regressor.loss.energy(regressor.loss.predict(packed))
    both, one = (each.among(problem.candidates).argmin(dim=1) for each in (energy, alone))
    truth = torch.arange(len(outputs))
    assert int((both == truth).sum()) > int((one == truth).sum())
    proposer = regressor.proposers["writer"]
    expected = alone.of(outputs) + regressor.weights[0] * proposer.energy(proposer.predict(packed)).of(outputs)
    assert torch.allclose(energy.of(outputs), expected)


def test_a_loss_without_modes_can_be_used_alone(made):
    regressor, packed, outputs, problem = made
    assert list(regressor.modes) == [ALONE]
    regressor.refine(packed, outputs, problem)
    regressor.use_mode(ALONE)
    assert regressor.joint is False
    assert regressor.predict(packed).shape[1] == 12
    assert not isinstance(regressor.energy(regressor.predict(packed)), SumOfEnergies)


def test_oracle_queries_are_those_of_the_loss(made):
    regressor, packed, outputs, problem = made
    regressor.refine(packed, outputs, problem)
    regressor.use_mode(JOINT)
    ideal = regressor.ideal_queries(outputs)
    assert ideal.shape[1] > sum(regressor.widths[1:]), "wider than the queries of the proposer"
    assert torch.allclose(regressor.energy(ideal).of(outputs), torch.zeros(12, dtype=torch.float64), atol=1e-6)


def test_decoders_follow_what_is_not_costly(known):
    for name, followed in (("nearby", SumOfEnergies), ("costly", None)):
        regressor, packed, *_ = fitted(known, name)
        regressor.weights = torch.ones(1)
        regressor.use_mode(JOINT)
        energy = regressor.energy(regressor.predict(packed))
        assert isinstance(energy.walk, followed or type(regressor.loss.energy(packed.values)))
        assert len(energy[2:5].walk) == 3
        assert energy.proposals(3).owner.unique().tolist() == list(range(12))


def test_without_a_proposer_that_can_propose_nothing_is_refined(known):
    regressor, packed, outputs, problem = fitted(known, "mute")
    assert list(regressor.refine(packed, outputs, problem)) == []
    assert regressor.energy(regressor.predict(packed)).proposals(3) is None


def test_several_proposers_have_a_weight_each(known):
    regressor, packed, outputs, problem = fitted(known, "mute", blocks="costly", aligned="nearby")
    regressor.refine(packed, outputs, problem)
    weights = dict(zip(regressor.proposers, regressor.weights.tolist(), strict=True))
    assert weights["writer"] == 0
    assert weights["aligned"] + weights["blocks"] > 0
    regressor.use_mode(JOINT)
    assert regressor.energy(regressor.predict(packed)).of(outputs).isfinite().all()


@pytest.mark.parametrize("mode", [JOINT, ALONE, None])
def test_a_restored_regressor_gives_the_same(known, made, mode):
    regressor, packed, outputs, problem = made
    if mode is not None:
        regressor.refine(packed, outputs, problem)
        regressor.use_mode(mode)
    torch.manual_seed(7)
    section = {"name": "joint", **regressor.config.model_dump(mode="json")}
    other = known.create("regressor", section, regressor.inputs, regressor.surrogate)
    other.restore(dict(sorted(regressor.state().items())))
    assert other.joint == regressor.joint
    energies = [each.energy(each.predict(packed)) for each in (regressor, other)]
    assert torch.equal(*(energy.of(outputs) for energy in energies))
    assert any(name.startswith("writer.") for name in regressor.state()) == (mode != ALONE)


def test_a_stopped_training_skips_what_was_finished(known):
    whole = fitted(known)[0].state()
    work = Memory(stop_after=2)
    with pytest.raises(Stopped):
        fitted(known, context=Context(work=work))
    resumed = fitted(known, context=Context(work=Memory(work.kept)))[0].state()
    assert all(torch.equal(value, resumed[name]) for name, value in whole.items())
    done = Memory()
    fitted(known, context=Context(work=done))
    recorder = Recorder()
    again = fitted(known, context=Context(work=Memory(done.kept), monitor=recorder))[0].state()
    assert recorder.rows == []
    assert all(torch.equal(value, again[name]) for name, value in whole.items())


class Hurried(Nearby):
    """A proposer that trains a network for which there is too little time."""

    stages = (Stage("hurried", decides="error"),)

    def planned(self, examples, extra):
        return [PlannedStage("hurried", 5)]

    def fit(self, data, context):
        if context.budget is not None and context.budget.dispensable:
            raise TooLittleTime("time for only 1 of 5 steps in 1 s")
        super().fit(data, context)


def test_the_cheapest_proposers_are_fitted_first(known):
    recorder = Recorder()
    regressor, *_ = fitted(known, "hurried", Context(monitor=recorder), aligned="nearby")
    assert list(regressor.seconds) == ["loss", "aligned", "writer"]
    assert [stage.name for stage in regressor.planned(12, 0)][-1] == "hurried"
    assert list(regressor.proposers) == ["writer", "aligned"], "the order in which weights are stored"


def test_a_proposer_without_time_is_left_out_also_after_a_stop(known):
    work, recorder = Memory(), Recorder()
    context = Context(work=work, monitor=recorder, budget=Budget(60.0, []))
    regressor, packed, outputs, problem = fitted(known, "hurried", context, aligned="nearby")
    assert "hurried is left out: time for only 1 of 5 steps in 1 s" in recorder.messages
    assert list(regressor.refine(packed, outputs, problem)) == [JOINT]
    regressor.use_mode(JOINT)
    assert regressor.energy(regressor.predict(packed)).of(outputs).isfinite().all()
    assert not any(name.startswith("writer.") for name in regressor.state())
    lacking = {member.name: member.lacking for member in regressor.weighed(packed)}
    assert lacking == {"learned loss": "", "hurried": "time for only 1 of 5 steps in 1 s", "nearby": ""}
    resumed = fitted(known, "hurried", Context(work=Memory(work.kept)), aligned="nearby")[0]
    assert resumed.widths[1] == 0, "although there is no budget any more"


def test_members_are_told_with_their_weights_times_and_reasons(known):
    regressor, packed, outputs, problem = fitted(known, "mute", aligned="nearby")
    regressor.refine(packed, outputs, problem)
    loss, *others = regressor.weighed(packed)
    assert (loss.name, loss.weight, loss.energy) == ("learned loss", 1.0, None)
    found = {member.name: member for member in others}
    assert found["mute"].lacking
    assert found["mute"].energy is None
    assert found["nearby"].weight == pytest.approx(float(regressor.weights[1]))
    assert found["nearby"].energy.proposals(1) is not None
    assert all(member.seconds >= 0 for member in (loss, *others))
    section = {"name": "joint", **regressor.config.model_dump(mode="json")}
    other = known.create("regressor", section, regressor.inputs, regressor.surrogate)
    other.restore(regressor.state())
    assert [member.seconds for member in other.weighed(packed)] == [None] * 3


@pytest.mark.parametrize(
    "change",
    [
        {"weights": torch.ones(3)},
        {"widths": torch.tensor([1, 2, 3])},
        {"widths": torch.tensor([12, -3])},
        {"joint": torch.tensor([0.5])},
        {"joint": torch.zeros(2)},
    ],
)
def test_a_damaged_state_is_refused(made, change):
    regressor = made[0]
    with pytest.raises(ModelError, match="weights of the proposers"):
        regressor.restore({**regressor.state(), **change})
