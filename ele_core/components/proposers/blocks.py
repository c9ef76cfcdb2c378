"""A likelihood for every geometry: log-odds for each block of a structure, trained by cross-entropy."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Self

import torch
from pydantic import Field, PositiveInt
from torch import Generator, Tensor, nn
from torch.nn import functional

from ele_core.component import ComponentConfig
from ele_core.components.backbones.pooling import spans
from ele_core.components.training.optimise import Training, optimise
from ele_core.data.batches import ShuffledBatches
from ele_core.energies import ProposerEnergy
from ele_core.interfaces import Energy, InputSpace, OutputSpace, Proposer
from ele_core.networks import Backbone
from ele_core.numerics.keys import distinct, hash_rows
from ele_core.numerics.sets import ConvexSet
from ele_core.numerics.sets.base import one_hot
from ele_core.numerics.tensors import Tensors
from ele_core.plugins import create_part
from ele_core.runtime.context import Context
from ele_core.runtime.device import device_of
from ele_core.types import Candidates, Choice, PlannedStage, Proposals, Stage, Takes, TrainingData

BLOCKS = Stage("blocks", decides="validation_loss")
CHUNK = 1024
"""Inputs predicted at once."""
CELLS = 1 << 22
"""Coordinates in memory at once."""
LARGEST = 20_000
"""Maximum number of coordinates of a relaxed structure: the network has as many outputs."""
SAMPLED = 256
"""Random vertices from which the blocks of a set are told."""
SHARP = 1e4
"""How far log-odds are scaled where vertices differ in norm: the nearest vertex is then the likeliest one."""


class BlocksProposer(Proposer):
    """−log p(y | x) = Σ_b −log p(block b of y | x), with log-odds of all blocks from one network.

    Exclusive labels of a block share a softmax; other coordinates have a logistic each. The sum is linear in the
    relaxed structure, so `unrelax` of the log-odds is the likeliest structure if it rounds to the nearest vertex.
    """

    stages = (BLOCKS,)

    class Config(ComponentConfig):
        """The network."""

        backbone: Annotated[Choice, Takes("backbone")] = Choice(name="gru")
        """The network on inputs."""
        width: PositiveInt = 256
        """The width of the layer between the state at a token and the log-odds of the blocks at its place."""
        dropout: float = Field(0.1, ge=0, lt=1)
        """The share of features dropped before and after this layer during training."""
        training: Training = Training(batch_size=64, epochs=20, learning_rate=2e-3)
        """How the network is trained."""

    config: Config

    def __init__(self, config: ComponentConfig | None, inputs: InputSpace[Any], space: OutputSpace[Any, Any]) -> None:
        super().__init__(config, inputs, space)
        options, self.able = self.config, False
        self.sizes = [math.prod(convex.point_shape) for convex in space.geometry.values()]
        self.fields: list[Blocks] = []
        self.network: BlockNetwork | None = None
        if sum(self.sizes) <= LARGEST:
            self.fields = [Blocks.of(convex) for convex in space.geometry.values()]
            backbone: Backbone = create_part(
                self, "backbone", options.backbone, inputs, sum(self.sizes), path="proposer.backbone"
            )
            self.network = BlockNetwork(backbone, self.fields, options.width, options.dropout).eval()
            self.first = {name: value.clone() for name, value in self.network.state_dict().items()}
            """The weights that every `fit` begins with."""

    def planned(self, examples: int, extra: int) -> list[PlannedStage]:
        """The steps of the training."""
        return [self.config.training.planned(BLOCKS, examples)]

    def fit(self, data: TrainingData, context: Context) -> None:
        """Train by cross-entropy; keep the weights of the least validation loss."""
        reason, network = self._unable(data.in_memory.outputs[:CHUNK], context), self.network
        self.able = not reason
        if reason or network is None:
            context.monitor.message(f"no likelihood of blocks: {reason}")
            return
        network.load_state_dict(self.first)
        network.to(context.device)
        train, validation, training = data.train, data.validation, self.config.training
        asked, truths = validation.inputs[:], validation.outputs[:]

        def loss(rows: Tensor, generator: Generator) -> Tensor:
            views = self.inputs.augment(train.inputs[rows], generator).to(context.device)
            return BlockEnergy(self, self._odds(views)).of(train.outputs[rows].to(context.device))

        def evaluate() -> dict[str, float]:
            energies = self.energy(self.predict(asked)).of(truths.to(context.device))
            return {BLOCKS.decides: energies.mean().item()}

        optimise(
            network,
            training,
            count=len(train.inputs),
            source=ShuffledBatches(
                len(train.inputs), training.batch_size, context, BLOCKS.name, None, train.inputs.blocks
            ),
            loss=loss,
            evaluate=evaluate,
            context=context,
            stage=BLOCKS,
        )

    def predict(self, inputs: Tensors) -> Tensor:
        """A constant, and a number for each coordinate of a relaxed structure: (B, 1 + P)."""
        if not self.able or self.network is None:
            return torch.zeros(len(inputs), 0)
        device = device_of(self.network)
        with torch.no_grad():
            parts = [self._odds(part.to(device)) for part in inputs.chunks(CHUNK)]
        return torch.cat(parts) if parts else torch.zeros(0, 1 + sum(self.sizes), device=device)

    def energy(self, queries: Tensor) -> Energy:
        """−log p of structures: the constant minus the product of the numbers and the relaxed structure."""
        return BlockEnergy(self, queries)

    def _odds(self, inputs: Tensors) -> Tensor:
        assert self.network is not None
        parts = zip(self.fields, self.network(inputs), strict=True)
        constants, numbers = zip(*(field.linear(odds) for field, odds in parts), strict=True)
        return torch.cat([torch.stack(constants).sum(dim=0)[:, None], *numbers], dim=1)

    def _unable(self, outputs: Any, context: Context) -> str:
        """Why structures have no likelihood by blocks; empty: they have."""
        if self.network is None:
            return f"structures have {sum(self.sizes):,} coordinates, and {LARGEST:,} is the limit"
        others = [name for name, _ in outputs.named_tensors() if name not in self.space.geometry]
        if others:
            return f"the geometry of the space lacks the field {others[0]}"
        again = self.space.equivalents(outputs, context.generator(BLOCKS.name, "packings"))
        if any(not torch.equal(own, other) for own, other in zip(fields_of(outputs), fields_of(again), strict=True)):
            return "a structure has several packings, so its blocks have no fixed places"
        return ""

    def state(self) -> dict[str, Tensor]:
        """The weights; nothing if it cannot propose."""
        return dict(self.network.state_dict()) if self.able and self.network is not None else {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Load the weights."""
        self.able = bool(state) and self.network is not None
        if self.able and self.network is not None:
            self.network.load_state_dict(dict(state))

    def to(self, device: torch.device) -> Self:
        """Move the network."""
        if self.network is not None:
            self.network.to(device)
        return self


@dataclasses.dataclass(frozen=True)
class Blocks:
    """The blocks of one relaxed field: `count` blocks of `size` coordinates each, with values from `low` to `high`."""

    shape: tuple[int, ...]
    size: int
    exclusive: bool
    """Whether at most one coordinate of a block is `high`, all others `low`: they share a softmax."""
    certain: bool
    """Whether label k is coordinate k, so that exactly one is `high`."""
    low: float
    high: float
    two_valued: bool
    """Whether there are no other values."""
    shares: Tensor
    """(count,) the weight of each block: blocks that are always equal, such as those of mirrored edges, share one."""

    @classmethod
    def of(cls, convex: ConvexSet) -> Blocks:
        """The blocks of a set, told from random vertices."""
        labels = convex.sample_labels(SAMPLED, torch.Generator().manual_seed(0)).cpu()
        vertices, shape = convex.vertices(labels).float(), tuple(convex.point_shape)
        low, high = vertices.min().item(), vertices.max().item()
        two_valued = bool(((vertices == low) | (vertices == high)).all()) and low < high
        rows = vertices.reshape(SAMPLED, -1, shape[-1] if shape else 1)
        exclusive = two_valued and (low, high) == (0.0, 1.0) and bool((rows.sum(dim=2) <= 1).all())
        aligned = shape == (*convex.label_shape, convex.label_count)
        certain = exclusive and aligned and torch.equal(vertices, one_hot(labels, convex.label_count).float())
        size = rows.shape[2] if exclusive else 1
        return cls(shape, size, exclusive, certain, low, high, two_valued, shares(vertices.reshape(SAMPLED, -1, size)))

    @property
    def places(self) -> int:
        """The length of the first axis of blocks, which may stand beside the parts of an input; 1: there is none."""
        axes = self.shape[:-1] if self.size > 1 or self.exclusive else self.shape
        return axes[0] if axes else 1

    @property
    def width(self) -> float:
        """The distance between the values; 1 if they are equal."""
        return (self.high - self.low) or 1.0

    def linear(self, odds: Tensor) -> tuple[Tensor, Tensor]:
        """Log-odds (B, count, size) → c (B,) and t (B, count · size): −log p of a vertex v is c − ⟨t, v⟩."""
        weight = self.shares.to(odds)[:, None]
        if self.certain:
            return odds.new_zeros(len(odds)), (weight * odds.log_softmax(dim=2)).flatten(1)
        if self.exclusive:  # or none of them
            total = functional.pad(odds, (1, 0)).logsumexp(dim=2, keepdim=True)
            return (weight * total).flatten(1).sum(dim=1), (weight * odds).flatten(1)
        scaled = odds / self.width
        total = functional.softplus(odds) + self.low * scaled
        return (weight * total).flatten(1).sum(dim=1), (weight * scaled).flatten(1)

    def margins(self, numbers: Tensor, vertices: Tensor) -> Tensor:
        """What it costs at least to change each block of vertices: two (B, count · size) → (B, count)."""
        numbers, ones = self.divided(numbers), self.divided((vertices - self.low) / self.width)
        if not self.exclusive:
            return numbers[:, :, 0].abs() * self.width
        others = numbers.masked_fill(ones > 0, -math.inf)
        if not self.certain:
            others = torch.cat([others, torch.where(ones.sum(2, keepdim=True) > 0, 0.0, -math.inf)], dim=2)
        return (numbers * ones).sum(dim=2) - others.amax(dim=2)

    def without(self, numbers: Tensor, vertices: Tensor, block: Tensor, cost: Tensor) -> Tensor:
        """Numbers (N, count · size) with a `cost` (N,) of block `block[n]` being as in vertices n."""
        numbers, ones = self.divided(numbers), self.divided((vertices - self.low) / self.width)
        kept = (block[:, None] == torch.arange(numbers.shape[1], device=block.device))[:, :, None]
        unused = (ones.sum(dim=2, keepdim=True) == 0).to(numbers)
        return (numbers + kept * (cost / self.width)[:, None, None] * (unused - ones)).flatten(1)

    def reach(self, numbers: Tensor) -> Tensor:
        """By how much energies of vertices differ at most (B,), from numbers (B, count · size)."""
        return 2 * self.width * self.divided(numbers).abs().amax(dim=2).sum(dim=1)

    def centred(self, numbers: Tensor) -> Tensor:
        """A point whose nearest vertex v has the largest ⟨numbers, v⟩: as v² = (low + high) v − low · high."""
        return (self.low + self.high) / 2 + numbers * (1.0 if self.two_valued else SHARP)

    def divided(self, values: Tensor) -> Tensor:
        """Coordinates (B, count · size) block by block: (B, count, size)."""
        return values.reshape(len(values), len(self.shares), self.size)


class BlockNetwork(nn.Module):
    """Log-odds: the output of a backbone, and for blocks at the place of a token what its state adds to them."""

    def __init__(self, backbone: Backbone, fields: Sequence[Blocks], width: int, dropout: float) -> None:
        super().__init__()
        self.backbone, self.fields = backbone, tuple(fields)
        stateful = type(backbone).attended is not Backbone.attended
        self.beside = nn.ModuleDict(
            {
                str(number): nn.Sequential(
                    nn.Dropout(dropout),
                    nn.Linear(backbone.state_width, width),
                    nn.GELU(),
                    nn.Dropout(dropout),
                    nn.Linear(width, math.prod(field.shape) // field.places),
                )
                for number, field in enumerate(fields)
                if stateful and field.places > 1
            }
        )

    def forward(self, batch: Any) -> list[Tensor]:
        """The log-odds (B, count, size) of each field."""
        output, states, mask = self.backbone.attended(batch)
        found = []
        parts = output.split([math.prod(field.shape) for field in self.fields], dim=1)
        for number, (field, odds) in enumerate(zip(self.fields, parts, strict=True)):
            if str(number) in self.beside:
                if self.backbone.spread:
                    there = self.beside[str(number)](spans(states, mask, field.places))
                else:
                    there = (self.beside[str(number)](states) * mask[:, :, None])[:, : field.places]
                missing = field.places - there.shape[1]
                odds = odds + functional.pad(there, (0, 0, 0, missing)).flatten(1)
            found.append(field.divided(odds))
        return found


@dataclasses.dataclass(frozen=True, eq=False)
class BlockEnergy(ProposerEnergy):
    """c − ⟨t, relaxed structure⟩ for queries (c, t): (B, 1 + P)."""

    proposer: BlocksProposer

    @property
    def smooth(self) -> bool:
        """It is linear."""
        return True

    def of(self, batch: Any, owner: Tensor | None = None) -> Tensor:
        """−log p of structure n for its query: (N,)."""
        if not self._labelled:
            rows = torch.arange(len(batch), device=self.device)
            parts = [
                self.at(self.proposer.space.relax(batch[some]), some if owner is None else owner[some])
                for some in rows.split(max(1, CELLS // self.queries.shape[1]))
            ]
            return torch.cat(parts) if parts else self.queries[:0, 0]
        owner = torch.arange(len(batch), device=self.device) if owner is None else owner
        total, flat, first = self.queries[owner, 0], self.queries.flatten(), owner * self.queries.shape[1] + 1
        for field, labels in zip(self.proposer.fields, self._values(batch), strict=True):
            labels = labels.reshape(len(batch), len(field.shares)).long()
            places = torch.arange(0, labels.shape[1] * field.size, field.size, device=self.device)
            total = total - flat[first[:, None] + places + labels].sum(dim=1)
            first = first + labels.shape[1] * field.size
        return total

    def at(self, point: Any, owner: Tensor | None = None) -> Tensor:
        """The energy of point n for its query, linear in the point: (N,)."""
        asked = self.queries if owner is None else self.queries[owner]
        return asked[:, 0] - (asked[:, 1:] * self._flat(point)).sum(dim=1)

    def among(self, candidates: Candidates) -> Tensor:
        """The energy of every candidate for every query: (B, N)."""
        space, size = self.proposer.space, max(1, CELLS // self.queries.shape[1])
        parts = [
            self.queries[:, :1] - self.queries[:, 1:] @ self._flat(space.relax(part.to(self.device))).T
            for part in candidates.batch.chunks(size)
        ]
        return torch.cat(parts, dim=1) if parts else self.queries[:, :0]

    def proposals(self, count: int) -> Proposals:
        """The likeliest structure, and for each of the `count` − 1 least certain blocks the likeliest without it."""
        size = max(1, CELLS // (count * self.queries.shape[1]))
        found = [self[first : first + size]._proposed(count) for first in range(0, len(self), size)]
        if not found:
            return Proposals(self.proposer.space.pack([]), torch.zeros(0, dtype=torch.long))
        batch = type(found[0].batch).cat([each.batch for each in found])
        return Proposals(batch, torch.cat([each.owner + number * size for number, each in enumerate(found)]))

    def _proposed(self, count: int) -> Proposals:
        space, numbers = self.proposer.space, self.queries[:, 1:].detach().cpu()
        best = self._rounded(numbers)
        vertices = self._flat(space.relax(best))
        parts = list(zip(self.proposer.fields, self._split(numbers), self._split(vertices), strict=True))
        margins = torch.cat([field.margins(own, there) for field, own, there in parts], dim=1)
        block = margins.topk(min(count - 1, margins.shape[1]), dim=1, largest=False).indices
        owner = torch.arange(len(numbers)).repeat_interleave(block.shape[1])
        cost = 1 + torch.stack([field.reach(own) for field, own, _ in parts]).sum(dim=0)[owner]
        changed, start = [], 0
        for field, own, there in parts:
            changed.append(field.without(own[owner], there[owner], block.flatten() - start, cost))
            start += len(field.shares)
        batch = type(best).cat([best, self._rounded(torch.cat(changed, dim=1))])
        owner = torch.cat([torch.arange(len(numbers)), owner])
        rows = distinct(torch.cat([owner[:, None], space.keys(batch)], dim=1))
        return Proposals(batch[rows], owner[rows])

    def _rounded(self, numbers: Tensor) -> Any:
        """The likeliest structures under numbers (N, P)."""
        space, parts = self.proposer.space, zip(self.proposer.fields, self._split(numbers), strict=True)
        points = [field.centred(own).reshape(len(own), *field.shape) for field, own in parts]
        return space.unrelax(space.Batch(**dict(zip(space.geometry, points, strict=True))))

    @cached_property
    def _labelled(self) -> bool:
        """Whether each label is a coordinate of the relaxed structure, so that energies are looked up."""
        plain = type(self.proposer.space).relax is OutputSpace.relax
        return plain and all(field.certain for field in self.proposer.fields)

    def _split(self, numbers: Tensor) -> tuple[Tensor, ...]:
        parts: tuple[Tensor, ...] = numbers.split(self.proposer.sizes, dim=1)
        return parts

    def _values(self, batch: Any) -> Iterator[Tensor]:
        return (getattr(batch, name) for name in self.proposer.space.geometry)

    def _flat(self, point: Any) -> Tensor:
        """The relaxed fields side by side: (N, P)."""
        return torch.cat([value.flatten(1) for value in self._values(point)], dim=1)


def shares(vertices: Tensor) -> Tensor:
    """The weight (count,) of each block of vertices (S, count, size): those that are always equal share a weight."""
    columns = vertices.transpose(0, 1).flatten(1).contiguous().view(torch.int32)
    _, group, members = hash_rows([columns]).unique(dim=0, return_inverse=True, return_counts=True)
    constant = (vertices == vertices[:1]).all(dim=2).all(dim=0)
    return torch.where(constant, 1.0, 1.0 / members[group])


def fields_of(batch: Any) -> list[Tensor]:
    """The tensors of a batch."""
    return [tensor for _, tensor in batch.named_tensors()]
