"""Ctrl-C and SIGTERM as a wish: the work stops where it can go on from."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """Whether somebody asked to stop. A second Ctrl-C stops at once, whatever is lost."""

    def __init__(self) -> None:
        self.signal = 0
        """The number of the signal that asked; 0: none."""

    @contextmanager
    def listening(self) -> Iterator[Stop]:
        """Inside, signals are kept as a wish; only the main thread of a program can listen."""
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
