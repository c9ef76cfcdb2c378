"""Work on many rows: the same outcome wherever it was stopped and however many processes share it."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import pytest
import torch
from recording import Memory, Stopped
from torch import Tensor

from ele_core.runtime.blockwise import PLAIN, in_blocks
from ele_core.runtime.context import Context
from ele_core.runtime.distributed import Processes
from ele_core.runtime.work import Work

COUNT, SIZE = 23, 5
BLOCKS = 5


def outcome(work: Work | None = None, processes: Processes | None = None, seed: int = 0) -> tuple[Tensor, list[int]]:
    """The rows with noise, joined, and the blocks that were worked on."""
    asked = []

    def block(first: int, end: int, context: Context) -> dict[str, Tensor]:
        asked.append(first)
        rows = torch.arange(first, end, dtype=torch.float)
        return {"rows": rows, "noise": torch.rand(end - first, generator=context.generator("noise"))}

    context = Context(seed=seed, work=work or Work(), processes=processes or Processes())
    parts = in_blocks(block, COUNT, SIZE, context, "blocks", PLAIN)
    return torch.stack([torch.cat([part[name] for part in parts]) for name in ("rows", "noise")]), asked


class Threads(Processes):
    """A member of a group whose processes are threads."""

    def __init__(self, rank: int, box: list[Mapping[str, Tensor]], barrier: threading.Barrier) -> None:
        self.rank, self.count = rank, len(box)
        self.box, self.barrier = box, barrier

    def gather_named(self, own: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
        self.box[self.rank] = own
        self.barrier.wait()
        everything = [dict(part) for part in self.box]
        self.barrier.wait()
        return everything


def shared_out(count: int, works: list[Work]) -> list[tuple[Tensor, list[int]]]:
    """What each of `count` processes has in the end."""
    box: list[Mapping[str, Tensor]] = [{}] * count
    barrier, found = threading.Barrier(count), {}

    def member(rank: int) -> None:
        found[rank] = outcome(works[rank], Threads(rank, box, barrier))

    threads = [threading.Thread(target=member, args=[rank]) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [found[rank] for rank in range(count)]


def test_every_row_is_there_once_in_order_and_noise_follows_the_seed():
    (rows, noise), asked = outcome()
    assert rows.tolist() == list(range(COUNT))
    assert asked == [0, 5, 10, 15, 20]
    assert len(set(noise.tolist())) == COUNT, "every block has a seed of its own"
    assert not torch.equal(noise, outcome(seed=1)[0][1])


@pytest.mark.parametrize("done", range(1, BLOCKS + 1))
def test_the_outcome_is_the_same_wherever_the_work_was_stopped_and_nothing_is_done_twice(done):
    work = Memory(stop_after=done)
    with pytest.raises(Stopped):
        outcome(work)
    resumed, asked = outcome(Memory(work.kept))
    assert torch.equal(resumed, outcome()[0])
    assert asked == [0, 5, 10, 15, 20][done:]


def test_what_has_finished_is_not_done_again():
    work = Memory()
    first, _ = outcome(work)
    again, asked = outcome(work)
    assert torch.equal(again, first)
    assert asked == []


@pytest.mark.parametrize("count", [2, 3, 7])
def test_the_outcome_is_the_same_for_any_number_of_processes_and_all_have_it(count):
    members = shared_out(count, [Work()] * count)
    assert all(torch.equal(found, outcome()[0]) for found, _ in members)
    assert sorted(first for _, asked in members for first in asked) == [0, 5, 10, 15, 20]


@pytest.mark.parametrize("done", [1, 2, 4])
def test_work_of_one_process_can_be_gone_on_with_by_several(done):
    work = Memory(stop_after=done)
    with pytest.raises(Stopped):
        outcome(work)
    members = shared_out(2, [Memory(work.kept), Memory(work.kept)])
    assert all(torch.equal(found, outcome()[0]) for found, _ in members)
    assert sorted(first for _, asked in members for first in asked) == [0, 5, 10, 15, 20][done:]
