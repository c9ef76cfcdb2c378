"""Morgan fingerprints as input: a SMILES, whose bits are computed, or the bits themselves."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from ele_core import BitsInput, InvalidInput
from ele_graphs.molecules.fingerprints import BITS, RADIUS, Fingerprint, fingerprint

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
