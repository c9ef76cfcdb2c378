"""Packed inputs as rows of numbers, so that queries can hold them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import torch
from torch import Tensor

from ele_core.errors import damaged
from ele_core.numerics.tensors import Tensors


class Rows:
    """The fields of a batch, flattened side by side: (B, q) float32, and back."""

    def __init__(self, batch: type[Tensors], empty: Mapping[str, Tensor] | None = None) -> None:
        self.batch = batch
        given = empty or {}
        self.empty = {field.name: given[field.name] for field in dataclasses.fields(batch) if field.name in given}
        """Each field of a batch of no rows, in their order: its shape and type."""
        if any(tensor.dim() < 1 or len(tensor) for tensor in self.empty.values()):
            raise damaged("the layout of inputs is damaged.")

    @classmethod
    def like(cls, batch: Tensors) -> Rows:
        """The layout of a batch."""
        return cls(type(batch), {name: tensor[:0].cpu() for name, tensor in batch.named_tensors()})

    def flattened(self, batch: Tensors) -> Tensor:
        """A row of numbers for each row of the batch: (B, q)."""
        return torch.cat(
            [
                tensor.flatten(1).float() if tensor.dim() > 1 else tensor[:, None].float()
                for _, tensor in batch.named_tensors()
            ],
            dim=1,
        )

    def restored(self, rows: Tensor) -> Tensors:
        """The inverse of `flattened`."""
        sizes = [math.prod(tensor.shape[1:]) for tensor in self.empty.values()]
        parts = zip(self.empty.items(), rows.split(sizes, dim=1), strict=True)
        fields = {name: part.reshape(len(rows), *like.shape[1:]).to(like.dtype) for (name, like), part in parts}
        return self.batch.from_dict(fields)

    def state(self) -> dict[str, Tensor]:
        """The layout as named tensors without rows."""
        return self.empty
