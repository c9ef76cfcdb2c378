"""The pairs given to `fit` and `evaluate`: checked, and divided into those to train and to validate on."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from ele_core.data.dataset import split
from ele_core.data.prepare import Pairs
from ele_core.data.truths import AnyOf, spread_out
from ele_core.errors import DataError
from ele_core.predictor.values import as_list, as_pairs

Held = float | tuple[Sequence[Any], Sequence[Any]]
"""What to validate on: a share or a number of the pairs, or other pairs `(X, y)`."""


def divided(inputs: Any, outputs: Any, extra: Any | None, validation: Held, seed: int) -> Pairs:
    """Return the pairs with the rows to train and to validate on; pairs of their own to validate on come last."""
    inputs, outputs = as_pairs(inputs, outputs, "fit")
    extra = None if extra is None else as_list(extra, "output", "extra_outputs")
    count = len(inputs)
    if count == 0:
        raise DataError("there are no pairs.", where="fit", fix="Give at least a few.")
    if isinstance(validation, float | int):
        train, held_out, _ = split(count, max(validation, 1 / count), 0, seed)
        return with_every_truth(Pairs(inputs, outputs, train, held_out, extra))
    own_inputs, own_outputs = as_pairs(*validation, "validation")
    rows = torch.arange(count), torch.arange(count, count + len(own_inputs))
    return with_every_truth(Pairs([*inputs, *own_inputs], [*outputs, *own_outputs], *rows, extra, count))


def with_every_truth(pairs: Pairs) -> Pairs:
    """Return a pair for each object of an `AnyOf`, in the part of the split that its input is in."""
    if not any(isinstance(output, AnyOf) for output in pairs.outputs):
        return pairs
    inputs, outputs, position = spread_out(pairs.inputs, pairs.outputs)
    train, validation = (torch.isin(position, part).nonzero().flatten() for part in (pairs.train, pairs.validation))
    return dataclasses.replace(
        pairs, inputs=inputs, outputs=outputs, train=train, validation=validation, position=position
    )
