"""Run a command in several processes on this machine, and supervise them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any

import click

LOOPBACK = "127.0.0.1"
GRACE = 20.0
"""Seconds that the other processes have to stop by themselves after one has failed."""
SHORT_GRACE = 3.0
"""Seconds that all processes have to stop after a second Ctrl-C, or after the process that started them has ended."""
LIFELINE = "ELE_LIFELINE"
"""The environment variable with the pipe that closes when the process that started this one ends."""


def launch(count: int, arguments: Sequence[str]) -> int:
    """Run `ele ARGUMENTS` in `count` processes that form one group; return the exit code of `side_by_side`."""
    from ele_core.runtime.distributed import environment

    store = local_store()
    names = [dict(environment(rank, count, store.host, store.port)) for rank in range(count)]
    return side_by_side(arguments, [{"TORCH_CPP_LOG_LEVEL": "ERROR", **own} for own in names])


def local_store() -> Any:
    """Return a store of torch that only processes of this machine reach; by itself torch listens on every interface."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    listening = socket.create_server((LOOPBACK, 0))
    port, handle = listening.getsockname()[1], listening.detach()  # torch closes it
    return TCPStore(LOOPBACK, port, is_master=True, wait_for_workers=False, master_listen_fd=handle)


def side_by_side(arguments: Sequence[str], variables: Sequence[Mapping[str, str]]) -> int:
    """Run `ele ARGUMENTS` in one process per environment; return the exit code of the first that failed, else 0.

    Only the main process, the first, prints. Signals are passed on to all. When one process dies, the others are
    stopped and the reason is printed.
    """
    listening, held = os.pipe()
    threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, (os.cpu_count() or 1) // len(variables)))
    shared = {"OMP_NUM_THREADS": threads, LIFELINE: str(listening)}
    members = [Member(rank, arguments, {**shared, **own}) for rank, own in enumerate(variables)]
    os.close(listening)
    asked: list[int] = []
    passed = {number: signal.signal(number, pass_on(members, asked)) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        return watch(members, asked)
    finally:
        for number, handler in passed.items():
            signal.signal(number, handler)
        os.close(held)


class Member:
    """One process of the group."""

    def __init__(self, rank: int, arguments: Sequence[str], variables: dict[str, str]) -> None:
        self.rank = rank
        self.errors: IO[bytes] | None = None if rank == 0 else tempfile.TemporaryFile()  # noqa: SIM115  # read later
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ele_core", *arguments],
            env={**os.environ, **variables},
            stdin=None if rank == 0 else subprocess.DEVNULL,
            stdout=None if rank == 0 else subprocess.DEVNULL,
            stderr=self.errors,
            pass_fds=[int(variables[LIFELINE])],
            start_new_session=True,  # a Ctrl-C reaches only this process, which passes it on once
        )

    def last_error(self) -> str:
        """Return the last line that the process wrote to standard error."""
        if self.errors is None:
            return ""
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""


def watch(members: Sequence[Member], asked: Sequence[int]) -> int:
    """Wait for all processes; kill those that still run `GRACE` seconds after a failure, or soon after two Ctrl-C."""
    first: Member | None = None
    deadline = float("inf")
    while any(member.process.poll() is None for member in members):
        bad = [member for member in members if member.process.poll()]
        if bad and first is None:
            first, deadline = bad[0], time.monotonic() + GRACE
        if asked.count(signal.SIGINT) > 1:
            deadline = min(deadline, time.monotonic() + SHORT_GRACE)
        if time.monotonic() > deadline:
            for member in members:
                member.process.kill()
        time.sleep(0.05)
    ended = first or next((member for member in members if member.process.returncode), None)
    if ended is None:
        return 0
    code = ended.process.returncode
    if code < 0:
        name = signal.Signals(-code).name
        click.echo(f"Error: process {ended.rank} of {len(members)} was ended by {name}. {ended.last_error()}", err=True)
    elif members[0].process.returncode <= 0 and ended.rank != 0:  # the main process printed no reason
        click.echo(f"Error: process {ended.rank} of {len(members)}: {ended.last_error()}", err=True)
    return 128 - code if code < 0 else code


def pass_on(members: Sequence[Member], asked: list[int]) -> Any:
    """Return a handler that sends a signal to every process that still runs, and appends it to `asked`."""

    def handle(number: int, _: Any) -> None:
        asked.append(number)
        for member in members:
            if member.process.poll() is None:
                member.process.send_signal(number)

    return handle


def stop_with_parent() -> None:
    """End this process when the process that started it ends: by SIGTERM, and if it does not stop in time, at once."""
    handle = os.environ.get(LIFELINE)
    if handle is None:
        return

    def wait() -> None:
        os.read(int(handle), 1)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(SHORT_GRACE)
        os._exit(128 + signal.SIGTERM)

    threading.Thread(target=wait, daemon=True).start()
