"""`check_regressor`: every law of a regressor, fitted on a few pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ele_core.interfaces import Regressor, Surrogate
from ele_core.runtime.context import Context
from ele_core.testing.common import COMMON
from ele_core.testing.fitting import require_anew, require_data_left_alone, require_seeded_fit, same_state
from ele_core.testing.global_generators import require_own_randomness
from ele_core.testing.output_measures import close
from ele_core.testing.results import Broken, CheckResult, NotApplicable, after, require, run_checks
from ele_core.testing.samples import SEED, fixed_weights, repeated, seeded, structures, unchanged
from ele_core.testing.saving import check_model_saves_and_loads, repeated_values

PAIRS = 16
MANY = 150
"""More rows than a chunk of any usual size below it."""
COPIES = 6
"""How often each pair occurs in the data whose order is changed."""

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
    """`predict` changes neither its batch nor its state, and does not draw from a global generator."""
    before = {name: value.clone() for name, value in regressor.state().items()}
    inputs = some_inputs(regressor)
    require(unchanged(inputs, regressor.predict), "predict changed its batch in place: clone it first")
    require_own_randomness("`predict`", lambda: regressor.predict(inputs))
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
    """`fit` with the same seed and data gives a bit-equal state, and does not draw from a global generator."""
    require_seeded_fit(lambda: fitted_regressor(regressor))


@after(check_regressor_rows_are_independent)
def check_regressor_takes_many_rows(regressor: Regressor) -> None:
    """`predict` of more than a hundred inputs gives the query of each."""
    inputs = some_inputs(regressor)
    found, expected = regressor.predict(repeated(inputs, MANY)), regressor.predict(inputs)
    require(len(found) == MANY, f"`predict` of {MANY} inputs gives {len(found)} queries")
    wrong = ~torch.isclose(found, expected[torch.arange(MANY) % len(inputs)], rtol=1e-4, atol=1e-5).all(dim=1)
    row = int(wrong.int().argmax())
    require(not wrong.any(), f"`predict` of {MANY} inputs is wrong from row {row} on")


@after(check_regressor_fit_is_seeded)
def check_regressor_fit_leaves_its_data_alone(regressor: Regressor) -> None:
    """`fit` changes neither the inputs nor the outputs of its training and validation pairs."""
    fresh, (train, validation) = fresh_regressor(regressor), sample_pairs(regressor)
    names = ("training inputs", "training outputs", "validation inputs", "validation outputs")
    given = dict(zip(names, (batch.map(torch.clone) for batch in (*train, *validation)), strict=True))
    require_data_left_alone(lambda x, y, u, v: fresh.fit((x, y), (u, v), Context(SEED)), given)


@after(check_regressor_fit_leaves_its_data_alone)
def check_regressor_fits_anew(regressor: Regressor) -> None:
    """A second `fit` gives the same as the first. A learner with `stages` may start from its restored `state`."""
    pairs = sample_pairs(regressor)
    require_anew(fresh_regressor(regressor), lambda learner: learner.fit(*pairs, Context(SEED)))


@after(check_regressor_fit_leaves_its_data_alone)
def check_regressor_fits_constant_data(regressor: Regressor) -> None:
    """`fit` on copies of one input, and on copies of one output, gives finite queries."""
    (x, y), validation = sample_pairs(regressor)
    same = torch.zeros(len(x), dtype=torch.long)
    for what, train in (("input", (x[same], y)), ("output", (x, y[same])), ("pair", (x[same], y[same]))):
        fresh = fresh_regressor(regressor)
        try:
            fresh.fit(train, validation, Context(SEED))
        except Exception as error:
            raise Broken(f"`fit` on copies of one {what} raises {type(error).__name__}: {error}") from error
        finite = fresh.predict(some_inputs(regressor)).isfinite().all()
        require(finite, f"a query is not finite after `fit` on copies of one {what}: guard divisions by zero")


@after(check_regressor_fits_anew)
def check_regressor_learns_from_its_pairs(regressor: Regressor) -> None:
    """Different inputs have different queries, and it matters which output an input has, not the order of the pairs."""
    x = some_inputs(regressor)
    count = len(x)
    y = structures(regressor.surrogate.space, count)
    if len(y) < count or count < 3:
        raise NotApplicable("there are too few different inputs or outputs")
    usual = learned(regressor, x, y, torch.arange(count))
    spread, size = float((usual - usual.mean(dim=0)).abs().max()), float(usual.abs().max())
    require(spread > 1e-6 * (1 + size), "all inputs have the same query: `predict` ignores its input")
    shuffles = [torch.randperm(COPIES * count, generator=seeded(seed)) for seed in range(2)]
    moved = [learned(regressor, x, y, torch.arange(count), order) for order in shuffles]
    exchanged = learned(regressor, x, y, torch.arange(count).roll(1))
    by_order = sum(float((usual - each).square().mean().sqrt()) for each in moved) / len(moved)
    by_pairs = float((usual - exchanged).square().mean().sqrt())
    require(
        by_order < by_pairs,
        f"pairs in another order change the queries by {by_order:.3g}, pairs of other outputs by {by_pairs:.3g}: are "
        "inputs and outputs put into the same order? If so, configure more training for this check",
    )


def learned(regressor: Regressor, x: Any, y: Any, partner: Tensor, order: Tensor | None = None) -> Tensor:
    """The queries of `x` after `fit` on copies of the pairs (x, y[partner]), in some order."""
    rows = torch.arange(COPIES * len(x)) % len(x)
    rows = rows if order is None else rows[order]
    fresh = fresh_regressor(regressor)
    fresh.fit((x[rows], y[partner][rows]), (x, y[partner]), Context(SEED))
    return fresh.predict(x).double()


REGRESSOR_CHECKS = (
    check_regressor_gives_queries,
    check_regressor_leaves_all_alone,
    check_regressor_rows_are_independent,
    check_regressor_keeps_the_surrogate,
    check_regressor_state_is_complete,
    check_regressor_takes_many_rows,
    check_regressor_fit_is_seeded,
    check_regressor_fit_leaves_its_data_alone,
    check_regressor_fits_anew,
    check_regressor_fits_constant_data,
    check_regressor_learns_from_its_pairs,
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
