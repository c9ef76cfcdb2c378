"""A thin layer over torch.distributed: one process, or a group of processes started by torchrun or by `ele`."""

from __future__ import annotations

import atexit
import datetime
import hashlib
import os
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import torch
from safetensors.torch import load as load_bytes
from safetensors.torch import save as save_bytes
from torch import Tensor, nn

from ele_core.errors import EleError, ProcessError
from ele_core.numerics.tensors import Tensors
from ele_core.runtime.device import between_processes
from ele_core.runtime.launchers import group_size
from ele_core.runtime.work import as_bytes, from_bytes

Rows = TypeVar("Rows", Tensor, Tensors)
TIMEOUT = datetime.timedelta(minutes=30)
"""How long processes wait for one that still runs but does not answer."""
PATIENCE = datetime.timedelta(days=2)
"""How long they wait for the main process to read the data."""
LOOPBACK_INTERFACES = ("lo", "lo0")
"""The names of the loopback interface on Linux and on macOS."""
FAILED = "failed"
"""The key in the group's store under which a failing process publishes its reason."""


class Processes:
    """A group of one process, for which most methods return their arguments; `Group` is for several."""

    rank = 0
    count = 1

    @property
    def main(self) -> bool:
        """Whether this is the process that writes files and reports to the user."""
        return self.rank == 0

    def share(self, rows: Rows) -> Rows:
        """The consecutive rows that this process works on; the parts of all processes, by rank, are all `rows`."""
        first, end = (place * len(rows) // self.count for place in (self.rank, self.rank + 1))
        return rows[first:end]

    def first(self, own: int) -> int:
        """The number of rows of all processes of lower rank, if this one has `own`."""
        return 0

    def gather(self, own: Tensor) -> Tensor:
        """The rows of all processes, by rank."""
        return own

    def gather_with_gradient(self, own: Tensor) -> Tensor:
        """As `gather`, with gradients: those of the rows of each process are sent back to it."""
        return own

    def gather_named(self, own: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
        """The named tensors of each process, by rank."""
        return [dict(own)]

    def spread(self, function: Callable[[Any], Tensor], rows: Any) -> Tensor:
        """`function(rows)`, computed by all processes together: for functions that treat every row separately."""
        return self.gather(function(self.share(rows)))

    def parallel(self, module: nn.Module) -> nn.Module:
        """The module with its gradients averaged over all processes."""
        return module

    def largest(self, value: int) -> int:
        """The largest of all processes' values, in every process: all of them act on the same one."""
        return value

    def mean(self, value: Tensor) -> Tensor:
        """The mean of all processes' values."""
        return value

    def agreed(self, values: Mapping[str, float]) -> dict[str, float]:
        """The main process's values, in every process: decisions need values that are equal to the last bit."""
        return dict(values)

    def synchronise(self, module: nn.Module) -> None:
        """Give every process the buffers of the main one, such as the running means of a normalisation."""

    def from_main(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The main process's tensors, in every process."""
        return dict(values)

    def text_from_main(self, text: str) -> str:
        """The main process's text, in every process."""
        return str(from_bytes(self.from_main({"text": as_bytes(text)})["text"]))

    def wait(self) -> None:
        """Wait until all processes have made this call."""

    @contextmanager
    def main_first(self) -> Iterator[None]:
        """Run the block in the main process, then in the others, which can use the files it has cached."""
        yield


class Group(Processes):
    """Several processes, each with a rank, joined by torch.distributed; `store` holds the keys they share."""

    def __init__(self, store: Any) -> None:
        import torch.distributed as dist

        self.dist = dist
        self.store = store
        self.rank = dist.get_rank()
        self.count = dist.get_world_size()
        self.turns = 0

    def first(self, own: int) -> int:
        return sum(self._sizes(own)[: self.rank])

    def gather(self, own: Tensor) -> Tensor:
        return torch.cat(self.gather_parts(own))

    def gather_parts(self, own: Tensor) -> list[Tensor]:
        """The rows of each process, by rank."""
        sizes = self._sizes(len(own))
        padded = own.new_zeros((max(sizes), *own.shape[1:]))
        padded[: len(own)] = own
        parts = [torch.empty_like(padded) for _ in sizes]
        self.dist.all_gather(parts, padded.contiguous())
        return [part[:size] for part, size in zip(parts, sizes, strict=True)]

    def gather_with_gradient(self, own: Tensor) -> Tensor:
        gathered: Tensor = Gather.apply(own, self)  # type: ignore[no-untyped-call]
        return gathered

    def gather_named(self, own: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
        return [load_bytes(part.numpy().tobytes()) for part in self.gather_parts(serialised(own))]

    def parallel(self, module: nn.Module) -> nn.Module:
        # Looking for unused parameters also keeps the order of summation: otherwise it changes after the first step,
        # and a resumed run would differ in the last bit.
        return nn.parallel.DistributedDataParallel(module, find_unused_parameters=True)

    def largest(self, value: int) -> int:
        whole = torch.tensor(value)
        self.dist.all_reduce(whole, self.dist.ReduceOp.MAX)
        return int(whole)

    def mean(self, value: Tensor) -> Tensor:
        whole = value.clone()
        self.dist.all_reduce(whole)
        return whole / self.count

    def agreed(self, values: Mapping[str, float]) -> dict[str, float]:
        own = torch.tensor(list(values.values()), dtype=torch.float64)
        self.dist.broadcast(own, 0)
        return dict(zip(values, own.tolist(), strict=True))

    def synchronise(self, module: nn.Module) -> None:
        for buffer in module.buffers():
            self.dist.broadcast(buffer, 0)

    def from_main(self, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        data = serialised(values) if self.main else torch.zeros(0, dtype=torch.uint8)
        size = self.largest(len(data))
        received = data if self.main else torch.empty(size, dtype=torch.uint8)
        self.dist.broadcast(received, 0)
        return dict(values) if self.main else load_bytes(received.numpy().tobytes())

    def wait(self) -> None:
        self.largest(0)

    @contextmanager
    def main_first(self) -> Iterator[None]:
        self.turns += 1
        turn = f"turn/{self.turns}"
        if not self.main:  # with a longer timeout: reading data may take longer than any answer in training
            self.store.wait([turn], PATIENCE)
        yield
        if self.main:
            self.store.set(turn, "done")

    def _sizes(self, own: int) -> list[int]:
        sizes = [torch.zeros(1, dtype=torch.long) for _ in range(self.count)]
        self.dist.all_gather(sizes, torch.tensor([own]))
        return [int(size) for size in sizes]


class Gather(torch.autograd.Function):
    """`Group.gather` whose backward sums the gradients of all processes and keeps this one's rows."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, group: Group) -> Tensor:
        parts = group.gather_parts(own)
        first = sum(map(len, parts[: group.rank]))
        ctx.group, ctx.first, ctx.end = group, first, first + len(own)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        whole = gradients[0].contiguous().clone()
        ctx.group.dist.all_reduce(whole)
        return whole[ctx.first : ctx.end], None


@contextmanager
def process_group() -> Iterator[Processes]:
    """The group that the launcher's environment variables describe; a group of one process if there are none.

    A failing process publishes its reason for the others, whose own errors would only say that the connection is lost.
    """
    if group_size() == 1:
        yield Processes()
        return
    group = the_group()
    try:
        yield group
    except ProcessError:
        raise
    except RuntimeError as error:
        raise explained(group, error) from error
    except Exception as error:
        kind = "" if isinstance(error, EleError) else f"{type(error).__name__}: "
        report_failure(group, f"{kind}{error}")
        raise


@cache
def the_group() -> Group:
    """The group of this process, joined only once, because it counts the turns of `main_first`."""
    import torch.distributed as dist
    from torch.distributed.rendezvous import rendezvous

    try:
        shared, rank, count = next(rendezvous("env://", timeout=TIMEOUT))
        shared.set_timeout(TIMEOUT)
        store = dist.PrefixStore(f"ele/{attempt(shared, rank, count)}", shared)  # type: ignore[attr-defined]
        if not dist.is_initialized():
            dist.init_process_group(between_processes(), store=store, rank=rank, world_size=count, timeout=TIMEOUT)
            atexit.register(dist.destroy_process_group)
    except RuntimeError as error:
        what = f"could not join the other processes: {str(error).splitlines()[0]}."
        where = f"process {os.environ['RANK']} of {os.environ['WORLD_SIZE']}"
        raise ProcessError(what, where=where, fix="Check that all of them run, and MASTER_ADDR.") from error
    return Group(store)


def attempt(store: Any, rank: int, count: int) -> str:
    """A name that the processes started together agree on, and that no earlier process knew.

    A launcher that starts processes again may keep its store, with what the earlier ones left in it, and may count
    restarts differently on each machine. So each process publishes a name of its own, and a digest of all names that it
    sees; they agree once all digests are equal. A digest that an earlier process left holds another name of this one.
    """
    ranks = range(count)
    names, digests = [f"ele/name/{each}" for each in ranks], [f"ele/names/{each}" for each in ranks]
    store.set(names[rank], uuid.uuid4().hex)
    deadline = time.monotonic() + TIMEOUT.total_seconds()
    while time.monotonic() < deadline:
        store.wait(names, TIMEOUT)
        own = hashlib.sha256(b" ".join(store.multi_get(names))).hexdigest()
        store.set(digests[rank], own)
        store.wait(digests, TIMEOUT)
        if all(each.decode() == own for each in store.multi_get(digests)):
            return own
        time.sleep(0.05)
    raise RuntimeError("another process was started, but does not answer")


def report_failure(group: Group, reason: str) -> None:
    """Publish why this process fails, for the others to report; only the first reason is kept."""
    try:
        group.store.compare_set(FAILED, "", f"process {group.rank}: {reason}")
    except RuntimeError:  # the process that held the store has ended
        return


def explained(group: Group, error: RuntimeError) -> Exception:
    """An error with the reason that another process published, if the connection failed; else `error` itself."""
    if not any(word in str(error).lower() for word in ("gloo", "connection", "nccl", "peer", "socket")):
        report_failure(group, str(error))
        return error
    try:
        group.store.wait([FAILED], datetime.timedelta(seconds=2))
        reason = group.store.get(FAILED).decode()
    except RuntimeError:
        reason = "another process ended without an error message: it was killed, or ran out of memory."
    return ProcessError(reason, where=f"process {group.rank} of {group.count}")


def serialised(tensors: Mapping[str, Tensor]) -> Tensor:
    """Named tensors as bytes."""
    stored = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    return torch.frombuffer(bytearray(save_bytes(stored)), dtype=torch.uint8)


def environment(rank: int, count: int, address: str, port: int) -> Sequence[tuple[str, str]]:
    """The variables that make a process the member `rank` of a group on this machine."""
    return (
        ("RANK", str(rank)),
        ("LOCAL_RANK", str(rank)),
        ("WORLD_SIZE", str(count)),
        ("LOCAL_WORLD_SIZE", str(count)),
        ("MASTER_ADDR", address),
        ("MASTER_PORT", str(port)),
        ("TORCHELASTIC_USE_AGENT_STORE", "True"),  # the process that started this one holds the store
        ("TORCHELASTIC_RESTART_COUNT", "0"),
        # Otherwise gloo listens on the interface of the machine's name, which may be that of a network.
        *(("GLOO_SOCKET_IFNAME", name) for _, name in socket.if_nameindex() if name in LOOPBACK_INTERFACES),
    )
