"""Stacked regressors and copying: weights, choosing, saving, stopping, and files made by somebody else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from linear import given_pairs, outputs_only, random_sequences, sequence_space
from pydantic import ValidationError
from recording import Memory, Recorder, Stopped

from ele_core import StructuredPredictor
from ele_core.components.inputs.vector import VectorInput
from ele_core.components.regressors.nearest import NearestRegressor
from ele_core.components.regressors.stacked import ALONE, COPIED, MODES, STACKED, StackedRegressor, best_weights
from ele_core.components.surrogates.parts import PartsSurrogate
from ele_core.energies import WeightedDistance
from ele_core.errors import ModelError
from ele_core.runtime.context import Context
from ele_sequences.number_words import spell

NETWORK = {
    "name": "neural",
    "backbone": {"name": "mlp", "hidden": [8]},
    "training": {"epochs": 3, "batch_size": 8, "evaluations": 3},
}
KERNEL = {"name": "sketched-ridge", "sketch": {"size": 20}}


def data() -> tuple[VectorInput, PartsSurrogate, Any, Any]:
    """Vectors, an embedding of sequences, and the packed pairs: 40 to train, 10 to validate."""
    space = sequence_space()
    outputs = random_sequences(space, 50)
    values = np.random.default_rng(0).normal(size=(50, 4))
    inputs = VectorInput()
    inputs.fit(values)
    surrogate = PartsSurrogate(PartsSurrogate.Config(dim=12), space)
    surrogate.fit(outputs_only(outputs, outputs), Context())
    packed = inputs.pack(values)
    return inputs, surrogate, (packed[:40], outputs[:40]), (packed[40:], outputs[40:])


def stack(context: Context | None = None, **options: Any) -> tuple[StackedRegressor, Any, Any]:
    inputs, surrogate, train, validation = data()
    config = StackedRegressor.Config(**{"network": NETWORK, "kernel": KERNEL, **options})
    torch.manual_seed(0)
    made = StackedRegressor(config, inputs, surrogate)
    made.fit(given_pairs(train, validation), context or Context())
    return made, train, validation


def fresh(made: StackedRegressor) -> StackedRegressor:
    return StackedRegressor(made.config, made.inputs, made.surrogate)


# -- weights ------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 6), st.integers(1, 3))
def test_the_weights_are_those_of_non_negative_least_squares(seed, count, rows, dim):
    optimize = pytest.importorskip("scipy.optimize")
    generator = torch.Generator().manual_seed(seed)
    predicted = [torch.randn(rows, dim, generator=generator) for _ in range(count)]
    targets = torch.randn(rows, dim, generator=generator)
    found = best_weights(predicted, targets).double()
    assert bool((found >= 0).all())
    matrix = torch.stack([own.flatten() for own in predicted], dim=1).double()
    _, least = optimize.nnls(matrix.numpy(), targets.flatten().double().numpy())
    assert float((matrix @ found - targets.flatten().double()).norm()) == pytest.approx(least, abs=1e-4)


def test_the_weights_of_a_sum_are_found():
    first, second = torch.randn(2, 30, 4, generator=torch.Generator().manual_seed(0))
    assert best_weights([first, second], 0.25 * first + 2 * second).tolist() == pytest.approx([0.25, 2.0], abs=1e-4)
    assert best_weights([first, second], first - second).tolist()[1] == 0.0, "never negative"


def test_a_regressor_no_part_of_which_helps_predicts_with_the_better_part(monkeypatch):
    monkeypatch.setattr(
        "ele_core.components.regressors.stacked.best_weights", lambda predicted, _: torch.zeros(len(predicted))
    )
    made, _, validation = stack()
    assert sorted(made.weights) == [0.0, 1.0]
    errors = {
        name: (made.parts[name].predict(validation[0]) - made.surrogate.embed(validation[1])).square().sum()
        for name in ("network", "kernel")
    }
    best = min(errors, key=lambda name: errors[name])
    assert torch.equal(made.predict(validation[0]), made.parts[best].predict(validation[0]))


# -- predicting and choosing --------------------------------------------------------------------------------------


def test_it_predicts_the_weighted_sum_and_is_no_worse_than_its_parts():
    made, _, validation = stack()
    parts = [made.parts[name].predict(validation[0]) for name in ("network", "kernel")]
    expected = sum(weight * part for weight, part in zip(made.weights, parts, strict=True))
    torch.testing.assert_close(made.predict(validation[0]), expected)
    targets = made.surrogate.embed(validation[1])
    errors = [float((each - targets).square().sum()) for each in (expected, *parts)]
    assert errors[0] <= min(errors[1:]) + 1e-4


def test_its_stages_are_reported_under_the_names_of_its_parts():
    recorder = Recorder()
    stack(Context(monitor=recorder))
    assert recorder.stages() == ["kernel", "copying", "network"], "the cheapest first"
    assert recorder.messages[-1].startswith("regression error on validation pairs: network ")


def test_copying_is_one_of_its_ways_only_if_it_is_there():
    made, train, _ = stack()
    assert list(made.modes) == [STACKED, COPIED]
    made.use_mode(COPIED)
    assert torch.equal(made.predict(train[0][:5]), made.surrogate.embed(train[1][:5])), "their own outputs"
    assert list(stack(copying=None)[0].modes) == []


def test_it_needs_at_least_one_part():
    with pytest.raises(ValidationError, match="keep at least one"):
        StackedRegressor.Config(network=None, kernel=None, copying=None)


# -- saving -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [STACKED, COPIED, None])
def test_a_restored_one_predicts_the_same_and_can_still_choose(mode):
    made, train, validation = stack()
    if mode is not None:
        made.use_mode(mode)
    again = fresh(made)
    again.restore(made.state())
    assert torch.equal(again.predict(validation[0]), made.predict(validation[0]))
    if mode is None:  # a training that was stopped before the choice
        again.use_mode(COPIED)
        assert torch.equal(again.predict(train[0][:3]), made.surrogate.embed(train[1][:3]))


def test_the_training_inputs_are_stored_only_if_they_are_needed():
    made, *_ = stack()
    made.use_mode(STACKED)
    assert not any(name.startswith("copying.") for name in made.state())
    made.use_mode(COPIED)
    assert len(made.state()["copying.inputs.values"]) == 40
    assert not any(name.startswith("kernel.") for name in made.state())


@pytest.mark.parametrize(
    ("mode", "name", "value"),
    [
        (COPIED, "weights", torch.ones(3)),
        (COPIED, "mode", torch.ones(2)),
        (COPIED, "mode", torch.tensor([0.5])),
        (COPIED, "mode", torch.tensor([7.0])),
        (STACKED, "kernel.weights", torch.zeros(2, 2)),
        (COPIED, "copying.queries", torch.zeros(40, 5)),
        (COPIED, "copying.queries", torch.zeros(39, 12)),
        (COPIED, "copying.queries", torch.full((40, 12), torch.nan)),
        (COPIED, "copying.inputs.values", torch.zeros(7, 4)),
    ],
)
def test_a_state_of_another_shape_is_refused(mode, name, value):
    made, *_ = stack()
    made.use_mode(mode)
    state = made.state()
    assert name in state
    with pytest.raises(ModelError):
        fresh(made).restore({**state, name: value})


@pytest.mark.parametrize(("mode", "missing"), [(COPIED, "copying."), (STACKED, "kernel."), (STACKED, "network.")])
def test_a_state_without_a_part_that_is_used_is_refused(mode, missing):
    made, *_ = stack()
    made.use_mode(mode)
    state = {name: value for name, value in made.state().items() if not name.startswith(missing)}
    assert len(state) < len(made.state())
    with pytest.raises((ModelError, KeyError, RuntimeError)):
        fresh(made).restore(state)


def test_it_is_refused_before_it_is_fitted():
    inputs, surrogate, train, _ = data()
    config = StackedRegressor.Config(network=NETWORK)
    for made in (StackedRegressor(config, inputs, surrogate), NearestRegressor(None, inputs, surrogate)):
        with pytest.raises(ModelError, match="used before it was fitted"):
            made.predict(train[0])


# -- one regressor alone, with energies that weigh its errors -------------------------------------------------------


@pytest.mark.parametrize("name", ["kernel", "network"])
def test_a_part_with_its_errors_is_one_of_its_ways_if_they_are_measured(name, monkeypatch):
    other = "network" if name == "kernel" else "kernel"
    unmeasured = {other: {**{"kernel": KERNEL, "network": NETWORK}[other], "weigh_errors": False}}
    assert list(stack(**unmeasured)[0].modes) == [STACKED, COPIED], "too few pairs"
    monkeypatch.setattr("ele_core.components.regressors.measured.LEAST_PAIRS", 30)
    made, _, validation = stack(**unmeasured)
    alone = ALONE[name]
    assert list(made.modes) == [alone, STACKED, COPIED]
    assert list(stack(**unmeasured, copying=None)[0].modes) == [alone, STACKED]
    for mode, weighs in ((alone, True), (STACKED, False), (COPIED, False), (alone, True)):
        made.use_mode(mode)
        assert isinstance(made.energy(made.predict(validation[0])), WeightedDistance) is weighs
    assert torch.equal(made.predict(validation[0]), made.parts[name].predict(validation[0]))
    again = fresh(made)
    state = made.state()
    again.restore(state)
    assert not any(key.startswith(("kernel." if other == "kernel" else "copying.", "copying.")) for key in state)
    queries = made.predict(validation[0])
    assert torch.equal(again.predict(validation[0]), queries)
    assert torch.equal(again.energy(queries).of(validation[1]), made.energy(queries).of(validation[1]))
    assert made.energy(queries).errors is made.parts[name].errors
    with pytest.raises((ModelError, KeyError, RuntimeError)):
        fresh(made).restore({key: value for key, value in state.items() if not key.startswith(f"{name}.")})


def test_a_saved_model_loads_in_every_mode(tmp_path):
    words, digits = zip(*((spell(number), str(number)) for number in range(260)), strict=True)
    network = {"name": "neural", "backbone": {"name": "gru", "width": 4}, "training": {"epochs": 1}}
    stacked = {"name": "stacked", "network": network, "kernel": {"name": "sketched-ridge", "sketch": {"size": 32}}}
    surrogate = {"dim": 8, "decisions": "none"}
    predictor = StructuredPredictor("sequence", surrogate=surrogate, regressor=stacked, decoder="candidates")
    predictor.fit(words, digits)
    modes = predictor.model_.regressor.modes
    assert len(modes) == len(MODES)
    for mode in modes:
        predictor.model_.regressor.use_mode(mode)
        predictor.save(tmp_path / mode)
        again = StructuredPredictor.load(tmp_path / mode)
        assert again.model_.regressor.mode == mode
        assert again.predict(words[:9]) == predictor.predict(words[:9])


def test_all_its_ways_are_listed_the_weighing_ones_first(monkeypatch):
    monkeypatch.setattr("ele_core.components.regressors.measured.LEAST_PAIRS", 30)
    made, *_ = stack()
    assert list(made.modes) == ["kernel, errors weighed", "network, errors weighed", "stacked", "copied"]
    assert made.mode is None
    assert made.errors is None, "until one is chosen"


# -- stopping -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 7, 15, 16])
def test_a_stopped_one_ends_as_if_nothing_had_happened(steps):
    """The first step is of the kernel; three epochs of five batches are 15 steps of the network."""
    undisturbed, _, validation = stack()
    work = Memory(stop_after=steps)
    with pytest.raises(Stopped):
        stack(Context(work=work))
    assert ("regressor kernel" in work.kept) == (steps > 1)
    again, *_ = stack(Context(work=Memory(work.kept)))
    assert again.weights == undisturbed.weights
    assert torch.equal(again.predict(validation[0]), undisturbed.predict(validation[0]))
