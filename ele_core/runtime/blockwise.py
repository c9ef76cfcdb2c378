"""Long work on many rows, block by block: shared among processes, and resumed after a stop."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Generic, TypeVar

from torch import Tensor

from ele_core.runtime.context import Context
from ele_core.runtime.distributed import Processes
from ele_core.runtime.monitor import Monitor
from ele_core.runtime.work import Snapshot, Work, prefixed

T = TypeVar("T")
"""The result of a block."""
NamedTensors = dict[str, Tensor]


@dataclasses.dataclass(frozen=True)
class AsTensors(Generic[T]):
    """Conversion of a block's result to named tensors and back, for a checkpoint or for other processes."""

    write: Callable[[T], NamedTensors]
    read: Callable[[NamedTensors], T]


PLAIN: AsTensors[NamedTensors] = AsTensors(write=dict, read=dict)
"""For results that are named tensors already."""


def in_blocks(
    function: Callable[[int, int, Context], T],
    count: int,
    size: int,
    context: Context,
    name: str,
    as_tensors: AsTensors[T],
    key: str = "",
) -> list[T]:
    """Call `function(first, end, context)` on blocks of at most `size` of `count` rows, in order; return all results.

    The context of a block has its own seed: the result depends neither on how many processes share the blocks nor on
    when the work was stopped. Every process returns the results of all. They are converted to tensors only if a
    checkpoint is written or several processes share the work. Work of another `key` is not resumed.
    """
    work = f"{name} {key}" if key else name
    blocks = math.ceil(count / size)
    alone = dataclasses.replace(context, monitor=Monitor(), work=Work(), processes=Processes())
    saved = context.work.saved(work)
    done = [as_tensors.read(saved.part(str(number))) for number in range(saved.values["done"])] if saved else []

    def outcome(number: int) -> T:
        own = dataclasses.replace(alone, seed=context.derived_seed(name, number))
        return function(number * size, min((number + 1) * size, count), own)

    def snapshot() -> Snapshot:
        parts = [prefixed(str(number), as_tensors.write(part)) for number, part in enumerate(done)]
        return Snapshot({key: value for part in parts for key, value in part.items()}, {"done": len(done)})

    processes = context.processes
    rounds = range(len(done), blocks, processes.count)
    for first in context.monitor.progress(rounds, description=name):
        number = first + processes.rank
        if processes.count == 1:
            done.append(outcome(number))
        else:
            own = as_tensors.write(outcome(number)) if number < blocks else {}
            done += map(as_tensors.read, processes.gather_named(own)[: blocks - first])
        context.work.step(work, snapshot)
    context.work.finish(work, snapshot)
    return done
