"""Correct components of every kind, which the mistakes spoil: written as an author would, from the documentation."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import torch
from linear import FitsPairs, Spoilable
from pydantic import Field
from torch import nn

from ele_core import Box, ComponentConfig, ConvexSet, Drawing, Metric, OutputSpace, Tensors
from ele_core.components.backbones.mlp import MLPBackbone
from ele_core.components.decoders.candidates import CandidatesDecoder
from ele_core.components.inputs.text import TextInput
from ele_core.components.inputs.vector import VectorInput
from ele_core.interfaces import Encoder, Regressor
from ele_core.testing import LinearSurrogate
from ele_sequences.number_words import NumberWords
from ele_sequences.space import SequenceSpace
from mistakes.of_proposers import Nearby
from mistakes.of_spaces import Plain, small

# -- output spaces -------------------------------------------------------------------------------------------------


class Words(SequenceSpace):
    """Words of up to five letters, one of which is the space. The examples are what an author would think of."""

    def examples(self):
        return ["a", "a bc", "cb"]


@dataclass(frozen=True, eq=False)
class Chosen(Tensors):
    """(B, n) zeros and ones; relaxed, (B, n) numbers between 0 and 1."""

    chosen: torch.Tensor


class Labels(OutputSpace[list, Chosen]):
    """Sets of labels, as lists in any order."""

    Batch = Chosen

    class Config(ComponentConfig):
        """Which labels there are, and how views are drawn."""

        labels: tuple[str, ...] = Field(min_length=2)
        """The names of the labels."""
        flip_rate: float = Field(0.2, ge=0, le=1)
        """The probability that a label of a view is flipped."""

    @property
    def geometry(self):
        return {"chosen": Box(len(self.config.labels))}

    def pack(self, objects):
        for index, labels in enumerate(objects):
            if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
                raise self.invalid("not a list of labels.", index)
            if unknown := sorted(set(labels) - set(self.config.labels)):
                raise self.invalid(f"unknown labels {', '.join(unknown)}.", index)
        rows = [[name in labels for name in self.config.labels] for labels in objects]
        return Chosen(torch.tensor(rows, dtype=torch.int8).reshape(len(rows), len(self.config.labels)))

    def unpack(self, batch):
        names = self.config.labels
        return [[name for name, bit in zip(names, row, strict=True) if bit] for row in batch.chosen.tolist()]

    def augment(self, batch, generator):
        flipped = torch.rand(batch.chosen.shape, generator=generator) < self.config.flip_rate
        return Chosen(torch.where(flipped, 1 - batch.chosen, batch.chosen))

    @classmethod
    def parse(cls, text):
        return [label.strip() for label in text.split(",") if label.strip()]

    @classmethod
    def format(cls, obj):
        return ", ".join(obj)

    @classmethod
    def infer(cls, objects, options):
        return cls.Config(**{"labels": sorted({label for labels in objects for label in labels}), **options})

    def examples(self):
        names = self.config.labels
        return [[names[0]], [names[1]], [*names[:2]]]

    @property
    def metrics(self):
        return self.exact_match, Metric("overlap", "max", self.overlap, "shared labels, as a share of all")

    def overlap(self, predicted, true):
        both, either = predicted.chosen & true.chosen, predicted.chosen | true.chosen
        return torch.where(either.any(dim=1), both.sum(dim=1) / either.sum(dim=1).clamp(min=1), 1.0)

    class Show(OutputSpace.Show):
        def render(self, obj, against=None):
            marked = [label if against is None or label in against else f"+{label}" for label in obj]
            return Drawing(", ".join(marked) or "(none)")

        def properties(self, batch):
            return {"labels": batch.chosen.sum(dim=1).float()}


def words(cls=Words):
    return cls(cls.Config(alphabet=("a", " ", "b", "c"), length=5))


def space_of(cls):
    """The space `cls` in a small configuration."""
    if issubclass(cls, Teams):
        return cls()
    if issubclass(cls, Plain):
        return small(cls)
    return cls(cls.Config(labels=("blue", "green", "red", "new"))) if issubclass(cls, Labels) else words(cls)


# -- convex sets, and a space around them --------------------------------------------------------------------------


@dataclass(frozen=True)
class AtMost(ConvexSet):
    """Vectors (size,) with entries between 0 and 1 and a sum of at most `most`. A move flips one entry."""

    size: int
    most: int

    @property
    def point_shape(self):
        return (self.size,)

    @property
    def label_shape(self):
        return (self.size,)

    @property
    def label_count(self):
        return 2

    @property
    def switches(self):
        return self.size

    def vertices(self, labels):
        return labels.float()

    def nearest_vertex(self, x):
        largest = x.argsort(dim=1, stable=True)[:, -self.most :]
        return torch.zeros_like(x).scatter(1, largest, 1).mul(x > 0.5).to(self.label_dtype)

    def project(self, x):
        exact = x.double()
        clipped = exact.clamp(0, 1)
        shifted = shifted_to(exact, self.most)
        return torch.where(clipped.sum(dim=1, keepdim=True) <= self.most, clipped, shifted).to(x.dtype)

    def sample(self, count, generator, dtype=torch.float32):
        return self.project(Box(self.size).sample(count, generator, dtype))

    def sample_labels(self, count, generator):
        sizes = torch.tensor([float(comb(self.size, chosen)) for chosen in range(self.most + 1)])
        chosen = torch.multinomial(sizes.expand(max(count, 1), -1), 1, generator=generator)[:count]
        order = torch.rand(count, self.size, generator=generator).argsort(dim=1).argsort(dim=1)
        return (order < chosen).to(self.label_dtype)

    def switch(self, labels, which):
        flipped = labels.scatter(1, which[:, None], 1 - labels.gather(1, which[:, None]))
        return torch.where(flipped.sum(dim=1, keepdim=True) <= self.most, flipped, labels)

    def violations(self, x):
        return {
            "entries are at least 0": -x,
            "entries are at most 1": x - 1,
            f"the sum is at most {self.most}": x.double().sum(dim=1) - self.most,
        }


@dataclass(frozen=True)
class Exactly(AtMost):
    """Vectors (size,) with entries between 0 and 1 and the sum `most`. A move swaps two entries."""

    @property
    def switches(self):
        return self.size * (self.size - 1) // 2

    def nearest_vertex(self, x):
        largest = x.argsort(dim=1, stable=True)[:, -self.most :]
        return torch.zeros_like(x).scatter(1, largest, 1).to(self.label_dtype)

    def project(self, x):
        return shifted_to(x.double(), self.most).to(x.dtype)

    def sample_labels(self, count, generator):
        order = torch.rand(count, self.size, generator=generator).argsort(dim=1).argsort(dim=1)
        return (order < self.most).to(self.label_dtype)

    def switch(self, labels, which):
        pair = torch.triu_indices(self.size, self.size, offset=1).T[which]
        return labels.scatter(1, pair, labels.gather(1, pair.flip(1)))

    def violations(self, x):
        excess = (x.double().sum(dim=1) - self.most).abs()
        return {"entries are at least 0": -x, "entries are at most 1": x - 1, f"the sum is {self.most}": excess}


def shifted_to(exact, total):
    """The entries minus a number t, clipped to [0, 1], with t such that their sum is `total`."""
    pivot = exact.sort(dim=1).values[:, [-total]]
    low, high = torch.full_like(pivot, -1.0), (exact.amax(dim=1, keepdim=True) - pivot).clamp(min=0)
    low = torch.minimum(low, exact.amin(dim=1, keepdim=True) - pivot - 1)
    for _ in range(90):
        middle = (low + high) / 2
        too_much = (exact - pivot - middle).clamp(0, 1).sum(dim=1, keepdim=True) > total
        low, high = torch.where(too_much, middle, low), torch.where(too_much, high, middle)
    return (exact - pivot - high).clamp(0, 1)


class Teams(OutputSpace[frozenset, Chosen]):
    """Teams of two of four people; the set of a subclass decides which teams there are."""

    Batch = Chosen
    convex: type[ConvexSet] = Exactly

    class Config(ComponentConfig):
        """Who there is."""

        people: tuple[str, ...] = ("ann", "bob", "cid", "dee")
        """The names."""
        most: int = Field(2, ge=1)
        """How many make a team."""

    @property
    def geometry(self):
        return {"chosen": self.convex(len(self.config.people), min(self.config.most, len(self.config.people)))}

    def pack(self, objects):
        for index, team in enumerate(objects):
            if not isinstance(team, frozenset) or not team <= set(self.config.people):
                raise self.invalid("not a team of these people.", index)
        rows = [[name in team for name in self.config.people] for team in objects]
        return Chosen(torch.tensor(rows, dtype=torch.int8).reshape(len(rows), len(self.config.people)))

    def unpack(self, batch):
        rows = batch.chosen.tolist()
        return [frozenset(name for name, bit in zip(self.config.people, row, strict=True) if bit) for row in rows]

    def augment(self, batch, generator):
        which = torch.randint(self.geometry["chosen"].switches, (len(batch),), generator=generator)
        return Chosen(self.geometry["chosen"].switch(batch.chosen, which))

    @classmethod
    def parse(cls, text):
        return frozenset(name.strip() for name in text.split(",") if name.strip())

    @classmethod
    def format(cls, obj):
        return ", ".join(sorted(obj))

    @classmethod
    def infer(cls, objects, options):
        found = {"people": sorted(frozenset().union(*objects)), "most": max(map(len, objects), default=1) or 1}
        return cls.Config(**{**found, **options})

    def examples(self):
        people = self.config.people
        return [frozenset(people[:2]), frozenset(people[1:3]), frozenset(people[2:])]


def space_around(cls):
    """A space of teams relaxed into the set `cls`."""
    return type(f"TeamsOf{cls.__name__}", (Teams,), {"convex": cls, "__module__": cls.__module__})()


# -- networks and learners -----------------------------------------------------------------------------------------


class Linear(Encoder):
    """A linear layer, a GELU and another linear layer on the flattened point."""

    def __init__(self, config, space, dim):
        super().__init__(config, space, dim)
        (self.field,) = space.geometry
        length, symbols = space.geometry[self.field].point_shape
        self.network = nn.Sequential(nn.Linear(length * symbols, 16), nn.GELU(), nn.Linear(16, dim))

    def seen(self, value):
        """What the network sees of the relaxed field (B, L, V)."""
        return value

    def forward(self, point):
        return self.network(self.seen(getattr(point, self.field)).flatten(start_dim=1))


class LearnedOffset(Spoilable):
    """A linear embedding minus the mean of the training outputs, in float64."""

    def __init__(self, config, space):
        super().__init__(config, space)
        self.offset = torch.zeros(self.dim, dtype=torch.float64)

    def fit_outputs(self, outputs, validation, extra, context):
        together = outputs if extra is None else type(outputs).cat([outputs, extra])
        self.offset = LinearSurrogate.embed_at(self, self.space.relax(together)).mean(dim=0)

    def embed_at(self, point):
        return super().embed_at(point) - self.offset

    def state(self):
        return {"weights": self.weights, "offset": self.offset}

    def restore(self, state):
        self.weights, self.offset = state["weights"], state["offset"]


class Ridge(FitsPairs, Regressor):
    """Ridge regression on vectors with a constant feature."""

    def __init__(self, config, inputs, surrogate):
        super().__init__(config, inputs, surrogate)
        self.weights = torch.zeros(inputs.dimension + 1, surrogate.dim, dtype=torch.float64)

    def seen(self, inputs):
        return nn.functional.pad(inputs.values.double(), (0, 1), value=1.0)

    def fit_pairs(self, train, validation, context):
        self.solve(self.seen(train[0]), self.surrogate.embed(train[1]))

    def solve(self, x, y):
        self.weights = torch.linalg.solve(x.T @ x + 0.1 * torch.eye(x.shape[1], dtype=torch.float64), x.T @ y)

    def predict(self, inputs):
        return self.seen(inputs) @ self.weights

    def state(self):
        return {"weights": self.weights}

    def restore(self, state):
        self.weights = state["weights"]


class Best(CandidatesDecoder):
    """The best candidates."""


def vectors():
    inputs = VectorInput()
    inputs.fit(inputs.examples())
    return inputs


CORRECT = (
    Plain,
    Words,
    Labels,
    AtMost,
    Exactly,
    Linear,
    LearnedOffset,
    Ridge,
    Nearby,
    Best,
    TextInput,
    VectorInput,
    MLPBackbone,
    NumberWords,
)
"""The components that the mistakes spoil."""
