"""Processes of one command on this machine: who may talk to them."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from ele_core.cli.launch import LOOPBACK, local_store
from ele_core.runtime.distributed import LOOPBACK_INTERFACES, environment

SOCKETS = Path("/proc/net/tcp")
"""Where Linux lists IPv4 sockets: the local address in hexadecimal is the second field."""


def test_the_store_of_several_processes_answers_on_loopback() -> None:
    store = local_store()
    store.set("key", "value")
    assert store.host == LOOPBACK
    socket.create_connection((LOOPBACK, store.port), timeout=5).close()


@pytest.mark.skipif(not SOCKETS.exists(), reason="the system does not list its sockets")
def test_the_store_of_several_processes_listens_on_loopback_alone() -> None:
    store = local_store()
    lines = [line.split() for table in (SOCKETS, SOCKETS.with_name("tcp6")) for line in table.read_text().splitlines()]
    own = [fields[1] for fields in lines if fields[1].endswith(f":{store.port:04X}") and fields[3] == "0A"]
    assert own == [f"0100007F:{store.port:04X}"]


def test_processes_on_this_machine_exchange_gradients_over_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(1, "lo"), (2, "eth0")])
    assert dict(environment(0, 2, LOOPBACK, 1))["GLOO_SOCKET_IFNAME"] in LOOPBACK_INTERFACES
