"""Read many SMILES in parallel by worker processes, in blocks; each refused row has a reason.

The workers are plain subprocesses of this module that exchange JSON lines. multiprocessing would import the user's
script again (spawn) or copy a process with torch's threads (fork). If a worker dies, only one SMILES is lost.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ele_graphs.molecules.rdkit_adapter import Limits, Reading, UnreadableMolecule, read

BLOCK = 1000
IN_PROCESS = 2 * BLOCK  # below this, starting workers takes longer than reading

Encoded = tuple[str, bytes]
"""A canonical SMILES and its code."""


@dataclass(frozen=True)
class Block:
    """The results of a block of SMILES, in their order.

    rows: the row of each accepted SMILES in the whole input; smiles: its canonical form;
    codes: (n, m(m+1)/2) int8, as in `CompactGraphs`; rejected: (row, text, reason) of all the others.
    """

    rows: list[int]
    smiles: list[str]
    codes: npt.NDArray[np.int8]
    rejected: list[tuple[int, str, str]]

    def __len__(self) -> int:
        return len(self.rows) + len(self.rejected)


def read_many(smiles: Iterable[str], limits: Limits, processes: int | None = None) -> Iterator[Block]:
    """Read SMILES in blocks of up to 1,000, streamed in order, with at most a few blocks in memory.

    limits: must give elements, bonds and max_atoms.
    processes: how many workers; by default one per processor, or none for fewer than 2,000 SMILES.
    """
    texts = iter(smiles)
    head = list(islice(texts, IN_PROCESS))
    if processes == 0 or (processes is None and len(head) < IN_PROCESS):
        return _numbered((block, read_block(block, limits)) for block in _blocks(chain(head, texts)))
    return _numbered(_in_parallel(_blocks(chain(head, texts)), limits, processes or os.cpu_count() or 1))


def read_block(smiles: Sequence[str], limits: Limits) -> list[Encoded | str]:
    """Read each SMILES: its canonical form and code, or the reason why it was refused."""
    encoder = CodeWriter(limits)
    return [_read_one(text, limits, encoder) for text in smiles]


class CodeWriter:
    """Writes a molecule as the upper triangle of its bonds with the elements on the diagonal, one byte each."""

    def __init__(self, limits: Limits) -> None:
        if limits.elements is None or limits.bonds is None or limits.max_atoms is None:
            raise ValueError("reading into arrays needs elements, bonds and max_atoms")
        self.size = limits.max_atoms
        self.starts = [row * self.size - row * (row + 1) // 2 for row in range(self.size)]
        self.elements = {symbol: code for code, symbol in enumerate(limits.elements, 1)}
        self.bonds = {name: code for code, name in enumerate(limits.bonds, 1)}

    @property
    def width(self) -> int:
        """m(m+1)/2 bytes."""
        return self.size * (self.size + 1) // 2

    def place(self, i: int, j: int) -> int:
        """The index of entry (i, j) of the matrix in the code, row by row."""
        return self.starts[i] + j if i <= j else self.starts[j] + i

    def write(self, reading: Reading) -> bytes:
        """The code of one molecule."""
        code = bytearray(self.width)
        for i, symbol in enumerate(reading.atoms):
            code[self.place(i, i)] = self.elements[symbol]
        for i, j, name in reading.bonds:
            code[self.place(i, j)] = self.bonds[name]
        return bytes(code)


class Worker:
    """One subprocess, restarted if it dies."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.process = self._start()

    def read(self, smiles: Sequence[str]) -> list[Encoded | str]:
        """As `read_block`, in the subprocess; a SMILES that kills it is found by halving the block and refused."""
        reply = self._ask(json.dumps(list(smiles)))
        if reply:
            return [(row[0], base64.b64decode(row[1])) if isinstance(row, list) else row for row in json.loads(reply)]
        self.close()
        self.process = self._start()
        if len(smiles) == 1:
            return ["RDKit crashed on it"]
        half = len(smiles) // 2
        return self.read(smiles[:half]) + self.read(smiles[half:])

    def close(self) -> None:
        """End the subprocess."""
        self.process.kill()
        self.process.communicate()

    def _start(self) -> subprocess.Popen[str]:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path),
            "PYTHONUTF8": "1",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__ if __name__ != "__main__" else "ele_graphs.molecules.reader"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            encoding="utf-8",
            start_new_session=True,  # a Ctrl-C is for the process that started it, which ends it
        )
        if not self._ask(json.dumps(asdict(self.limits))):
            self.close()
            raise RuntimeError(f"a worker process of {__name__} does not start: see its error above")
        return self.process

    def _ask(self, line: str) -> str:
        """Send one line and return the answer; empty if the process is dead."""
        assert self.process.stdin is not None  # opened as pipes
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return ""
        return self.process.stdout.readline()


class WorkerPool:
    """Workers that threads borrow, one block at a time."""

    def __init__(self, limits: Limits, size: int) -> None:
        self.idle: SimpleQueue[Worker] = SimpleQueue()
        self.workers = [Worker(limits) for _ in range(size)]
        for worker in self.workers:
            self.idle.put(worker)

    def read(self, smiles: list[str]) -> tuple[list[str], list[Encoded | str]]:
        """Read a block with an idle worker, and return the block and its results."""
        worker = self.idle.get()
        try:
            return smiles, worker.read(smiles)
        finally:
            self.idle.put(worker)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.close()


def _in_parallel(
    blocks: Iterator[list[str]], limits: Limits, processes: int
) -> Iterator[tuple[list[str], list[Encoded | str]]]:
    """Read blocks in order, with two per worker in progress."""
    with WorkerPool(limits, processes) as pool, ThreadPoolExecutor(processes) as threads:
        under_way: deque[Future[tuple[list[str], list[Encoded | str]]]] = deque()
        for block in blocks:
            under_way.append(threads.submit(pool.read, block))
            if len(under_way) > 2 * processes:
                yield under_way.popleft().result()
        while under_way:
            yield under_way.popleft().result()


def _numbered(results: Iterator[tuple[list[str], list[Encoded | str]]]) -> Iterator[Block]:
    """Turn results into blocks, with rows numbered over all blocks."""
    start = 0
    for texts, outcomes in results:
        accepted = [(start + k, out) for k, out in enumerate(outcomes) if not isinstance(out, str)]
        rejected = [
            (start + k, text, out)
            for k, (text, out) in enumerate(zip(texts, outcomes, strict=True))
            if isinstance(out, str)
        ]
        codes = np.frombuffer(b"".join(code for _, (_, code) in accepted), np.int8)
        codes = codes.reshape(len(accepted), -1) if accepted else codes.reshape(0, 0)
        yield Block([row for row, _ in accepted], [text for _, (text, _) in accepted], codes, rejected)
        start += len(texts)


def _read_one(text: str, limits: Limits, encoder: CodeWriter) -> Encoded | str:
    try:
        reading = read(text, limits)
    except UnreadableMolecule as refused:
        return str(refused)
    except Exception as error:  # RDKit raises more than it documents, and one odd row must not end the run
        return f"RDKit failed: {type(error).__name__}: {error}"
    return reading.unusual[0] if reading.unusual else (reading.smiles, encoder.write(reading))


def _blocks(texts: Iterator[str]) -> Iterator[list[str]]:
    while block := list(islice(texts, BLOCK)):
        yield block


def _serve() -> None:
    """Run as a worker: read the limits, then one list of SMILES per line, answered by a list of codes and reasons."""
    limits = Limits(**json.loads(sys.stdin.readline()))
    print("ready", flush=True)
    for line in sys.stdin:
        answer: list[Any] = [
            out if isinstance(out, str) else (out[0], base64.b64encode(out[1]).decode())
            for out in read_block(json.loads(line), limits)
        ]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    _serve()
