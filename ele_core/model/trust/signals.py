"""What decoding knows of an answer: its energy, how far the next structures are, whether a candidate is as good."""

from __future__ import annotations

import torch
from torch import Tensor

NAMES = ("energy", "margin", "ratio", "crowd", "candidate")
"""The signals, in the order of the columns of `signals`. A higher value of each means less trust."""
FAR = 10.0
"""Structures that were not found count as this many times the typical energy away."""
NEAR = 1e-3
"""Energies below this share of the typical one are not distinguished."""


def signals(energies: Tensor, candidate: Tensor | None, scale: float) -> Tensor:
    """One row of signals per query: (B, 5), from the ascending energies (B, K) of the structures found.

    `candidate` (B,) is the least energy of a candidate, None: not known. `scale` is a typical energy of an answer.

    - energy: log of the energy of the answer;
    - margin: minus the log of how much higher the energy of the next structure is;
    - ratio: the energy of the answer divided by that of the next structure;
    - crowd: the mean of this ratio over all further structures;
    - candidate: the energy of the answer divided by that of the nearest candidate, 1 if this is the answer.
    """
    known = energies.double().nan_to_num(posinf=FAR * scale)
    first = known[:, :1]
    further = torch.where(energies[:, 1:].isinf(), first + FAR * scale, known[:, 1:])
    floor = NEAR * scale
    ratios = (first + floor) / (further + floor)
    columns = [
        (first[:, 0] + floor).log(),
        -(further[:, 0] - first[:, 0] + floor).log(),
        ratios[:, 0],
        ratios.mean(dim=1),
        torch.ones_like(first[:, 0]) if candidate is None else (first[:, 0] + floor) / (candidate.double() + floor),
    ]
    return torch.stack(columns, dim=1)
