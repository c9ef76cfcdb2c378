"""Problems whose energy is known in closed form: sequences under a linear surrogate, nothing to train."""

from __future__ import annotations

import torch
from torch import Tensor

from ele_core.numerics.keys import distinct
from ele_core.testing import LinearSurrogate
from ele_core.types import Candidates, Problem
from ele_sequences.space import SequenceSpace, Tokens


def sequence_space(length: int = 5, alphabet: str = "abc") -> SequenceSpace:
    return SequenceSpace(SequenceSpace.Config(alphabet=tuple(alphabet), length=length))


def random_sequences(space: SequenceSpace, count: int, seed: int = 0) -> Tokens:
    """At most `count` distinct random sequences."""
    labels = space.geometry["tokens"].sample_labels(4 * count, torch.Generator().manual_seed(seed))
    batch = space.unrelax(space.relax(Tokens(labels)))
    return batch[distinct(space.keys(batch))][:count]


def linear_problem(candidates: int = 40, length: int = 5) -> Problem:
    space = sequence_space(length)
    surrogate = LinearSurrogate(LinearSurrogate.Config(dim=12), space)
    batch = random_sequences(space, candidates, seed=1)
    return Problem(space, surrogate, Candidates(batch, surrogate.embed(batch)))


def random_queries(problem: Problem, count: int, seed: int = 2) -> Tensor:
    """Embeddings of structures that need not be among the candidates."""
    assert isinstance(problem.space, SequenceSpace)
    return problem.surrogate.embed(random_sequences(problem.space, count, seed))
