"""The weights of least energy: those of least squares where the energy is a squared distance."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from linear import given_pairs, outputs_only, random_sequences, sequence_space

from ele_core.components.inputs.vector import VectorInput
from ele_core.components.regressors.stacked import StackedRegressor, best_weights
from ele_core.components.surrogates.parts import PartsSurrogate
from ele_core.runtime.context import Context
from ele_sequences.g2p.regressor import StackedByEnergy, descended_weights

PARTS = {
    "network": {
        "name": "neural",
        "backbone": {"name": "mlp", "hidden": [8]},
        "training": {"epochs": 3, "batch_size": 8, "evaluations": 3},
    },
    "kernel": {"name": "sketched-ridge", "sketch": {"size": 20}},
    "copying": None,
}


def test_the_weights_of_least_energy_are_those_of_least_squares_where_the_energy_is_a_squared_distance():
    first, second, noise = torch.randn(3, 30, 4, generator=torch.Generator().manual_seed(0))
    targets = 0.25 * first + 2 * second + 0.1 * noise
    found = descended_weights([first, second], lambda queries: (queries - targets).square().sum(dim=1).mean())
    assert found.tolist() == pytest.approx(best_weights([first, second], targets).tolist(), abs=1e-2)


def test_weights_by_energy_are_as_good_as_those_by_distance_for_an_energy_that_is_a_squared_distance():
    space = sequence_space()
    outputs, values = random_sequences(space, 50), np.random.default_rng(0).normal(size=(50, 4))
    inputs = VectorInput()
    inputs.fit(values)
    surrogate = PartsSurrogate(PartsSurrogate.Config(dim=12), space)
    surrogate.fit(outputs_only(outputs, outputs), Context())
    packed = inputs.pack(values)
    errors = []
    for kind in (StackedByEnergy, StackedRegressor):
        torch.manual_seed(0)
        made = kind(kind.Config(**PARTS), inputs, surrogate)
        made.fit(given_pairs((packed[:40], outputs[:40]), (packed[40:], outputs[40:])), Context())
        errors.append(surrogate.energy(made.predict(packed[40:])).of(outputs[40:]).mean().item())
    assert errors[0] == pytest.approx(errors[1], rel=0.01)
