"""What a stage is given besides its data: seed, device, monitor, checkpoints, processes, and time."""

from __future__ import annotations

import dataclasses
import hashlib

import torch

from ele_core.runtime.budget import Budget
from ele_core.runtime.device import CPU
from ele_core.runtime.distributed import Processes
from ele_core.runtime.monitor import Monitor
from ele_core.runtime.work import Work


@dataclasses.dataclass(frozen=True)
class Context:
    """The environment of training and decoding. Random numbers are a pure function of the seed and a name."""

    seed: int = 0
    device: torch.device = CPU
    monitor: Monitor = dataclasses.field(default_factory=Monitor)
    work: Work = dataclasses.field(default_factory=Work)
    processes: Processes = dataclasses.field(default_factory=Processes)
    budget: Budget | None = None
    """The time of a whole training; None: as long as it takes."""

    def generator(self, *name: str | int) -> torch.Generator:
        """A fresh generator for the purpose `name`, the same at every call."""
        return torch.Generator().manual_seed(self.derived_seed(*name))

    def with_monitor(self, monitor: Monitor) -> Context:
        """The same environment with another monitor."""
        return dataclasses.replace(self, monitor=monitor)

    def own_seed(self, *name: str | int) -> int:
        """As `derived_seed`, but different in each of several processes."""
        return self.derived_seed(*name, *(("process", self.processes.rank) if self.processes.count > 1 else ()))

    def derived_seed(self, *name: str | int) -> int:
        """A 63-bit seed for the purpose `name`."""
        text = "/".join(map(str, (self.seed, *name)))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1
