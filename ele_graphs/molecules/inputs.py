"""Inputs made from molecules: SMILES as texts, and Morgan fingerprints, computed once and cached."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
import torch
from pydantic import Field
from torch import Generator

from ele_core import Context, Tensors, TextInput, Texts
from ele_core.components.inputs.bits import BitsInput
from ele_core.data.store import cache_folder
from ele_core.errors import InvalidInput
from ele_core.files.atomic import replace_folder
from ele_core.numerics.sparse_vectors import SparseColumn, SparseVector

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


NUMBERS = re.compile(r"[\s\d\[\],;:.+-]*")
"""A text of bits; a SMILES has at least one letter."""


class FingerprintInput(BitsInput):
    """Morgan fingerprints, as sets of on-bits. A text is a SMILES, a list of on-bits (`3 17 1024`) or a vector."""

    class Config(BitsInput.Config):
        """How fingerprints are computed from SMILES, and whether counts matter."""

        size: int | None = Field(default=None, ge=1, le=1 << 24)
        """The number of bits. None: that of the training fingerprints; 2,048 for SMILES and lists of on-bits."""
        radius: int | None = Field(default=None, ge=0, le=16)
        """The radius of the neighbourhoods of atoms that are bits, used to compute the bits of SMILES. None: that of
        the training fingerprints if they are a task's, else 2."""
        counts: bool = False
        """Whether it matters how often a bit occurs; false: it is there or not."""

    config: Config
    reads = "vectors"

    def __init__(self, config: Config | None = None) -> None:
        super().__init__(config)
        self._radius = self.config.radius

    @property
    def radius(self) -> int:
        """The radius with which the bits of SMILES are computed."""
        return RADIUS if self._radius is None else self._radius

    def parse(self, text: str) -> Any:
        """Read a SMILES, a list of on-bits or a vector of bits."""
        return super().parse(text) if NUMBERS.fullmatch(text) else self._computed(text, 0)

    def fit(self, values: Sequence[Any]) -> None:
        """Learn the number of bits, and the radius if the fingerprints tell it."""
        known = next((value.radius for value in values if isinstance(value, Fingerprint)), None)
        if self.config.radius is None:
            self._radius = known
        super().fit(values)

    def examples(self) -> list[Any]:
        """Small molecules, and on-bits."""
        return ["CCO", "C1CC1", "CC(=O)N", "C#N", {1: 1, 80: 1, 2000: 1}]

    def _entries(self, value: Any, index: int) -> Any:
        found = super()._entries(self._computed(value, index) if isinstance(value, str) else value, index)
        radius = getattr(value, "radius", None)
        if radius is not None and radius != self.radius:
            what = f"a fingerprint of radius {radius}, but this model is for radius {self.radius}."
            raise InvalidInput(what, index=index)
        return found

    def _inferred_size(self, values: Sequence[Any]) -> int:
        return next((size for value in values if (size := self._entries(value, 0).size)), BITS)

    def _computed(self, smiles: str, index: int) -> Fingerprint:
        from ele_graphs.molecules.rdkit_adapter import UnreadableMolecule

        try:
            return fingerprint(smiles, self.radius, self._size or self.config.size or BITS)
        except UnreadableMolecule as error:
            raise InvalidInput(f"no fingerprint of {smiles[:60]!r}: {error}.", index=index) from error

    def _more(self) -> dict[str, Any]:
        return {"radius": self.radius}

    def _restore(self, state: Mapping[str, Any]) -> None:
        self._radius = int(state["radius"])


class SmilesInput(TextInput):
    """Texts of which a share is rewritten in every training batch, with the atoms in a random order."""

    class Config(TextInput.Config):
        """The options of `text`, and how much is rewritten."""

        rewrite: float = Field(0.0, ge=0, le=1)
        """The share of a training batch that is rewritten; a text that is not a SMILES stays unchanged."""

    config: Config

    def examples(self) -> list[str]:
        """Small molecules."""
        return ["CCO", "OCC", "C1CC1", "CC(=O)N", "C#N"]

    def augment(self, batch: Tensors, generator: Generator) -> Tensors:
        """Rewrite each text with probability `rewrite`; a text whose new form cannot be packed stays unchanged."""
        from ele_graphs.molecules.rdkit_adapter import rewritten

        assert isinstance(batch, Texts)
        if not self.config.rewrite:
            return batch
        chosen = (torch.rand(len(batch), generator=generator) < self.config.rewrite).nonzero().flatten()
        seeds = torch.randint(1 << 30, (len(chosen),), generator=generator).tolist()
        texts = [rewritten(text, seed) or text for text, seed in zip(self.unpack(batch[chosen]), seeds, strict=True)]
        views, accepted = self._pack_valid(texts)
        rows, views = chosen[accepted][views.known], views[views.known]
        tokens, lengths = batch.tokens.clone(), batch.lengths.clone()
        tokens[rows], lengths[rows] = views.tokens, views.lengths
        return Texts(tokens, lengths)

    def _pack_valid(self, texts: list[str]) -> tuple[Texts, list[int]]:
        """The texts that can be packed, and their positions."""
        positions = list(range(len(texts)))
        while True:
            try:
                return self.pack([texts[position] for position in positions]), positions
            except InvalidInput as error:
                del positions[error.index]
