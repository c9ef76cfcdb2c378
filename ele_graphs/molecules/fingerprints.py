"""Morgan fingerprints of many molecules: computed once, and cached as sparse arrays beside the cache of molecules."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import numpy as np

from ele_core import Context, SparseColumn, SparseVector, replace_folder
from ele_graphs.molecules.cache import cache_folder

RADIUS, BITS = 2, 2048
FORMAT = 1
"""Part of the hash: changing it invalidates old caches."""


@dataclass(frozen=True, eq=False, slots=True)
class Fingerprint(SparseVector):
    """A Morgan fingerprint: how often each bit occurs, and the radius of the neighbourhoods that it counts."""

    radius: int = RADIUS


class Fingerprints(SparseColumn):
    """Morgan fingerprints of one radius, stored sparse."""

    radius = RADIUS

    @overload
    def __getitem__(self, row: int) -> Fingerprint: ...
    @overload
    def __getitem__(self, row: slice) -> SparseColumn: ...
    def __getitem__(self, row: int | slice) -> Fingerprint | SparseColumn:
        """The fingerprint at `row`."""
        if isinstance(row, slice):
            return super().__getitem__(row)
        found = super().__getitem__(row)
        return Fingerprint(found.places, found.values, found.size, self.radius)


def fingerprint(smiles: str, radius: int = RADIUS, bits: int = BITS) -> Fingerprint:
    """The Morgan fingerprint of a SMILES. Raises `UnreadableMolecule`."""
    from ele_graphs.molecules.rdkit_adapter import morgan

    counts = sorted(morgan(smiles, radius, bits).items())
    places, values = (np.array(column, dtype=np.int64) for column in zip(*counts, strict=True))
    return Fingerprint(places, values, bits, radius)


def fingerprints(smiles: Sequence[str], radius: int, bits: int, context: Context) -> Fingerprints:
    """The Morgan fingerprints of valid SMILES, from the cache if they were computed before."""
    from ele_graphs.molecules.rdkit_adapter import VERSION

    key = json.dumps([FORMAT, VERSION, radius, bits, hashlib.sha256("\n".join(smiles).encode()).hexdigest()])
    folder = cache_folder() / "fingerprints" / hashlib.sha256(key.encode()).hexdigest()[:32]
    found = _open(folder, bits, len(smiles))
    if found is None:
        _compute(smiles, radius, bits, folder, context)
        found = _open(folder, bits, len(smiles))
    if found is None:
        raise OSError(f"{folder}: the fingerprints just written cannot be read; check the disk, or change ELE_CACHE")
    found.radius = radius
    return found


def _compute(smiles: Sequence[str], radius: int, bits: int, folder: Path, context: Context) -> None:
    starts, places, values = [0], [], []
    for text in context.monitor.progress(smiles, description="computing fingerprints"):
        found = fingerprint(text, radius, bits)
        starts.append(starts[-1] + len(found.places))
        places.append(found.places.astype(np.min_scalar_type(bits)))
        values.append(found.values.astype(np.uint16))
    with replace_folder(folder) as fresh:
        np.save(fresh / "starts.npy", np.array(starts))
        np.save(fresh / "places.npy", np.concatenate(places))
        np.save(fresh / "counts.npy", np.concatenate(values))


def _open(folder: Path, bits: int, count: int) -> Fingerprints | None:
    """Open a cached folder; None if it is missing or damaged."""
    try:
        starts, places, values = (np.load(folder / f"{name}.npy") for name in ("starts", "places", "counts"))
    except (OSError, ValueError):
        return None
    if len(starts) != count + 1 or not starts[-1] == len(places) == len(values):
        return None
    return Fingerprints(starts, places, values, bits)
