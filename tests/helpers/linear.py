"""Problems whose energy is known in closed form: sequences under a linear surrogate, nothing to train."""

from __future__ import annotations

import torch
from torch import Tensor

from ele_core.energies import SquaredDistance, all_distances
from ele_core.numerics.keys import distinct
from ele_core.testing import LinearSurrogate, SampleProblem
from ele_core.types import Candidates, Pairs, TrainingData
from ele_sequences.space import SequenceSpace, Tokens


class Spoilable(LinearSurrogate):
    """A linear surrogate whose energy calls methods that a test may override: `energy_of`, `energy_of_point` …"""

    has_gradient = True

    def fit(self, data, context):
        self.fit_outputs(data.train.outputs, data.validation.outputs, data.extra, context)

    def fit_outputs(self, outputs, validation, extra, context):
        """Nothing is learned."""

    def energy(self, queries):
        return SpoilableEnergy(self, queries)

    def energy_of(self, queries, batch):
        return SquaredDistance(self, queries).of(batch)

    def energy_among(self, queries, embeddings):
        return all_distances(queries, embeddings)

    def energy_of_point(self, queries, point):
        return SquaredDistance(self, queries).at(point)


class SpoilableEnergy(SquaredDistance):
    surrogate: Spoilable

    def of(self, batch, owner=None):
        return self.surrogate.energy_of(self.asked(owner), batch)

    def among(self, candidates):
        return self.surrogate.energy_among(self.queries, candidates.kept_by(self.surrogate))

    @property
    def smooth(self):
        return self.surrogate.has_gradient

    def at(self, point, owner=None):
        return self.surrogate.energy_of_point(self.asked(owner), point)


class FitsPairs:
    """A regressor whose `fit` calls `fit_pairs(train, validation, context)` with tuples."""

    def fit(self, data, context):
        train, validation = ((pairs.inputs, pairs.outputs) for pairs in (data.train, data.validation))
        self.fit_pairs(train, validation, context)


def outputs_only(outputs, validation, extra=None) -> TrainingData:
    """The data of a surrogate that looks at outputs alone."""
    return TrainingData(None, Pairs(outputs, outputs), Pairs(validation, validation), extra)


def given_pairs(train, validation) -> TrainingData:
    """The data of a regressor: tuples of packed inputs and outputs."""
    return TrainingData(None, Pairs(*train), Pairs(*validation))


def sequence_space(length: int = 5, alphabet: str = "abc") -> SequenceSpace:
    return SequenceSpace(SequenceSpace.Config(alphabet=tuple(alphabet), length=length))


def random_sequences(space: SequenceSpace, count: int, seed: int = 0) -> Tokens:
    """At most `count` distinct random sequences."""
    labels = space.geometry["tokens"].sample_labels(4 * count, torch.Generator().manual_seed(seed))
    batch = space.unrelax(space.relax(Tokens(labels)))
    return batch[distinct(space.keys(batch))][:count]


def linear_problem(candidates: int = 40, length: int = 5) -> SampleProblem:
    space = sequence_space(length)
    surrogate = LinearSurrogate(LinearSurrogate.Config(dim=12), space)
    batch = random_sequences(space, candidates, seed=1)
    return SampleProblem(space, Candidates(batch, surrogate.embed(batch)), surrogate=surrogate)


def random_queries(problem: SampleProblem, count: int, seed: int = 2) -> Tensor:
    """Embeddings of structures that need not be among the candidates."""
    assert isinstance(problem.space, SequenceSpace)
    return problem.surrogate.embed(random_sequences(problem.space, count, seed))
