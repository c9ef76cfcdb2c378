"""Build networks for their shapes only: tensors without memory, which are never filled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

RANDOM = (Tensor.normal_, Tensor.uniform_, Tensor.random_, Tensor.bernoulli_, Tensor.exponential_)
"""The methods of tensors that fill them at random, beside the functions of `torch.nn.init`."""
DRAWN = (torch.randn, torch.rand)
DRAWN_LIKE = (torch.randn_like, torch.rand_like)
"""The functions that return new random tensors."""


@contextmanager
def unfilled() -> Iterator[None]:
    """Inside this block, tensors have a shape but no memory, and initialising them does nothing."""
    with torch.device("meta"), _NoFilling():
        yield


class _NoFilling(TorchFunctionMode):
    """Skip random initialisation, for which torch would import its compiler: longer than `import torch` itself."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func in RANDOM or getattr(func, "__module__", None) == torch.nn.init.__name__:
            tensor = args[0] if args else kwargs.get("tensor")
            if isinstance(tensor, Tensor) and tensor.is_meta:
                return tensor
        if func in DRAWN:
            return torch.empty(*args, **{name: value for name, value in kwargs.items() if name != "generator"})
        if func in DRAWN_LIKE:
            return torch.empty(args[0].shape, dtype=kwargs.get("dtype", args[0].dtype))
        return func(*args, **kwargs)
