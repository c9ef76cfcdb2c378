"""A surrogate whose energy is known in closed form, and problems made of it: nothing to train."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ele_core.context import Context
from ele_core.data import distinct
from ele_core.interfaces import Candidates, Problem, Surrogate
from ele_sequences.space import SequenceSpace, Tokens


class LinearSurrogate(Surrogate):
    """ψ(y) = W · flatten(relax(y)), in float64, so that batches of another size round alike: convex in the point."""

    differentiable = True

    def __init__(self, space: SequenceSpace, dim: int = 12, seed: int = 0) -> None:
        super().__init__(None, space)
        length, symbols = space.geometry["tokens"].point_shape
        generator = torch.Generator().manual_seed(seed)
        self.weights = torch.randn(length * symbols, dim, generator=generator, dtype=torch.float64) / dim**0.5

    @property
    def dim(self) -> int:
        return self.weights.shape[1]

    def fit(self, outputs: Any, validation: Any, extra: Any | None, context: Context) -> None:
        raise AssertionError("nothing to fit")

    def at(self, point: Any) -> Tensor:
        return point.tokens.double().flatten(start_dim=1) @ self.weights

    def embed(self, batch: Any) -> Tensor:
        return self.at(self.space.relax(batch))

    def energy_at(self, queries: Tensor, point: Any) -> Tensor:
        return (self.at(point) - queries).square().sum(dim=1)

    def state(self) -> dict[str, Tensor]:
        return {"weights": self.weights}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.weights = state["weights"]


def sequence_space(length: int = 5, alphabet: str = "abc") -> SequenceSpace:
    return SequenceSpace(SequenceSpace.Config(alphabet=tuple(alphabet), length=length))


def random_sequences(space: SequenceSpace, count: int, seed: int = 0) -> Tokens:
    """Different sequences."""
    labels = space.geometry["tokens"].sample_labels(4 * count, torch.Generator().manual_seed(seed))
    batch = space.unrelax(space.relax(Tokens(labels)))
    return batch[distinct(space.keys(batch))][:count]


def linear_problem(candidates: int = 40, length: int = 5) -> Problem:
    space = sequence_space(length)
    surrogate = LinearSurrogate(space)
    batch = random_sequences(space, candidates, seed=1)
    return Problem(space, surrogate, Candidates(batch, surrogate.embed(batch)))


def random_queries(problem: Problem, count: int, seed: int = 2) -> Tensor:
    """Embeddings of structures that need not be among the candidates."""
    assert isinstance(problem.space, SequenceSpace)
    return problem.surrogate.embed(random_sequences(problem.space, count, seed))
