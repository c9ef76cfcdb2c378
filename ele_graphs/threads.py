"""Run compiled code on many pairs in several threads; Ctrl-C stops the work in progress."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed

import numpy as np
import torch
from numpy.typing import NDArray

Flag = NDArray[np.int8]


def in_threads(
    solve: Callable[[slice, Flag], None],
    count: int,
    chunk: int,
    threads: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Call `solve(some, stop)` for consecutive slices of at most `chunk` of `count` pairs.

    solve: runs compiled code without the interpreter lock, and returns early once stop[0] is 1.
    threads: how many slices run at a time; torch's number of threads by default.
    progress: called in this thread with the number of pairs just finished.
    """
    stop = np.zeros(1, np.int8)

    def part(first: int) -> int:
        some = slice(first, min(first + chunk, count))
        solve(some, stop)
        return some.stop - some.start

    # Threads suffice, as compiled code releases the interpreter lock; numba's prange would load a second OpenMP.
    with ThreadPoolExecutor(threads or torch.get_num_threads()) as pool:
        try:
            for job in as_completed([pool.submit(part, first) for first in range(0, count, chunk)]):
                done = job.result()
                if progress is not None:
                    progress(done)
        except BaseException:
            stop[0] = 1
            pool.shutdown(wait=False, cancel_futures=True)
            raise
