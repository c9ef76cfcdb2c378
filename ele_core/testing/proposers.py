"""`check_proposer`: the laws of conditional distributions of structures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ele_core.interfaces import Energy, Proposer
from ele_core.numerics.keys import distinct
from ele_core.testing.common import EVERY
from ele_core.testing.learners import FITTED, fit, fitted_learner, training_data
from ele_core.testing.networks import MANY, MAPPED, check_state_is_complete, fresh_of, packed, restored, state_of
from ele_core.testing.results import Broken, Check, CheckResult, NotApplicable, after, laws_in, require, run_checks
from ele_core.testing.samples import (
    SEED,
    close,
    repeated,
    require_inside,
    require_own_randomness,
    same_state,
    same_tensors,
    structures,
)
from ele_core.types import Proposals

COUNT = 5
"""Structures that a proposer is asked for, for each query."""
SCORED = 6
"""Structures of the space that are scored for each query."""
COPIES = 60
"""How often each pair occurs in the data that are easy to learn."""
CLEARLY = 0.9
"""The share of the −log p by frequency below which inputs were of use."""
NEAR = 1e-3
"""The largest rounding error of a probability."""


def asked(proposer: Proposer, inputs: Any = None) -> Energy:
    """The energy of inputs, by default the examples; raise `NotApplicable` if the proposer cannot propose."""
    queries = proposer.predict(packed(proposer.inputs) if inputs is None else inputs)
    require_able(queries)
    return proposer.energy(queries)


def require_able(queries: Tensor) -> None:
    """Raise `NotApplicable` if the queries are empty: the proposer cannot propose."""
    if not queries.shape[1]:
        raise NotApplicable("it cannot propose structures of this space: its queries are empty")


def proposed(energy: Energy, count: int = COUNT) -> Proposals:
    """The proposals of an energy."""
    found = energy.proposals(count)
    if found is None:
        raise Broken("`proposals` of the energy returns None")
    return found


def every_pair(energy: Energy, batch: Any) -> tuple[Any, Tensor]:
    """Every structure for every query, and the query of each."""
    owner = torch.arange(len(energy)).repeat_interleave(len(batch))
    return repeated(batch, len(owner)), owner


@after(check_state_is_complete)
def check_proposer_gives_structures(proposer: Proposer) -> None:
    """Proposals are structures of the space, each once for its query, and `owner` names queries."""
    space, energy = proposer.space, asked(proposer)
    found = proposed(energy)
    owner = found.owner
    require(owner.dtype == torch.int64, f"owners are {owner.dtype}, not int64")
    require(owner.shape == (len(found.batch),), f"{len(found.batch)} structures have {tuple(owner.shape)} owners")
    outside = bool(((owner < 0) | (owner >= len(energy))).any())
    require(not outside, f"an owner is outside 0 … {len(energy) - 1}, the rows of the queries")
    require_inside(space, found.batch, "a proposal")
    keys = torch.cat([owner.cpu()[:, None], space.keys(found.batch).cpu()], dim=1)
    twice = len(keys) - len(distinct(keys))
    require(not twice, f"{twice} structures are proposed twice for the same query: remove them by `space.keys`")


@after(check_proposer_gives_structures)
def check_proposer_changes_nothing(proposer: Proposer) -> None:
    """Proposing and scoring change no weight, query or structure, draw from no global generator, and are repeatable."""
    inputs, batch = packed(proposer.inputs), structures(proposer.space, SCORED)
    queries, state = proposer.predict(inputs), state_of(proposer)
    before, given = queries.clone(), batch.map(torch.clone)
    require_able(queries)
    energy = proposer.energy(queries)
    every = every_pair(energy, batch)
    require_own_randomness("`proposals`", lambda: energy.proposals(COUNT))
    require_own_randomness("`Energy.of`", lambda: energy.of(*every))
    require(torch.equal(before, queries), "the queries are changed in place: clone them first")
    require(same_tensors(given, batch), "the structures are changed in place: clone them first")
    require(same_state(state, state_of(proposer)), "proposing or scoring changes the state")
    first, second = (proposed(energy) for _ in range(2))
    same = torch.equal(first.owner, second.owner) and same_tensors(first.batch, second.batch)
    require(same, "two calls of `proposals` differ: they may not be random")
    require(
        torch.equal(energy.of(*every), energy.of(*every)), "two calls of `Energy.of` differ: they may not be random"
    )


@after(check_proposer_changes_nothing)
def check_proposer_energies_are_probabilities(proposer: Proposer) -> None:
    """`Energy.of` is −log p: (N,) finite numbers without gradient for all structures; of no query, p sums to over 1."""
    energy = asked(proposer)
    found = proposed(energy)
    others = every_pair(energy, structures(proposer.space, SCORED))
    for what, batch, owner in (("a proposal", found.batch, found.owner), ("a structure of the space", *others)):
        values = energy.of(batch, owner)
        require(values.shape == (len(owner),), f"the energies of {len(owner)} structures are {tuple(values.shape)}")
        require(values.isfinite().all(), f"the energy of {what} is not finite: bound the probability from below")
        require(not values.requires_grad, "energies keep a gradient, which costs memory: use torch.no_grad")
    likely = (-energy.of(found.batch, found.owner)).exp().double().cpu()
    sums = torch.zeros(len(energy), dtype=torch.float64).index_add(0, found.owner.cpu(), likely)
    most = float(sums.max()) if len(sums) else 0.0
    require(most <= 1 + NEAR, f"the probabilities of a query's proposals sum to {most:.3g}: the energy is not −log p")


@after(check_proposer_energies_are_probabilities)
def check_proposer_energies_agree(proposer: Proposer) -> None:
    """A structure has the same energy for a query in every batch: alone, in another order, by `energy[rows]`."""
    energy = asked(proposer)
    batch, owner = every_pair(energy, structures(proposer.space, SCORED))
    together = energy.of(batch, owner)
    for row in range(0, len(owner), SCORED - 1):
        alone = energy.of(batch[row : row + 1], owner[row : row + 1])
        require(close(alone, together[row : row + 1]), f"the energy of structure {row} depends on the others")
    turned = torch.arange(len(owner)).flip(0)
    same = close(energy.of(batch[turned], owner[turned]), together[turned])
    require(same, "energies depend on the order of the structures: is `owner` used?")
    queries = torch.arange(len(energy)).flip(0)
    require(close(energy[queries[owner]].of(batch), energy.of(batch, queries[owner])), "`energy[rows]` is another one")


@after(check_proposer_energies_agree)
def check_proposer_rows_are_independent(proposer: Proposer) -> None:
    """The proposals of a query do not depend on the other queries, nor on how many; no queries have no proposals."""
    energy = asked(proposer)
    expected = [ordered(energy[row : row + 1]) for row in range(len(energy))]
    rows = torch.arange(MANY) % len(energy)
    for what, asking, own in (
        ("the other queries", energy, range(len(energy))),
        (f"being one of {MANY} queries", energy[rows], rows.tolist()),
    ):
        found = proposed(asking)
        values = asking.of(found.batch, found.owner)
        for row, query in enumerate(own):
            alone, together = expected[query], values[found.owner == row].sort().values
            require(close(together, alone), f"the proposals of query {row} depend on {what}")
    empty = proposed(energy[:0])
    require(len(empty.batch) == len(empty.owner) == 0, f"no queries have {len(empty.batch)} proposals")


def ordered(energy: Energy) -> Tensor:
    """The energies of the proposals of one query, in order."""
    found = proposed(energy)
    return energy.of(found.batch, found.owner).sort().values


@after(check_proposer_changes_nothing)
def check_proposer_state_is_all_it_knows(proposer: Proposer) -> None:
    """A fresh proposer with the `state` of this one has the same proposals and energies, bit for bit."""
    other = restored(fresh_of(proposer, seed=99), state_of(proposer))
    energies = [asked(each) for each in (proposer, other)]
    found, again = (proposed(energy) for energy in energies)
    same = torch.equal(found.owner, again.owner) and same_tensors(found.batch, again.batch)
    require(same, "a copy with the same state proposes other structures: the state does not hold all that was learned")
    batch, owner = every_pair(energies[0], structures(proposer.space, SCORED))
    same = torch.equal(*(energy.of(batch, owner) for energy in energies))
    require(same, "a copy with the same state gives other energies: the state does not hold all that was learned")


@after(check_proposer_energies_are_probabilities)
def check_proposer_fits_constant_data(proposer: Proposer) -> None:
    """`fit` on copies of one input, and on copies of one output, gives finite energies."""
    data = training_data(proposer)
    same = torch.zeros(len(data["inputs"]), dtype=torch.long)
    for what, names in (("input", ["inputs"]), ("output", ["outputs"]), ("pair", ["inputs", "outputs"])):
        try:
            energy = asked(fit(fresh_of(proposer, seed=SEED), {**data, **{name: data[name][same] for name in names}}))
            values = energy.of(*every_pair(energy, structures(proposer.space, SCORED)))
        except NotApplicable:
            raise
        except Exception as error:
            raise Broken(f"after `fit` on copies of one {what}: {type(error).__name__}: {error}") from error
        require(values.isfinite().all(), f"an energy is not finite after `fit` on copies of one {what}")


@after(check_proposer_energies_are_probabilities)
def check_proposer_learns_from_its_pairs(proposer: Proposer) -> None:
    """On pairs that are easy to learn, truths are more probable than by their frequency, and are proposed."""
    x = packed(proposer.inputs)
    count = len(x)
    y = structures(proposer.space, count)
    if len(y) < count or count < 3:
        raise NotApplicable("there are too few different inputs or outputs")
    rows = torch.arange(COPIES * count) % count
    data = {"inputs": x[rows], "outputs": y[rows], "validation inputs": x, "validation outputs": y}
    energy = asked(fit(fresh_of(proposer, seed=SEED), data), x)
    own, known = float(energy.of(y).mean()), math.log(count)
    more = "configure more training for this check"
    require(
        own < CLEARLY * known,
        f"of {count} outputs that are equally frequent, the right one has −log p = {own:.3g} on average, which the "
        f"frequency gives as {known:.3g}: are inputs and outputs in the same order? If so, {more}",
    )
    found = proposed(energy)
    truths = torch.cat([torch.arange(count)[:, None], proposer.space.keys(y).cpu()], dim=1).tolist()
    listed = torch.cat([found.owner.cpu()[:, None], proposer.space.keys(found.batch).cpu()], dim=1).tolist()
    missing = sum(truth not in listed for truth in truths)
    require(missing <= count / 2, f"the truths of {missing} of {count} inputs are not proposed; if they should, {more}")


PROPOSER_CHECKS: tuple[Check, ...] = (*MAPPED, *FITTED, *laws_in(globals(), "check_proposer_"), *EVERY)


def check_proposer(proposer: Proposer, expected_failures: Mapping[str, str] | None = None) -> list[CheckResult]:
    """Run every check of a proposer, on a copy fitted on a few pairs. `expected_failures`: check → reason."""
    return run_checks(PROPOSER_CHECKS, (fitted_learner(proposer),), expected_failures)
