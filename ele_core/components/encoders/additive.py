"""Encoders that add up smooth features of the parts of a structure, and the generic one: `blocks`, for any geometry."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from pydantic import PositiveFloat
from torch import Tensor, nn
from torch.nn import functional

from ele_core.component import ComponentConfig
from ele_core.interfaces import Encoder, OutputSpace

KNOWN = 1 << 16
"""Parts that are remembered before all are forgotten: bounds the memory."""
BLOCK = 256
"""Parts whose features are computed at once, always as many, because rounding depends on the number of rows."""

Compute = Callable[[Tensor], tuple[Tensor, ...]]


class AdditiveEncoder(Encoder):
    """ψ(y) = Σ_p w_p √2 cos(s ⟨part p, random directions⟩ + random phases): additive, smooth and trainable.

    The features of two parts are nearly orthogonal if the parts differ by much more than 1/s, and nearly equal if by
    much less. A regression learns such an embedding part by part, from few pairs; the sum is differentiable in points.
    """

    additive = True

    class Config(ComponentConfig):
        """How finely parts are told apart."""

        scale: PositiveFloat = 1.0
        """How different parts count: with a large scale all that are not equal are unrelated, with a small one parts
        that differ a little are similar. Choose it on validation pairs."""

    config: Any

    def __init__(self, config: ComponentConfig | None, space: OutputSpace[Any, Any], dim: int) -> None:
        super().__init__(config, space, dim)
        self._table = PartTable()
        self._stamp: tuple[tuple[int, int], ...] = ()

    def waves(self, directions: Tensor, phases: Tensor) -> Tensor:
        """√2 cos(s · directions + phases): features of mean square 1."""
        return math.sqrt(2) * torch.cos(self.config.scale * directions + phases)

    @staticmethod
    def random_phases(*shape: int) -> nn.Parameter:
        """Uniform phases to train."""
        return nn.Parameter(torch.rand(*shape) * (2 * math.pi))

    def table(self) -> PartTable:
        """The features of parts of discrete structures that are known for the present weights.

        With gradients, it is empty: features that were computed before belong to another graph of gradients.
        """
        stamp = tuple((weight.data_ptr(), weight._version) for weight in self.parameters())
        if torch.is_grad_enabled():
            return PartTable()
        if stamp != self._stamp or self._table.size > KNOWN:
            self._table, self._stamp = PartTable(), stamp
        return self._table

    @staticmethod
    def in_blocks(compute: Compute, inputs: Tensor) -> tuple[Tensor, ...]:
        """`compute` of the rows of `inputs` (N, …), always as many at a time: a result does not depend on other rows.

        Without it, the embedding of a structure would depend on those embedded before, by a rounding error.
        """
        missing = -len(inputs) % BLOCK if len(inputs) else BLOCK
        parts = [compute(part) for part in functional.pad(inputs, (0, 0, 0, missing)).split(BLOCK)]
        return tuple(torch.cat(rows)[: len(inputs)] for rows in zip(*parts, strict=True))


class PartTable:
    """Tensors with one row for each part, by kind of part; a part is known by its key, an int64.

    New rows are written behind the known ones, into tensors that double when they are full.
    """

    def __init__(self) -> None:
        self.values: dict[int, tuple[Tensor, ...]] = {}
        """Rows in the order in which parts became known; those behind the last are unused."""
        self._keys: dict[int, Tensor] = {}
        self._places: dict[int, Tensor] = {}

    @property
    def size(self) -> int:
        """The number of parts of all kinds."""
        return sum(map(len, self._keys.values()))

    def rows(self, kind: int, keys: Tensor, compute: Compute) -> Tensor:
        """The row of each of `keys` (E,) in the tensors of `kind`: (E,).

        `compute(first)` makes the rows of new keys, where `first` are the places in `keys` at which each occurs first.
        """
        distinct, inverse = keys.unique(return_inverse=True)
        known = self._keys.get(kind, keys[:0])
        new = torch.ones_like(distinct, dtype=torch.bool)
        if len(known):
            new = known[torch.searchsorted(known, distinct).clamp(max=len(known) - 1)] != distinct
        if bool(new.any()) or kind not in self._keys:
            order = torch.arange(len(keys), device=keys.device)
            first = torch.full_like(distinct, len(keys)).scatter_reduce(0, inverse, order, "amin")
            self._add(kind, distinct[new], compute(first[new]))
        return self._places[kind][torch.searchsorted(self._keys[kind], distinct)][inverse]

    def _add(self, kind: int, keys: Tensor, made: tuple[Tensor, ...]) -> None:
        """Add the rows of parts that are not known yet."""
        known = self._keys.get(kind, keys[:0])
        first, end = len(known), len(known) + len(keys)
        if kind not in self.values:
            self.values[kind] = made  # with gradients, a table is filled once
        else:
            self.values[kind] = tuple(
                _written(rows, first, own) for rows, own in zip(self.values[kind], made, strict=True)
            )
        places = torch.cat([self._places.get(kind, keys[:0]), torch.arange(first, end, device=keys.device)])
        self._keys[kind], order = torch.cat([known, keys]).sort()
        self._places[kind] = places[order]


def _written(rows: Tensor, first: int, made: Tensor) -> Tensor:
    """`rows` with `made` (N, …) written from `first` on; twice as many rows if there is no room."""
    end = first + len(made)
    if end > len(rows):
        rows = torch.cat([rows[:first], rows.new_empty(max(end, 2 * len(rows)) - first, *rows.shape[1:])])
    rows[first:end] = made
    return rows


class BlocksEncoder(AdditiveEncoder):
    """A sum over all blocks of all fields: a block is what a label stands for, such as one simplex.

    It does not know which blocks mean the same, so a part is a label at a place: for spaces without an encoder of
    their own.
    """

    def __init__(self, config: ComponentConfig | None, space: OutputSpace[Any, Any], dim: int) -> None:
        super().__init__(config, space, dim)
        self.sizes = {
            name: convex.point_shape[-1] if len(convex.label_shape) < len(convex.point_shape) else 1
            for name, convex in space.geometry.items()
        }
        counts = [math.prod(space.geometry[name].point_shape) // size for name, size in self.sizes.items()]
        shapes = list(zip(counts, self.sizes.values(), strict=True))
        self.directions = nn.ParameterList(nn.Parameter(torch.randn(count, size, dim)) for count, size in shapes)
        self.phases = nn.ParameterList(self.random_phases(count, dim) for count in counts)

    def forward(self, point: Any) -> Tensor:
        """A point of B structures → (B, dim)."""
        features = []
        for field, (name, size) in enumerate(self.sizes.items()):
            blocks = getattr(point, name).flatten(1).unflatten(1, (-1, size)).unbind(dim=1)
            each = zip(blocks, self.directions[field], self.phases[field], strict=True)
            features += [self.waves(block @ directions, phases) for block, directions, phases in each]
        return torch.stack(features).sum(dim=0) / math.sqrt(self.dim)
