"""Reading many SMILES: the same with and without workers, rows kept, a dead worker survived."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import numpy as np
import torch
from commands import PATIENCE

from ele_graphs.graphs.batch import CompactGraphs
from ele_graphs.molecules.reader import BLOCK, Worker, read_many
from ele_graphs.molecules.space import MoleculeSpace

SPACE = MoleculeSpace()
LIMITS = SPACE.limits(min_atoms=2)
TEXTS = ["CCO", "", "CC(", "c1ccccc1", "C", "C.C", "CC#N"]


def test_blocks_hold_what_was_read_and_why_not_the_rest() -> None:
    (block,) = read_many(TEXTS, LIMITS)
    assert block.rows == [0, 3, 6]
    assert block.smiles == ["CCO", "c1ccccc1", "CC#N"]
    assert [(row, text) for row, text, _ in block.rejected] == [(1, ""), (2, "CC("), (4, "C"), (5, "C.C")]
    assert all(reason for *_, reason in block.rejected)
    graphs = CompactGraphs(torch.tensor(block.codes))[:]
    assert torch.equal(SPACE.keys(graphs), SPACE.keys(SPACE.pack(block.smiles)))


def test_workers_read_the_same_in_the_same_order() -> None:
    texts = (TEXTS * 400)[: BLOCK + 200]
    alone, together = (
        list(read_many(iter(texts), LIMITS, processes=0)),
        list(read_many(iter(texts), LIMITS, processes=2)),
    )
    assert sum(map(len, together)) == len(texts)
    for a, b in zip(alone, together, strict=True):
        assert (a.rows, a.smiles, a.rejected) == (b.rows, b.smiles, b.rejected)
        assert np.array_equal(a.codes, b.codes)


def test_a_worker_that_died_is_started_again() -> None:
    worker = Worker(LIMITS)
    try:
        worker.process.kill()
        worker.process.wait()
        assert [row if isinstance(row, str) else row[0] for row in worker.read(["OCC", "CC"])] == ["CCO", "CC"]
    finally:
        worker.close()


ENDLESS = """
from itertools import repeat
from ele_graphs.molecules.reader import read_many
from ele_graphs.molecules.space import MoleculeSpace
try:
    for block in read_many(repeat("CCO"), MoleculeSpace().limits(min_atoms=2), 2):
        print(len(block), flush=True)
except KeyboardInterrupt:
    print("stopped")
"""


def test_ctrl_c_is_not_answered_by_workers() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # the group that a terminal would interrupt
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "1000\n"
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert (out.splitlines()[-1], err) == ("stopped", "")


def test_nothing_gives_no_blocks() -> None:
    assert list(read_many([], LIMITS)) == []
