"""`check_regressor`: every law of a regressor, fitted on a few pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ele_core.interfaces import Regressor, Surrogate
from ele_core.runtime.context import Context
from ele_core.testing.common import COMMON
from ele_core.testing.output_measures import close
from ele_core.testing.results import CheckResult, NotApplicable, after, require, run_checks
from ele_core.testing.samples import SEED, draws_globally, fixed_weights, structures, unchanged
from ele_core.testing.saving import check_model_saves_and_loads, repeated_values
from ele_core.testing.surrogates import require_seeded_fit, same_state

PAIRS = 16

Pairs = tuple[Any, Any]


def fresh_regressor(regressor: Regressor, seed: int = SEED) -> Regressor:
    """Another regressor of the same configuration, not fitted."""
    with fixed_weights(seed):
        return type(regressor)(regressor.config, regressor.inputs, regressor.surrogate)


def sample_pairs(regressor: Regressor) -> tuple[Pairs, Pairs]:
    """Packed pairs for training, and for validation."""
    outputs = structures(regressor.surrogate.space, PAIRS)
    inputs = regressor.inputs.pack(repeated_values(regressor.inputs, len(outputs)))
    cut = max(1, len(outputs) // 4)
    return (inputs[cut:], outputs[cut:]), (inputs[:cut], outputs[:cut])


def fitted_regressor(regressor: Regressor) -> Regressor:
    """A fresh regressor of the same configuration, fitted on a few pairs from a fixed seed."""
    fresh = fresh_regressor(regressor)
    fresh.fit(*sample_pairs(regressor), Context(SEED))
    return fresh


def check_regressor_gives_queries(regressor: Regressor) -> None:
    """`predict` gives (B, q) finite floats without gradient; q is the dimension of the surrogate.

    If the surrogate defines its own `energies`, queries need not be embeddings, and q may be different.
    """
    inputs = some_inputs(regressor)
    found = regressor.predict(inputs)
    own = type(regressor.surrogate).energies is not Surrogate.energies
    shape = (len(inputs), found.shape[-1] if own else regressor.surrogate.dim)
    require(found.shape == shape, f"queries have shape {tuple(found.shape)}, not {shape}")
    require(found.is_floating_point(), f"queries are {found.dtype}, not floats")
    require(found.isfinite().all(), "a query is not finite")
    require(not found.requires_grad, "predict keeps a gradient, which costs memory: use torch.no_grad")


@after(check_regressor_gives_queries)
def check_regressor_leaves_all_alone(regressor: Regressor) -> None:
    """`predict` changes neither its batch nor its state, and does not draw from torch's global generator."""
    before = {name: value.clone() for name, value in regressor.state().items()}
    inputs = some_inputs(regressor)
    require(unchanged(inputs, regressor.predict), "predict changed its batch in place: clone it first")
    require(not draws_globally(lambda: regressor.predict(inputs)), "predict draws from torch's global generator")
    require(same_state(before, regressor.state()), "predict changes the state of the regressor")


@after(check_regressor_leaves_all_alone)
def check_regressor_rows_are_independent(regressor: Regressor) -> None:
    """The query of an input does not depend on the other inputs; batches of one and of no inputs work."""
    inputs = some_inputs(regressor)
    together = regressor.predict(inputs)
    for row in range(len(inputs)):
        alone = regressor.predict(inputs[row : row + 1])
        require(close(alone, together[row : row + 1]), f"the query of input {row} depends on the other inputs")
    empty = regressor.predict(inputs[:0])
    require(
        empty.shape == (0, together.shape[1]),
        f"queries of no inputs have shape {tuple(empty.shape)}, not (0, {together.shape[1]})",
    )


@after(check_regressor_gives_queries)
def check_regressor_keeps_the_surrogate(regressor: Regressor) -> None:
    """`fit` does not change the surrogate, whose embeddings it learns to predict."""
    before = {name: value.clone() for name, value in regressor.surrogate.state().items()}
    fresh_regressor(regressor).fit(*sample_pairs(regressor), Context(SEED))
    require(same_state(before, regressor.surrogate.state()), "fit changes the surrogate")


@after(check_regressor_leaves_all_alone)
def check_regressor_state_is_complete(regressor: Regressor) -> None:
    """A fresh regressor that `restore`s this one's `state` predicts the same."""
    fresh = fresh_regressor(regressor, seed=99)
    fresh.restore({name: value.clone() for name, value in regressor.state().items()})
    inputs = some_inputs(regressor)
    same = torch.equal(fresh.predict(inputs), regressor.predict(inputs))
    require(same, "a restored regressor predicts differently: `state` does not hold all that was learned")


@after(check_regressor_state_is_complete)
def check_regressor_ways_can_be_chosen(regressor: Regressor) -> None:
    """After `choose`, each of the `ways` gives finite queries, and a restored regressor predicts in the chosen way."""
    if not regressor.ways:
        raise NotApplicable("the regressor has only one way to predict")
    inputs = some_inputs(regressor)
    for way in regressor.ways:
        chosen = fresh_regressor(regressor, seed=99)
        chosen.restore({name: value.clone() for name, value in regressor.state().items()})
        chosen.choose(way)
        found = chosen.predict(inputs)
        require(found.isfinite().all(), f"a query is not finite in the way '{way}'")
        again = fresh_regressor(regressor, seed=98)
        again.restore({name: value.clone() for name, value in chosen.state().items()})
        require(torch.equal(again.predict(inputs), found), f"a restored regressor forgets the chosen way '{way}'")


@after(check_regressor_state_is_complete, check_regressor_keeps_the_surrogate)
def check_regressor_fit_is_seeded(regressor: Regressor) -> None:
    """`fit` with the same seed and data gives a bit-equal state, and does not draw from torch's global generator."""
    require_seeded_fit(lambda: fitted_regressor(regressor))


REGRESSOR_CHECKS = (
    check_regressor_gives_queries,
    check_regressor_leaves_all_alone,
    check_regressor_rows_are_independent,
    check_regressor_keeps_the_surrogate,
    check_regressor_state_is_complete,
    check_regressor_fit_is_seeded,
    check_regressor_ways_can_be_chosen,
    *COMMON,
    check_model_saves_and_loads,
)


def check_regressor(regressor: Regressor, expected_failures: Mapping[str, str] | None = None) -> list[CheckResult]:
    """Run every check of a regressor, on a copy fitted on a few pairs. `expected_failures`: check → reason."""
    return run_checks(REGRESSOR_CHECKS, (fitted_regressor(regressor),), expected_failures)


def some_inputs(regressor: Regressor) -> Any:
    """The examples of the regressor's inputs, packed."""
    return regressor.inputs.pack(regressor.inputs.examples())
