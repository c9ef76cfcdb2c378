"""The choice of the device to compute on."""

from __future__ import annotations

import torch

from ele_core.errors import ConfigError
from ele_core.runtime.distributed import local_device


def pick_device(name: str) -> torch.device:
    """The device called `name`, if it can be used; `auto` is the first GPU if there is one, else the CPU."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    name = local_device(name)
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"'{name}' cannot be used: {reason}", where="device", fix="Use auto, cpu or cuda.") from None
    return device
