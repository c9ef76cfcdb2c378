"""Whether a call draws from or seeds a global random generator: that of torch, of numpy or of Python."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from ele_core.testing.results import require

UNUSUAL = 0x5EED_0F_C8EC5
"""The seed of all global generators during a check: no component seeds them with it by chance."""


@contextmanager
def unusual_generators(seed: int = UNUSUAL) -> Iterator[None]:
    """Seed the global generators with an unusual number, and restore them afterwards."""
    python, numpy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        np.random.seed(seed % (1 << 32))
        random.seed(seed)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)


def generators_used(function: Callable[[], Any]) -> list[str]:
    """The global generators, by name, that a call leaves in another state; it restores them."""
    with unusual_generators():
        before = states()
        function()
        return [name for name, state in states().items() if state != before[name]]


def require_own_randomness(what: str, function: Callable[[], Any]) -> None:
    """Raise `Broken` if a call draws from a global generator or seeds one."""
    used = " and ".join(generators_used(function))
    require(
        not used,
        f"{what} draws from or seeds the global generator of {used}: use only the `generator` that it is given, or "
        "`context.generator(name)`",
    )


def states() -> dict[str, bytes | str]:
    """The state of each global generator, as something that can be compared."""
    return {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "numpy": repr([part.tolist() if isinstance(part, np.ndarray) else part for part in np.random.get_state()]),
        "Python's random": repr(random.getstate()),
    }
