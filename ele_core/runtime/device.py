"""Where and how numbers are computed: the choice of a device, the precision on it, and its random numbers.

No other module asks which devices there are. Tensors and what was learned are moved by `to`: of a batch, a network or a
learner.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Literal

import torch
from torch import nn

from ele_core.errors import ConfigError

CPU = torch.device("cpu")
Precision = Literal["float32", "bfloat16"]
"""The numbers that products of matrices and convolutions are computed with; weights and sums are always float32."""


def pick_device(name: str) -> torch.device:
    """The device called `name`, if it can be used; `auto` is the first GPU if there is one, else the CPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    name = local_device(name)
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"'{name}' cannot be used: {reason}", where="device", fix="Use auto or cpu.") from None
    return device


def local_device(name: str) -> str:
    """The device called `name`; `cuda` is this process's own GPU if several processes share a machine.

    A launcher may show each process only its own GPU, which is then number 0.
    """
    rank, seen = os.environ.get("LOCAL_RANK"), torch.cuda.device_count() if name == "cuda" else 0
    return f"cuda:{int(rank) % seen}" if seen and rank is not None else name


def device_of(network: nn.Module) -> torch.device:
    """The device of the weights of a network."""
    return next(network.parameters()).device


def between_processes() -> str:
    """What torch.distributed sends tensors with."""
    return "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"


def autocast(device: torch.device, precision: Precision) -> AbstractContextManager[None]:
    """Compute products of matrices and convolutions with `precision` inside the block, unless that is slow there."""
    return torch.autocast(device.type, torch.bfloat16, enabled=precision == "bfloat16" and computes_bfloat16(device))


def computes_bfloat16(device: torch.device) -> bool:
    """Whether a device has instructions for bfloat16; a processor without them is many times as slow as in float32."""
    return device.type != "cpu" or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


@contextmanager
def seeded(seed: int, device: torch.device = CPU) -> Iterator[None]:
    """Seed the global generators of the CPU and of `device` inside the block, and restore them afterwards.

    First weights are drawn from them, on the CPU, and dropout is, on the device of the network.
    """
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
