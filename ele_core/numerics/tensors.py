"""`Tensors`: a small frozen, typed dataclass base for batches and points."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Self

import torch
from torch import Tensor

Index = slice | Tensor | Sequence[int]


@lru_cache(maxsize=256)
def constant(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """A tensor of fixed values, sent to each device once; write nothing into it."""
    return torch.tensor(values, dtype=dtype, device=device)


@dataclasses.dataclass(frozen=True, eq=False)
class Tensors:
    """Named tensors that share their first dimension, the batch dimension.

    Subclass it as a frozen dataclass whose fields are all tensors::

        @dataclass(frozen=True, eq=False)
        class Tokens(Tensors):
            tokens: Tensor  # (B, L)

    It then has indexing, concatenation, device moves and conversion to and from a dict.
    """

    def __init_subclass__(cls) -> None:
        """Refuse a field that would hide a method, such as `to`."""
        if hidden := set(inspect.get_annotations(cls)) & set(dir(Tensors)):
            raise TypeError(
                f"{cls.__name__}: a field cannot be called '{hidden.pop()}', because Tensors has a method of that name"
            )

    def __len__(self) -> int:
        return len(next(iter(self.named_tensors()))[1])

    def __getitem__(self, index: Index) -> Self:
        """The rows at `index`: a slice, a boolean mask or a tensor of positions; always returns a batch."""
        if isinstance(index, int):
            raise TypeError(f"index a batch with a slice or a tensor, as in batch[{index}:{index + 1}], not a number")
        if not isinstance(index, slice | Tensor):
            index = torch.as_tensor(index, dtype=torch.long)
        return self.map(lambda tensor: tensor[index])

    def named_tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Pairs of field name and tensor, in the order of declaration."""
        return ((field.name, getattr(self, field.name)) for field in dataclasses.fields(self))

    def map(self, function: Callable[[Tensor], Tensor]) -> Self:
        """The same fields with `function` applied to each tensor."""
        return type(self)(**{name: function(tensor) for name, tensor in self.named_tensors()})

    def replace(self, **changes: Tensor) -> Self:
        """The same fields, those named in `changes` replaced."""
        return dataclasses.replace(self, **changes)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Every tensor moved or cast as by `Tensor.to`."""
        return self.map(lambda tensor: tensor.to(*args, **kwargs))

    def as_dict(self) -> dict[str, Tensor]:
        """Field name to tensor, contiguous: what safetensors stores."""
        return {name: tensor.contiguous() for name, tensor in self.named_tensors()}

    @classmethod
    def from_dict(cls, tensors: Mapping[str, Tensor]) -> Self:
        """The inverse of `as_dict`."""
        return cls(**tensors)

    @classmethod
    def cat(cls, parts: Iterable[Self]) -> Self:
        """Concatenate batches."""
        columns = [part.as_dict() for part in parts]
        return cls(**{name: torch.cat([column[name] for column in columns]) for name in columns[0]})

    def chunks(self, size: int) -> Iterator[Self]:
        """Consecutive batches of at most `size` rows."""
        return (self[start : start + size] for start in range(0, len(self), size))

    @property
    def blocks(self) -> tuple[int, int]:
        """One block: a batch is in memory, so its rows may be read in any order."""
        return 0, len(self)

    @property
    def device(self) -> torch.device:
        """The device of the tensors."""
        return next(iter(self.named_tensors()))[1].device
