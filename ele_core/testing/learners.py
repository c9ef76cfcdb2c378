"""`check_surrogate` and `check_regressor`: the laws of components that learn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ele_core.components.inputs.text import TextInput
from ele_core.energies import SquaredDistance
from ele_core.interfaces import Proposer, Regressor, Surrogate
from ele_core.runtime.context import Context
from ele_core.testing.common import EVERY, repeated_values
from ele_core.testing.networks import (
    MANY,
    MAPPED,
    STRUCTURES,
    check_gives_embeddings,
    check_rows_are_independent,
    check_state_is_complete,
    few,
    fresh_of,
    packed,
    repeated_rows,
    require_gradient_at_vertices,
    require_slope,
    restored,
    state_of,
)
from ele_core.testing.results import Broken, Check, CheckResult, NotApplicable, after, laws_in, require, run_checks
from ele_core.testing.samples import (
    SEED,
    points,
    repeated,
    require_own_randomness,
    same_state,
    same_tensors,
    seeded,
    structures,
    unusual_generators,
)
from ele_core.types import Candidates, Pairs, TrainingData

NEAR = 1e-4
"""The largest rounding error of an energy, for embeddings of length 1."""
PAIRS = 16
LEARNED = 0.8
"""The energy at an input's own output after a `fit`, at most, as a share of that at other outputs."""
COPIES = 6
"""How often each pair occurs in the data whose order is changed."""

Learner = Surrogate | Regressor | Proposer


# -- fit, of all learners


def training_data(learner: Learner) -> dict[str, Any]:
    """Packed data to fit a learner on, by name."""
    if isinstance(learner, Surrogate):
        outputs = structures(learner.space, STRUCTURES)
        return {"outputs": outputs, "validation outputs": outputs[: STRUCTURES // 3]}
    space = learner.space if isinstance(learner, Proposer) else learner.surrogate.space
    outputs = structures(space, PAIRS)
    inputs = learner.inputs.pack(repeated_values(learner.inputs, len(outputs)))
    cut = max(1, len(outputs) // 4)
    training = {"inputs": inputs[cut:], "outputs": outputs[cut:]}
    return {**training, "validation inputs": inputs[:cut], "validation outputs": outputs[:cut]}


def fit(learner: Any, data: Mapping[str, Any]) -> Any:
    """Fit a learner on `training_data` from a fixed seed, and return it."""
    learner.fit(as_training_data(learner, data), Context(SEED))
    return learner


def as_training_data(learner: Learner, data: Mapping[str, Any]) -> TrainingData:
    """The data as `fit` takes them; texts are the inputs of a surrogate, which may ask for them."""
    train, held_out = data["outputs"], data["validation outputs"]
    if isinstance(learner, Regressor | Proposer):
        given = learner.inputs, Pairs(data["inputs"], train), Pairs(data["validation inputs"], held_out)
        return TrainingData(*given)
    inputs = TextInput()
    inputs.fit(inputs.examples())
    some = [inputs.pack(repeated_values(inputs, len(batch))) for batch in (train, held_out)]
    return TrainingData(inputs, Pairs(some[0], train), Pairs(some[1], held_out), data.get("extra outputs"))


def fitted_learner(learner: Any) -> Any:
    """A fresh learner of the same configuration, fitted on a few examples from a fixed seed."""
    return fit(fresh_of(learner, seed=SEED), training_data(learner))


@after(check_state_is_complete)
def check_fit_leaves_its_data_alone(learner: Learner) -> None:
    """`fit` changes none of the inputs and outputs that it is given, nor the surrogate of a regressor.

    A surrogate may also be given extra outputs.
    """
    data = training_data(learner)
    if isinstance(learner, Surrogate):
        data["extra outputs"] = data["outputs"][8:]
    given = {name: batch.map(torch.clone) for name, batch in data.items()}
    before = state_of(learner.surrogate) if isinstance(learner, Regressor) else {}
    fresh = fit(fresh_of(learner, seed=SEED), given)
    for name, batch in given.items():
        require(same_tensors(data[name], batch), f"`fit` changes the {name} in place: clone them first")
    if isinstance(learner, Surrogate):
        finite = fresh.embed(data["outputs"]).isfinite().all()
        require(finite, "an embedding is not finite after `fit` with extra outputs")
    elif isinstance(learner, Regressor):
        require(same_state(before, state_of(learner.surrogate)), "`fit` changes the surrogate")


@after(check_fit_leaves_its_data_alone)
def check_fit_is_seeded(learner: Learner) -> None:
    """`fit` with the same seed and data gives a bit-equal state, and does not draw from a global generator."""
    made: list[Learner] = []
    require_own_randomness("`fit`", lambda: made.append(fitted_learner(learner)))
    with unusual_generators(4711):
        made.append(fitted_learner(learner))
    same = same_state(made[0].state(), made[1].state())
    require(same, "two fits with the same seed give different states")


@after(check_fit_is_seeded)
def check_fits_anew(learner: Learner) -> None:
    """A second `fit` gives the same as the first.

    A learner with `stages` learns step by step and may start from what it has learned (a warm start): it is first
    restored to the state before the first `fit`.
    """
    fresh, data = fresh_of(learner, seed=SEED), training_data(learner)
    begin = state_of(fresh)
    first = state_of(fit(fresh, data))
    unknown = any(not value.numel() for value in begin.values())  # a shape that is known only after `fit`
    if learner.stages and not unknown:
        fresh.restore(begin)
    same = same_state(first, state_of(fit(fresh, data)))
    if not same and learner.stages and unknown:
        raise NotApplicable("it learns step by step, and its state before `fit` cannot be restored")
    require(same, "a second `fit` on the same data gives another state: it goes on from the first. Begin anew in `fit`")


FITTED = (check_fit_leaves_its_data_alone, check_fit_is_seeded, check_fits_anew)
"""The laws of `fit`."""


# -- surrogates


@after(check_gives_embeddings)
def check_surrogate_tells_structures_apart(surrogate: Surrogate) -> None:
    """Not all structures have the same embedding."""
    found = surrogate.embed(few(surrogate))
    require(float((found - found[:1]).abs().max()) > 0, "all structures have the same embedding")


@after(check_surrogate_tells_structures_apart)
def check_surrogate_energy_is_a_distance(surrogate: Surrogate) -> None:
    """`Energy.of` gives (B,) finite numbers, not negative, and less for a structure's own embedding than for others.

    If it is a `SquaredDistance`, it is almost zero at the structure's own embedding.
    """
    batch = few(surrogate)
    queries = surrogate.embed(batch)
    own, other = (surrogate.energy(asked).of(batch) for asked in (queries, queries.roll(1, dims=0)))
    for energy in (own, other):
        require(energy.shape == (len(batch),), f"energy has shape {tuple(energy.shape)}, not ({len(batch)},)")
        require(energy.isfinite().all() and bool((energy >= -NEAR).all()), "an energy is negative or not finite")
    require(own.mean() < other.mean(), "the energy of structures is not less at their own embedding than at another's")
    if isinstance(surrogate.energy(queries), SquaredDistance):
        most, scale = float(own.max()), 1 + float(queries.square().sum(dim=1).max())
        require(most <= NEAR * scale, f"the energy at a structure's own embedding is {most:.3g}, not almost zero")


@after(check_surrogate_energy_is_a_distance)
def check_surrogate_energies_agree(surrogate: Surrogate) -> None:
    """`Energy.among` candidates (B, N) is equal to `of` each pair, in any order."""
    batch = few(surrogate)
    embeddings = surrogate.embed(batch)
    queries, count = embeddings.flip(0), len(batch)
    energy = surrogate.energy(queries)
    require(len(energy) == count, f"the energy of {count} queries has the length {len(energy)}")
    table = energy.among(Candidates(batch, embeddings))
    require(table.shape == (count, count), f"`among` has shape {tuple(table.shape)}, not {(count, count)}")
    for column in range(count):
        single = energy.of(batch[torch.full((count,), column)])
        off = float((table[:, column] - single).abs().max())
        require(off <= NEAR * (1 + float(single.max())), f"`among` and `of` differ by {off:.3g}")
    owner = torch.arange(count).roll(1)
    expected = surrogate.energy(queries[owner]).of(batch)
    for name, found in (("of(batch, owner)", energy.of(batch, owner)), ("energy[rows]", energy[owner].of(batch))):
        off = float((found - expected).abs().max())
        require(off <= NEAR * (1 + float(expected.max())), f"`{name}` is off by {off:.3g} from the queries it names")


@after(check_surrogate_energy_is_a_distance)
def check_surrogate_energy_at_vertices(surrogate: Surrogate) -> None:
    """If an energy is `smooth`, `at` a relaxed structure is `of` it, with a finite gradient in the point."""
    batch = few(surrogate)
    queries = surrogate.embed(batch).roll(1, dims=0)
    if not surrogate.energy(queries).smooth:
        raise NotApplicable("the energy has no gradient: it is not `smooth`")
    point = surrogate.space.relax(batch)
    leaves = {name: getattr(point, name).requires_grad_(True) for name in surrogate.space.geometry}
    found = surrogate.energy(queries).at(point.replace(**leaves))
    expected = surrogate.energy(queries).of(batch)
    off = float((found.detach() - expected).abs().max())
    require(off <= NEAR * (1 + float(expected.max())), f"`at` and `of` differ by {off:.3g} at vertices")
    require(found.requires_grad, "`at` has no gradient in the point: do not detach it")
    gradients = torch.autograd.grad(found.sum(), list(leaves.values()), allow_unused=True)
    moved = [gradient for gradient in gradients if gradient is not None and bool(gradient.any())]
    require(moved, "the gradient of `at` is zero")
    require(all(bool(gradient.isfinite().all()) for gradient in moved), "the gradient of `at` is not finite")


@after(check_surrogate_energy_at_vertices)
def check_surrogate_energy_at_has_a_slope(surrogate: Surrogate) -> None:
    """The gradient of `Energy.at` agrees with its values, and does not vanish at vertices, where descent starts."""
    space, batch = surrogate.space, few(surrogate)
    queries = surrogate.embed(batch)
    if not surrogate.energy(queries).smooth:
        raise NotApplicable("the energy has no gradient: it is not `smooth`")
    vertices, elsewhere = space.relax(batch), points(space, len(batch), seeded())
    here, there = (energy_gradient(surrogate, queries.roll(1, dims=0), point) for point in (vertices, elsewhere))
    require_gradient_at_vertices("at", vertices, here, there)
    require_slope("at", space, lambda point: surrogate.energy(repeated_rows(queries, len(point))).at(point))


def energy_gradient(surrogate: Surrogate, queries: Tensor, point: Any) -> dict[str, Tensor | None]:
    """The gradient of the sum of energies in each relaxed field."""
    leaves = {name: getattr(point, name).clone().requires_grad_(True) for name in surrogate.space.geometry}
    found = surrogate.energy(queries).at(point.replace(**leaves)).sum()
    return dict(zip(leaves, torch.autograd.grad(found, list(leaves.values()), allow_unused=True), strict=True))


@after(check_surrogate_energies_agree, check_rows_are_independent)
def check_surrogate_energies_of_many(surrogate: Surrogate) -> None:
    """`Energy.among` more than a hundred candidates is that of each alone."""
    expected = repeated_rows(surrogate.embed(few(surrogate)), MANY)
    different = torch.arange(MANY)[:, None] * 1e-3 + expected
    queries = expected[:3]
    energy = surrogate.energy(queries)
    many = Candidates(repeated(few(surrogate), MANY), different)
    table = energy.among(many)
    require(table.shape == (3, MANY), f"`among` {MANY} candidates has shape {tuple(table.shape)}")
    alone = torch.cat([energy.among(many[rows]) for rows in torch.arange(MANY).split(7)], dim=1)
    off = (table - alone).abs() > NEAR * (1 + alone.abs())
    column = int(off.any(dim=0).int().argmax())
    require(not off.any(), f"`among` {MANY} candidates is wrong from candidate {column} on")


@after(check_fit_leaves_its_data_alone)
def check_surrogate_fits_any_outputs(surrogate: Surrogate) -> None:
    """`fit` on copies of one structure gives finite embeddings, and `fit` depends on all outputs if on any."""
    outputs = structures(surrogate.space, STRUCTURES)

    def learned_from(batch: Any) -> Surrogate:
        found: Surrogate = fit(fresh_of(surrogate, seed=SEED), {"outputs": batch, "validation outputs": outputs[:4]})
        return found

    constant = learned_from(repeated(outputs[:1], STRUCTURES))
    finite = constant.embed(outputs).isfinite().all()
    require(finite, "an embedding is not finite after `fit` on copies of one structure: guard divisions by zero")
    usual = learned_from(outputs)
    if same_state(usual.state(), constant.state()):
        other = learned_from(outputs[torch.arange(len(outputs)).roll(1)])
        require(same_state(usual.state(), other.state()), "`fit` learns only from the first output")


SURROGATE_CHECKS: tuple[Check, ...] = (*MAPPED, *laws_in(globals(), "check_surrogate_"), *FITTED, *EVERY)


def check_surrogate(surrogate: Surrogate, expected_failures: Mapping[str, str] | None = None) -> list[CheckResult]:
    """Run every check of a surrogate, on a copy fitted on a few structures. `expected_failures`: check → reason."""
    return run_checks(SURROGATE_CHECKS, (fitted_learner(surrogate),), expected_failures)


# -- regressors


@after(check_state_is_complete)
def check_regressor_ways_can_be_chosen(regressor: Regressor) -> None:
    """After `use_mode`, each of the `modes` gives finite queries, and a restored regressor uses the chosen one."""
    if not regressor.modes:
        raise NotApplicable("the regressor has only one way to predict")
    inputs = packed(regressor.inputs)
    for mode in regressor.modes:
        chosen = restored(fresh_of(regressor, seed=99), state_of(regressor))
        chosen.use_mode(mode)
        found = chosen.predict(inputs)
        require(found.isfinite().all(), f"a query is not finite in the mode '{mode}'")
        again = restored(fresh_of(regressor, seed=98), state_of(chosen))
        require(torch.equal(again.predict(inputs), found), f"a restored regressor forgets the chosen mode '{mode}'")


@after(check_fit_leaves_its_data_alone)
def check_regressor_fits_constant_data(regressor: Regressor) -> None:
    """`fit` on copies of one input, and on copies of one output, gives finite queries."""
    data = training_data(regressor)
    same = torch.zeros(len(data["inputs"]), dtype=torch.long)
    for what, names in (("input", ["inputs"]), ("output", ["outputs"]), ("pair", ["inputs", "outputs"])):
        try:
            fresh = fit(fresh_of(regressor, seed=SEED), {**data, **{name: data[name][same] for name in names}})
        except Exception as error:
            raise Broken(f"`fit` on copies of one {what} raises {type(error).__name__}: {error}") from error
        finite = fresh.predict(packed(regressor.inputs)).isfinite().all()
        require(finite, f"a query is not finite after `fit` on copies of one {what}: guard divisions by zero")


@after(check_fits_anew)
def check_regressor_learns_from_its_pairs(regressor: Regressor) -> None:
    """Different inputs have different queries, and it matters which output an input has, not the order of the pairs."""
    x = packed(regressor.inputs)
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


@after(check_regressor_learns_from_its_pairs)
def check_regressor_beats_the_mean(regressor: Regressor) -> None:
    """In closed form, on a few pairs, queries have less energy at their own outputs than at others.

    A regressor whose configuration has a `training` makes as many steps as it says: too few learn nothing.
    """
    if "'training'" in str(regressor.config.model_dump()):
        raise NotApplicable("it learns step by step, and a short training learns nothing")
    x = packed(regressor.inputs)
    y = structures(regressor.surrogate.space, len(x))
    own, other = 0.0, 0.0
    for seed in range(3):
        order = torch.randperm(COPIES * len(x), generator=seeded(seed))
        queries = learned(regressor, x, y, torch.arange(len(x)), order).to(regressor.surrogate.embed(y).dtype)
        energy = regressor.surrogate.energy(queries)
        own += float(energy.of(y).mean())
        other += sum(float(energy.of(y[torch.arange(len(y)).roll(by)]).mean()) for by in range(1, len(y))) / (
            len(y) - 1
        )
    require(
        own < LEARNED * other,
        f"after `fit` on {COPIES} copies of {len(x)} pairs, the energy at an input's own output is {own / 3:.3g}, at "
        f"others {other / 3:.3g}: are inputs and outputs put into the same order?",
    )


def learned(regressor: Regressor, x: Any, y: Any, partner: Tensor, order: Tensor | None = None) -> Tensor:
    """The queries of `x` after `fit` on copies of the pairs (x, y[partner]), in some order."""
    rows = torch.arange(COPIES * len(x)) % len(x)
    rows = rows if order is None else rows[order]
    data = {"inputs": x[rows], "outputs": y[partner][rows], "validation inputs": x, "validation outputs": y[partner]}
    predicted: Tensor = fit(fresh_of(regressor, seed=SEED), data).predict(x)
    return predicted.double()


REGRESSOR_CHECKS: tuple[Check, ...] = (*MAPPED, *FITTED, *laws_in(globals(), "check_regressor_"), *EVERY)


def check_regressor(regressor: Regressor, expected_failures: Mapping[str, str] | None = None) -> list[CheckResult]:
    """Run every check of a regressor, on a copy fitted on a few pairs. `expected_failures`: check → reason."""
    return run_checks(REGRESSOR_CHECKS, (fitted_learner(regressor),), expected_failures)
