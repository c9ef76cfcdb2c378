"""Top-k: how often the truth is among the first answers of the decoder."""

from __future__ import annotations

import dataclasses
from typing import Any

from torch import Tensor

from ele_core.errors import EleError
from ele_core.model.model import Model
from ele_core.report.budget import affordable
from ele_core.runtime.context import Context

MOST = 200
"""How many inputs are decoded again, or fewer if the decoder is slow; more would cost as much as an evaluation."""
SHOWN = (1, 2, 3, 5, 10)
"""The numbers of first answers that are shown."""


@dataclasses.dataclass(frozen=True)
class Ranks:
    """The share of truths among the first k answers, as pairs (k, share), measured on `count` inputs."""

    count: int
    deepest: int
    shares: list[tuple[int, float]]


def ranks(model: Model, queries: Tensor, truths: Any, context: Context) -> Ranks | None:
    """Decode the first inputs once more, for as many answers as are shown; None if the decoder gives only one."""
    deepest = min(SHOWN[-1], len(model.candidates or ()))
    if not len(queries) or deepest < 2:
        return None
    try:
        count = affordable(model, queries[:MOST], top_k=deepest, context=context)
        decoding = model.decode(queries[:count], top_k=deepest, context=context)
    except EleError:  # fewer answers than asked for: a small share of the candidates, or a decoder with one answer
        return None
    keys = model.space.keys(decoding.structures).view(count, deepest, -1)
    right = (keys == model.space.keys(truths[:count]).unsqueeze(1)).all(dim=2) & decoding.energies.isfinite()
    found = right.cummax(dim=1).values.float().mean(dim=0).tolist()
    return Ranks(count, deepest, [(k, found[k - 1]) for k in SHOWN if k <= deepest])
