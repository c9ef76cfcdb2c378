"""Proposers that break one law each, and a correct one."""

from __future__ import annotations

import dataclasses

import torch
from torch import nn

from ele_core import Energy, Proposals, Proposer
from ele_core.numerics.keys import distinct, hash_rows
from mistakes.listing import ONE_LAW, mistake

caught_by = mistake(ONE_LAW)
LEAST = 1e-6


class Nearby(Proposer):
    """The outputs of training inputs, near ones more probable. Nothing is wrong with it."""

    def __init__(self, config, inputs, space):
        super().__init__(config, inputs, space)
        self.known, self.outputs = torch.zeros(0, inputs.dimension), space.pack([])

    def fit(self, data, context):
        self.known = data.train.inputs[:].values.clone()
        self.outputs = data.train.outputs[:].map(torch.clone)

    def predict(self, inputs):
        return inputs.values

    def energy(self, queries):
        return NearbyEnergy(self, queries)

    def shares(self, queries):
        """How much each training input counts for each query (B, q): (B, n)."""
        far = (queries.double()[:, None] - self.known.double()).square().sum(dim=2)
        return (-5 * far).softmax(dim=1)

    def scored(self, queries, batch, owner):
        """−log p of structure n for query `owner[n]`."""
        same = (self.space.keys(batch)[:, None] == self.space.keys(self.outputs)).all(dim=2)
        return -(LEAST + (1 - LEAST) * (same * self.shares(queries)[owner]).sum(dim=1)).log()

    def proposed(self, queries, count):
        rows = distinct(self.space.keys(self.outputs))
        owner = torch.arange(len(queries)).repeat_interleave(len(rows))
        found = self.outputs[rows.repeat(len(queries))]
        best = (
            self.scored(queries, found, owner).view(len(queries), len(rows)).topk(min(count, len(rows)), largest=False)
        )
        kept = (best.indices + len(rows) * torch.arange(len(queries))[:, None]).flatten()
        return Proposals(found[kept], owner[kept])

    def state(self):
        return {"known": self.known, **{f"of {name}": value for name, value in self.outputs.named_tensors()}}

    def restore(self, state):
        self.known = state["known"]
        self.outputs = self.outputs.from_dict({name: state[f"of {name}"] for name, _ in self.outputs.named_tensors()})


@dataclasses.dataclass(frozen=True, eq=False)
class NearbyEnergy(Energy):
    proposer: Nearby
    queries: torch.Tensor

    def __len__(self):
        return len(self.queries)

    def __getitem__(self, rows):
        return dataclasses.replace(self, queries=self.queries[rows])

    @property
    def device(self):
        return self.queries.device

    def identities(self):
        return hash_rows([self.queries.float().view(torch.int32)])[:, 0]

    def of(self, batch, owner=None):
        return self.proposer.scored(self.queries, batch, torch.arange(len(batch)) if owner is None else owner)

    def proposals(self, count):
        return self.proposer.proposed(self.queries, count)


@caught_by("check_proposer_gives_structures")
class ProposesTwice(Nearby):
    def proposed(self, queries, count):
        found = super().proposed(queries, count)
        return Proposals(
            type(found.batch).cat([found.batch, found.batch[:1]]), torch.cat([found.owner, found.owner[:1]])
        )


@caught_by("check_proposer_gives_structures")
class ProposesForNobody(Nearby):
    def proposed(self, queries, count):
        found = super().proposed(queries, count)
        return Proposals(found.batch, found.owner + 1)


@caught_by("check_proposer_gives_structures")
class ProposesNoStructures(Nearby):
    def proposed(self, queries, count):
        found = super().proposed(queries, count)
        return Proposals(found.batch.replace(tokens=found.batch.tokens + 9), found.owner)


@caught_by("check_proposer_energies_are_probabilities")
class ScoresUnseenByInfinity(Nearby):
    def scored(self, queries, batch, owner):
        found = super().scored(queries, batch, owner)
        return found.where(found < 10, torch.inf)


@caught_by("check_proposer_energies_are_probabilities")
class ScoresByLogits(Nearby):
    def scored(self, queries, batch, owner):
        return super().scored(queries, batch, owner) - 9


@caught_by("check_proposer_energies_agree")
class ScoresByTheBatch(Nearby):
    def scored(self, queries, batch, owner):
        found = super().scored(queries, batch, owner)
        return found + 0.01 * len(found)


@caught_by("check_proposer_rows_are_independent")
class ProposesTheBestOfAll(Nearby):
    def proposed(self, queries, count):
        found = super().proposed(queries, count)
        best = self.scored(queries, found.batch, found.owner).argsort()[:count].sort().values
        return Proposals(found.batch[best], found.owner[best])


@caught_by("check_proposer_state_is_all_it_knows")
class ForgetsItsOutputs(Nearby):
    def __init__(self, config, inputs, space):
        super().__init__(config, inputs, space)
        self.bonus = 0.0

    def fit(self, data, context):
        super().fit(data, context)
        self.bonus = 0.5

    def scored(self, queries, batch, owner):
        return super().scored(queries, batch, owner) + self.bonus


@caught_by("check_proposer_changes_nothing")
class ProposesAtRandom(Nearby):
    def proposed(self, queries, count):
        found = super().proposed(queries, count)
        order = torch.randperm(len(found.owner))
        return Proposals(found.batch[order], found.owner[order])


@caught_by("check_proposer_changes_nothing")
class ScoresInPlace(Nearby):
    def scored(self, queries, batch, owner):
        found = super().scored(queries, batch, owner)
        queries.clamp_(max=0.1)
        return found


@caught_by("check_proposer_fits_constant_data")
class ScalesByTheSpread(Nearby):
    spread = torch.ones(())

    def fit(self, data, context):
        super().fit(data, context)
        self.spread = self.known.std(dim=0).max()

    def shares(self, queries):
        return super().shares(queries) / self.spread * self.spread

    def state(self):
        return {**super().state(), "spread": self.spread}

    def restore(self, state):
        super().restore(state)
        self.spread = state["spread"]


@caught_by("check_proposer_learns_from_its_pairs")
class ProposesByFrequency(Nearby):
    def shares(self, queries):
        return torch.full_like(super().shares(queries), 1 / len(self.known))


@caught_by("check_rows_are_independent")
class AsksByTheBatch(Nearby):
    def predict(self, inputs):
        return nn.functional.layer_norm(inputs.values, inputs.values.shape) if len(inputs) else inputs.values


@caught_by("check_fits_anew")
class RemembersEarlierPairs(Nearby):
    def fit(self, data, context):
        before = self.known, self.outputs
        super().fit(data, context)
        self.known = torch.cat([before[0], self.known])
        self.outputs = type(self.outputs).cat([before[1], self.outputs])
