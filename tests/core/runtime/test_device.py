"""The one module that knows devices, precision and global random numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from torch import nn

from ele_core.errors import ConfigError
from ele_core.runtime import device
from ele_core.runtime.device import CPU, autocast, device_of, pick_device, seeded

ROOT = Path(__file__).parents[3]
ASKS = re.compile(r"torch\.cuda|torch\.autocast|fork_rng|parameters\(\)\)\.device|cpu:gloo")


def test_no_other_module_asks_for_devices_precision_or_global_random_numbers():
    files = [file for package in ("ele_core", "ele_graphs", "ele_sequences") for file in (ROOT / package).rglob("*.py")]
    asking = {file.relative_to(ROOT).as_posix() for file in files if ASKS.search(file.read_text("utf-8"))}
    assert asking == {"ele_core/runtime/device.py"}


def test_a_device_that_cannot_be_used_is_refused():
    with pytest.raises(ConfigError, match="'cuda:99' cannot be used"):
        pick_device("cuda:99")
    assert pick_device("cpu") == CPU == device_of(nn.Linear(2, 2))


def test_random_numbers_are_seeded_inside_the_block_alone():
    before = torch.get_rng_state()
    with seeded(7):
        first = torch.rand(3)
    assert torch.equal(torch.get_rng_state(), before)
    with seeded(7, CPU):
        assert torch.equal(torch.rand(3), first)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_products_have_the_precision_that_is_asked_for(precision, monkeypatch):
    monkeypatch.setattr(device, "computes_bfloat16", lambda _: True)
    with autocast(CPU, precision):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == getattr(torch, precision)
