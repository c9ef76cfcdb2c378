"""Which molecules are for training, validation and test: by a hash, so that a molecule is on the same side forever."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

LARGE = 0.01
"""Scaffolds of more than this share of the molecules are for training: one could be most of a small test set."""
TRAIN, VALIDATION, TEST = 0, 1, 2


def by_hash(names: Sequence[str], validation: float, test: float) -> Tensor:
    """(M,) int64: 0, 1 or 2 for training, validation and test, by the hash of each name alone."""
    return torch.tensor([_part(name, validation, test) for name in names], dtype=torch.int64)


def by_scaffold(scaffolds: Sequence[str], names: Sequence[str], validation: float, test: float) -> Tensor:
    """(M,) as `by_hash`, with all molecules of a scaffold on the same side; those without one follow their names.

    Scaffolds of more than 1 % of the molecules are for training, so that this has more than its share.
    """
    counts = Counter(scaffolds)
    common = {scaffold for scaffold, count in counts.items() if scaffold and count > LARGE * len(scaffolds)}
    pairs = zip(scaffolds, names, strict=True)
    return torch.tensor(
        [TRAIN if scaffold in common else _part(scaffold or name, validation, test) for scaffold, name in pairs],
        dtype=torch.int64,
    )


def _part(name: str, validation: float, test: float) -> int:
    place = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") / 2**64
    return TEST if place < test else VALIDATION if place < test + validation else TRAIN
