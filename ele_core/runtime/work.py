"""What long work has done so far, so that it can stop and go on: the interface that stages and decoders see."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """The state of a piece of work: named tensors, and values that JSON can hold."""

    tensors: Mapping[str, Tensor] = dataclasses.field(default_factory=dict)
    values: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    finished: bool = False

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names begin with `prefix` and a dot, without it."""
        start = f"{prefix}."
        return {name.removeprefix(start): value for name, value in self.tensors.items() if name.startswith(start)}


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors, their names begun with `prefix` and a dot: the inverse of `Snapshot.part`."""
    return {f"{prefix}.{name}": value for name, value in tensors.items()}


class Work:
    """Keeps nothing and never stops: what there is when nobody asked for a run folder.

    A piece of work has a name. It asks what was `saved` of it, calls `step` whenever it could go on from there later,
    and `finish` with its outcome.
    """

    def saved(self, name: str) -> Snapshot | None:
        """Where the work called `name` stood, or its outcome where it had finished; None: begin."""
        return None

    def step(self, name: str, snapshot: Callable[[], Snapshot]) -> None:
        """A moment to keep the state, and to stop in if that was asked for."""

    def keep(self, name: str, snapshot: Snapshot) -> None:
        """Keep the state now: the work cannot go on."""

    def finish(self, name: str, snapshot: Callable[[], Snapshot], *, closes: bool = False) -> None:
        """Keep the outcome; `closes` drops what was kept of unfinished parts and of parts that this one includes."""


def as_bytes(value: Any) -> Tensor:
    """What JSON can hold as a tensor of bytes, so that it travels with tensors."""
    return torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)


def from_bytes(data: Tensor) -> Any:
    """The inverse of `as_bytes`."""
    return json.loads(data.numpy().tobytes())
