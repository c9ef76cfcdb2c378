"""Long work on many rows, block by block: shared out over processes, and going on after a stop."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from torch import Tensor

from ele_core.runtime.context import Context
from ele_core.runtime.distributed import Processes
from ele_core.runtime.monitor import Monitor
from ele_core.runtime.work import Snapshot, Work, prefixed

Part = dict[str, Tensor]
"""The outcome of a block, as named tensors."""


def in_blocks(
    function: Callable[[int, int, Context], Part], count: int, size: int, context: Context, name: str
) -> list[Part]:
    """`function(first, end, context)` for consecutive blocks of at most `size` of `count` rows, in their order.

    The context of a block has a seed of its own: the outcome depends neither on how many processes share the blocks nor
    on where the work was stopped. Every process has all of it in the end.
    """
    blocks = math.ceil(count / size)
    alone = dataclasses.replace(context, monitor=Monitor(), work=Work(), processes=Processes())
    saved = context.work.saved(name)
    done = [saved.part(str(number)) for number in range(saved.values["done"])] if saved is not None else []

    def outcome(number: int) -> Part:
        own = dataclasses.replace(alone, seed=context.derived_seed(name, number))
        return function(number * size, min((number + 1) * size, count), own)

    def snapshot() -> Snapshot:
        tensors = {key: value for number, part in enumerate(done) for key, value in prefixed(str(number), part).items()}
        return Snapshot(tensors, {"done": len(done)})

    processes = context.processes
    rounds = range(len(done), blocks, processes.count)
    for first in context.monitor.progress(rounds, description=name):
        number = first + processes.rank
        part = outcome(number) if number < blocks else {}
        done += processes.gather_named(part)[: blocks - first]
        context.work.step(name, snapshot)
    context.work.finish(name, snapshot())
    return done
