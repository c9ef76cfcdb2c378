"""SIGINT (Ctrl-C) and SIGTERM set a flag that long work polls where it can resume."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """The flag that asks work to stop. A second Ctrl-C stops at once, without saving."""

    def __init__(self) -> None:
        self.signal = 0
        """The number of the signal received; 0: none so far."""

    @contextmanager
    def listening(self) -> Iterator[Stop]:
        """Inside the block, signals only set the flag. Has no effect in a thread other than the main one."""
        if threading.current_thread() is not threading.main_thread():
            yield self
            return
        before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self.signal == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number
