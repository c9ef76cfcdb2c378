"""`check_surrogate` and `check_regressor`: the laws of components that learn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from ele_core.interfaces import Regressor, Surrogate
from ele_core.runtime.context import Context
from ele_core.testing.common import COMMON, check_model_saves_and_loads, repeated_values
from ele_core.testing.networks import require_gradient_at_vertices, require_slope
from ele_core.testing.results import Broken, CheckResult, NotApplicable, after, require, run_checks
from ele_core.testing.samples import (
    SEED,
    close,
    described,
    fixed_weights,
    points,
    repeated,
    require_own_randomness,
    same_tensors,
    seeded,
    structures,
    unchanged,
    unusual_generators,
)


def same_state(left: Mapping[str, Tensor], right: Mapping[str, Tensor]) -> bool:
    """Whether two states hold the same tensors under the same names."""
    return left.keys() == right.keys() and all(torch.equal(value, right[name]) for name, value in left.items())


def require_seeded_fit(fitted: Callable[[], Surrogate | Regressor]) -> None:
    """Require two calls of `fitted` to give bit-equal states, and not to draw from a global generator."""
    made: list[Surrogate | Regressor] = []
    require_own_randomness("`fit`", lambda: made.append(fitted()))
    with unusual_generators(4711):
        made.append(fitted())
    same = same_state(made[0].state(), made[1].state())
    require(same, "two fits with the same seed give different states")


def require_anew(learner: Any, fit: Callable[[Any], None]) -> None:
    """Require that a second `fit` gives the same state as the first.

    A learner with `stages` learns step by step and may start from what it has learned (a warm start): it is first
    restored to the state before the first `fit`.
    """
    begin = {name: value.clone() for name, value in learner.state().items()}
    fit(learner)
    first = {name: value.clone() for name, value in learner.state().items()}
    unknown = any(not value.numel() for value in begin.values())  # a shape that is known only after `fit`
    if learner.stages and not unknown:
        learner.restore(begin)
    fit(learner)
    same = same_state(first, learner.state())
    if not same and learner.stages and unknown:
        raise NotApplicable("it learns step by step, and its state before `fit` cannot be restored")
    require(same, "a second `fit` on the same data gives another state: it goes on from the first. Begin anew in `fit`")


def require_data_left_alone(fit: Callable[..., None], given: Mapping[str, Any]) -> None:
    """Require that `fit`, called with the values of `given`, does not change these batches; the keys name them."""
    before = {name: batch.map(torch.clone) for name, batch in given.items()}
    fit(*given.values())
    for name, batch in given.items():
        require(same_tensors(before[name], batch), f"`fit` changes the {name} in place: clone them first")


STRUCTURES = 24
MANY = 150
"""More rows than a chunk of any usual size below it."""
NEAR = 1e-4
"""The largest rounding error of an energy, for embeddings of length 1."""


def fresh_surrogate(surrogate: Surrogate, seed: int = SEED) -> Surrogate:
    """Another surrogate of the same configuration, not fitted."""
    with fixed_weights(seed):
        return type(surrogate)(surrogate.config, surrogate.space)


def fitted_surrogate(surrogate: Surrogate) -> Surrogate:
    """A fresh surrogate of the same configuration, fitted on a few structures from a fixed seed."""
    fresh = fresh_surrogate(surrogate)
    outputs = structures(surrogate.space, STRUCTURES)
    fresh.fit(outputs, outputs[: STRUCTURES // 3], None, Context(SEED))
    return fresh


def check_surrogate_gives_embeddings(surrogate: Surrogate) -> None:
    """`embed` gives (B, dim) finite floats without gradient, and `dim` is known before `fit`."""
    batch = few(surrogate)
    found = surrogate.embed(batch)
    require(
        found.shape == (len(batch), surrogate.dim),
        f"embeddings have shape {tuple(found.shape)}, not {(len(batch), surrogate.dim)}",
    )
    require(found.is_floating_point(), f"embeddings are {found.dtype}, not floats")
    require(found.isfinite().all(), "an embedding is not finite")
    require(not found.requires_grad, "embed keeps a gradient, which costs memory: use torch.no_grad")
    known = fresh_surrogate(surrogate).dim
    require(known == surrogate.dim, f"dim is {known} before fit and {surrogate.dim} after")


@after(check_surrogate_gives_embeddings)
def check_surrogate_tells_structures_apart(surrogate: Surrogate) -> None:
    """Not all structures have the same embedding."""
    found = surrogate.embed(few(surrogate))
    require(float((found - found[:1]).abs().max()) > 0, "all structures have the same embedding")


@after(check_surrogate_tells_structures_apart)
def check_surrogate_energy_is_a_distance(surrogate: Surrogate) -> None:
    """`energy` gives (B,) finite numbers, not negative, and less for a structure's own embedding than for others.

    Unless `energies` is overridden, it is a squared distance, almost zero at the structure's own embedding.
    """
    batch = few(surrogate)
    queries = surrogate.embed(batch)
    own, other = surrogate.energy(queries, batch), surrogate.energy(queries.roll(1, dims=0), batch)
    for energy in (own, other):
        require(energy.shape == (len(batch),), f"energy has shape {tuple(energy.shape)}, not ({len(batch)},)")
        require(energy.isfinite().all() and bool((energy >= -NEAR).all()), "an energy is negative or not finite")
    require(own.mean() < other.mean(), "the energy of structures is not less at their own embedding than at another's")
    if type(surrogate).energies is Surrogate.energies:
        most, scale = float(own.max()), 1 + float(queries.square().sum(dim=1).max())
        require(most <= NEAR * scale, f"the energy at a structure's own embedding is {most:.3g}, not almost zero")


@after(check_surrogate_energy_is_a_distance)
def check_surrogate_energies_agree(surrogate: Surrogate) -> None:
    """`energies` of queries and of `embed`, or of `compact`, (B, N), are equal to `energy` of each pair."""
    batch = few(surrogate)
    embeddings = surrogate.embed(batch)
    queries, count = embeddings.flip(0), len(batch)
    for kept in (embeddings, surrogate.compact(batch)):
        table = surrogate.energies(queries, kept)
        require(table.shape == (count, count), f"energies have shape {tuple(table.shape)}, not {(count, count)}")
        for column in range(count):
            single = surrogate.energy(queries, batch[torch.full((count,), column)])
            off = float((table[:, column] - single).abs().max())
            require(off <= NEAR * (1 + float(single.max())), f"energies and energy differ by {off:.3g}")


@after(check_surrogate_energy_is_a_distance)
def check_surrogate_energy_at_vertices(surrogate: Surrogate) -> None:
    """If `differentiable`, `energy_at` a relaxed structure is its `energy`, with a finite gradient in the point."""
    if not surrogate.differentiable:
        raise NotApplicable("the surrogate has no gradient: `differentiable` is false")
    batch = few(surrogate)
    queries = surrogate.embed(batch).roll(1, dims=0)
    point = surrogate.space.relax(batch)
    leaves = {name: getattr(point, name).requires_grad_(True) for name in surrogate.space.geometry}
    found = surrogate.energy_at(queries, point.replace(**leaves))
    expected = surrogate.energy(queries, batch)
    off = float((found.detach() - expected).abs().max())
    require(off <= NEAR * (1 + float(expected.max())), f"energy_at and energy differ by {off:.3g} at vertices")
    require(found.requires_grad, "energy_at has no gradient in the point: do not detach it")
    gradients = torch.autograd.grad(found.sum(), list(leaves.values()), allow_unused=True)
    moved = [gradient for gradient in gradients if gradient is not None and bool(gradient.any())]
    require(moved, "the gradient of energy_at is zero")
    require(all(bool(gradient.isfinite().all()) for gradient in moved), "the gradient of energy_at is not finite")


@after(check_surrogate_energy_at_vertices)
def check_surrogate_energy_at_has_a_slope(surrogate: Surrogate) -> None:
    """The gradient of `energy_at` agrees with its values, and does not vanish at vertices, where descent starts."""
    if not surrogate.differentiable:
        raise NotApplicable("the surrogate has no gradient: `differentiable` is false")
    space, batch = surrogate.space, few(surrogate)
    queries = surrogate.embed(batch)
    vertices, elsewhere = space.relax(batch), points(space, len(batch), seeded())
    here, there = (energy_gradient(surrogate, queries.roll(1, dims=0), point) for point in (vertices, elsewhere))
    require_gradient_at_vertices("energy_at", vertices, here, there)
    require_slope("energy_at", space, lambda point: surrogate.energy_at(repeated_rows(queries, len(point)), point))


def energy_gradient(surrogate: Surrogate, queries: Tensor, point: Any) -> dict[str, Tensor | None]:
    """The gradient of the sum of energies in each relaxed field."""
    leaves = {name: getattr(point, name).clone().requires_grad_(True) for name in surrogate.space.geometry}
    found = surrogate.energy_at(queries, point.replace(**leaves)).sum()
    return dict(zip(leaves, torch.autograd.grad(found, list(leaves.values()), allow_unused=True), strict=True))


def repeated_rows(tensor: Tensor, count: int) -> Tensor:
    """`count` rows: those of `tensor`, repeated in turn."""
    return tensor[torch.arange(count) % len(tensor)]


@after(check_surrogate_gives_embeddings)
def check_surrogate_rows_are_independent(surrogate: Surrogate) -> None:
    """The embedding of a structure does not depend on the others; batches of one and of no structures work."""
    batch = few(surrogate)
    together = surrogate.embed(batch)
    for row in range(len(batch)):
        alone = surrogate.embed(batch[row : row + 1])
        require(close(alone, together[row : row + 1]), f"the embedding of row {row} depends on the other rows")
    empty = surrogate.embed(batch[:0])
    require(
        empty.shape == (0, surrogate.dim),
        f"embeddings of no structures have shape {tuple(empty.shape)}, not (0, {surrogate.dim})",
    )


@after(check_surrogate_energies_agree, check_surrogate_rows_are_independent)
def check_surrogate_takes_many_rows(surrogate: Surrogate) -> None:
    """`embed` and `energies` of more than a hundred structures are those of each alone."""
    batch = repeated(few(surrogate), MANY)
    found, expected = surrogate.embed(batch), repeated_rows(surrogate.embed(few(surrogate)), MANY)
    require(found.shape == expected.shape, f"`embed` of {MANY} structures gives {len(found)} embeddings")
    wrong = ~torch.isclose(found, expected, rtol=1e-4, atol=1e-5).all(dim=1)
    row = int(wrong.int().argmax())
    require(not wrong.any(), f"`embed` of {MANY} structures is wrong from row {row} on: {described_at(surrogate, row)}")
    different = torch.arange(MANY)[:, None] * 1e-3 + expected
    queries = expected[:3]
    table = surrogate.energies(queries, different)
    require(table.shape == (3, MANY), f"`energies` for {MANY} embeddings has shape {tuple(table.shape)}")
    alone = torch.cat([surrogate.energies(queries, part) for part in different.split(7)], dim=1)
    off = (table - alone).abs() > NEAR * (1 + alone.abs())
    column = int(off.any(dim=0).int().argmax())
    require(not off.any(), f"`energies` for {MANY} embeddings are wrong from embedding {column} on")


def described_at(surrogate: Surrogate, row: int) -> str:
    """The structure at a row of repeated ones."""
    return described(surrogate.space, few(surrogate), row % len(few(surrogate)))


@after(check_surrogate_gives_embeddings)
def check_surrogate_leaves_all_alone(surrogate: Surrogate) -> None:
    """`embed` changes neither its batch nor its state, and does not draw from a global generator."""
    before = {name: value.clone() for name, value in surrogate.state().items()}
    batch = few(surrogate)
    require(unchanged(batch, surrogate.embed), "embed changed its batch in place: clone it first")
    require_own_randomness("`embed`", lambda: surrogate.embed(batch))
    require(same_state(before, surrogate.state()), "embed changes the state of the surrogate")


@after(check_surrogate_gives_embeddings)
def check_surrogate_state_is_complete(surrogate: Surrogate) -> None:
    """A fresh surrogate that `restore`s this one's `state` embeds the same."""
    fresh = fresh_surrogate(surrogate, seed=99)
    fresh.restore({name: value.clone() for name, value in surrogate.state().items()})
    batch = few(surrogate)
    same = torch.equal(fresh.embed(batch), surrogate.embed(batch))
    require(same, "a restored surrogate embeds differently: `state` does not hold all that was learned")


@after(check_surrogate_state_is_complete)
def check_surrogate_fit_is_seeded(surrogate: Surrogate) -> None:
    """`fit` with the same seed and data gives a bit-equal state, and does not draw from a global generator."""
    require_seeded_fit(lambda: fitted_surrogate(surrogate))


def few(surrogate: Surrogate) -> Any:
    """Structures to embed; `fit` has seen some of them."""
    return structures(surrogate.space, STRUCTURES + 6)[-8:]


@after(check_surrogate_fit_is_seeded)
def check_surrogate_fit_leaves_its_data_alone(surrogate: Surrogate) -> None:
    """`fit` changes neither the outputs nor the validation nor the extra outputs; with extra ones, it works."""
    outputs, fresh = structures(surrogate.space, STRUCTURES), fresh_surrogate(surrogate)
    given = {"outputs": outputs, "validation outputs": outputs[:8], "extra outputs": outputs[8:]}
    copies = {name: batch.map(torch.clone) for name, batch in given.items()}
    require_data_left_alone(lambda train, held, extra: fresh.fit(train, held, extra, Context(SEED)), copies)
    require(fresh.embed(outputs).isfinite().all(), "an embedding is not finite after `fit` with extra outputs")


@after(check_surrogate_fit_leaves_its_data_alone)
def check_surrogate_fits_anew(surrogate: Surrogate) -> None:
    """A second `fit` gives the same as the first. A learner with `stages` may start from its restored `state`."""
    outputs = structures(surrogate.space, STRUCTURES)
    arguments = outputs, outputs[: STRUCTURES // 3], None
    require_anew(fresh_surrogate(surrogate), lambda learner: learner.fit(*arguments, Context(SEED)))


@after(check_surrogate_fit_leaves_its_data_alone)
def check_surrogate_fits_any_outputs(surrogate: Surrogate) -> None:
    """`fit` on copies of one structure gives finite embeddings, and `fit` depends on all outputs if on any."""
    outputs = structures(surrogate.space, STRUCTURES)

    def learned(batch: Any) -> Surrogate:
        fresh = fresh_surrogate(surrogate)
        fresh.fit(batch, outputs[:4], None, Context(SEED))
        return fresh

    constant = learned(repeated(outputs[:1], STRUCTURES))
    finite = constant.embed(outputs).isfinite().all()
    require(finite, "an embedding is not finite after `fit` on copies of one structure: guard divisions by zero")
    usual = learned(outputs)
    if same_state(usual.state(), constant.state()):
        other = learned(outputs[torch.arange(len(outputs)).roll(1)])
        require(same_state(usual.state(), other.state()), "`fit` learns only from the first output")


SURROGATE_CHECKS = (
    check_surrogate_gives_embeddings,
    check_surrogate_tells_structures_apart,
    check_surrogate_energy_is_a_distance,
    check_surrogate_energies_agree,
    check_surrogate_energy_at_vertices,
    check_surrogate_energy_at_has_a_slope,
    check_surrogate_takes_many_rows,
    check_surrogate_rows_are_independent,
    check_surrogate_leaves_all_alone,
    check_surrogate_state_is_complete,
    check_surrogate_fit_is_seeded,
    check_surrogate_fit_leaves_its_data_alone,
    check_surrogate_fits_anew,
    check_surrogate_fits_any_outputs,
    *COMMON,
    check_model_saves_and_loads,
)


def check_surrogate(surrogate: Surrogate, expected_failures: Mapping[str, str] | None = None) -> list[CheckResult]:
    """Run every check of a surrogate, on a copy fitted on a few structures. `expected_failures`: check → reason."""
    return run_checks(SURROGATE_CHECKS, (fitted_surrogate(surrogate),), expected_failures)


PAIRS = 16
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
