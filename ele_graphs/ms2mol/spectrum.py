"""`Spectrum`: the peaks of one tandem mass spectrum, the m/z of its precursor and its adduct; also as text."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ele_core.errors import InvalidInput

ELECTRON = 0.000548579909
HYDROGEN, PROTON = 1.00782503223, 1.00782503223 - ELECTRON
WATER, FORMIC, ACETIC, AMMONIA = 18.010564684, 46.005479304, 60.021129366, 17.026549101
SODIUM, POTASSIUM, CHLORIDE, BROMIDE = 22.989769282, 38.9637064864, 34.968852682, 78.9183376


@dataclass(frozen=True)
class Adduct:
    """An ion of `molecules` molecules with `charge` elementary charges, `shift` Da heavier than these."""

    name: str
    shift: float
    charge: int = 1
    molecules: int = 1

    def neutral_mass(self, mz: float) -> float:
        """The monoisotopic mass of the molecule whose ion has this m/z."""
        return (mz * abs(self.charge) - self.shift) / self.molecules

    def mz(self, mass: float) -> float:
        """The m/z of the ion of a molecule of this monoisotopic mass."""
        return (self.molecules * mass + self.shift) / abs(self.charge)


KNOWN = (
    Adduct("[M+H]+", PROTON),
    Adduct("[M-H]-", -PROTON, -1),
    Adduct("[M+Na]+", SODIUM - ELECTRON),
    Adduct("[M+K]+", POTASSIUM - ELECTRON),
    Adduct("[M+NH4]+", AMMONIA + PROTON),
    Adduct("[M-H2O+H]+", PROTON - WATER),
    Adduct("[M-2H2O+H]+", PROTON - 2 * WATER),
    Adduct("[M-H2O-H]-", -PROTON - WATER, -1),
    Adduct("[M+Cl]-", CHLORIDE + ELECTRON, -1),
    Adduct("[M+Br]-", BROMIDE + ELECTRON, -1),
    Adduct("[M+HCOO]-", FORMIC - PROTON, -1),
    Adduct("[M+CH3COO]-", ACETIC - PROTON, -1),
    Adduct("[M]+", -ELECTRON),
    Adduct("[M]-", ELECTRON, -1),
    Adduct("[M+2H]2+", 2 * PROTON, 2),
    Adduct("[M-2H]2-", -2 * PROTON, -2),
    Adduct("[2M+H]+", PROTON, 1, 2),
    Adduct("[2M-H]-", -PROTON, -1, 2),
)
ALIASES = {
    "[M+H-H2O]+": "[M-H2O+H]+",
    "[M-H-H2O]-": "[M-H2O-H]-",
    "[M+H-2H2O]+": "[M-2H2O+H]+",
    "[M+CHO2]-": "[M+HCOO]-",
    "[M+FA-H]-": "[M+HCOO]-",
    "[M+C2H3O2]-": "[M+CH3COO]-",
    "[M+CH3CO2]-": "[M+CH3COO]-",
    "[M+]+": "[M]+",
    "[M]+*": "[M]+",
    "[M]+.": "[M]+",
    "[M+2H]++": "[M+2H]2+",
    "[M-2H]--": "[M-2H]2-",
}
BY_NAME = {adduct.name: adduct for adduct in KNOWN}
PLACES = {adduct.name: place for place, adduct in enumerate(KNOWN)}


def find(name: str) -> Adduct | None:
    """The adduct of a name as files write it, such as `[M+H]+`, `M+H` or `[M + H]+`; None if it is not known."""
    plain = "".join(name.split())
    if plain and not plain.startswith("["):
        plain = next((known for known in BY_NAME if known[1:].split("]")[0] == plain.rstrip("+-")), plain)
    return BY_NAME.get(ALIASES.get(plain, plain))


Peaks = npt.NDArray[np.float64]
TEXT = "mz:intensity mz:intensity … | precursor=179.0697 adduct=[M+H]+"
"""A spectrum as text."""
MERGED_WITHIN = 0.005
"""Peaks of several spectra at most this many Da apart are merged."""


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Peaks (P, 2) of m/z and intensity, ascending in m/z, the highest intensity 1; see `Spectrum.of`."""

    peaks: Peaks
    precursor: float
    """The m/z of the ion that was fragmented."""
    adduct: Adduct

    @classmethod
    def of(cls, peaks: Iterable[Sequence[float]], precursor: float, adduct: str) -> Spectrum:
        """Check and normalise. Raises `InvalidInput` for wrong peaks, a wrong precursor or an unknown adduct.

        Peaks of intensity 0 are dropped.
        """
        found = checked(peaks)
        if not (math.isfinite(precursor) and precursor > 0):
            raise InvalidInput(f"the precursor m/z is {precursor:g}; it should be a positive number.")
        return cls(found, float(precursor), known_adduct(adduct))

    @classmethod
    def parse(cls, text: str) -> Spectrum:
        """Read a spectrum as text: `mz:intensity mz:intensity … | precursor=… adduct=…`."""
        listed, bar, rest = text.partition("|")
        fields = dict(re.findall(r"(\w+)=(\S+)", rest))
        if not bar or not listed.strip():
            raise InvalidInput("not a spectrum.", fix=f"Write it as {TEXT}")
        peaks = [number_pair(word) for word in listed.split()]
        return cls.of(peaks, precursor_of(fields.get("precursor")), fields.get("adduct", ""))

    def __str__(self) -> str:
        peaks = " ".join(f"{mz!r}:{intensity!r}" for mz, intensity in self.peaks.tolist())
        return f"{peaks} | precursor={self.precursor!r} adduct={self.adduct.name}"

    @property
    def neutral_mass(self) -> float:
        """The monoisotopic mass of the molecule."""
        return self.adduct.neutral_mass(self.precursor)

    def highest(self, count: int) -> Spectrum:
        """The same spectrum with its `count` highest peaks."""
        if len(self.peaks) <= count:
            return self
        rows = np.sort(np.argsort(-self.peaks[:, 1], kind="stable")[:count])
        return Spectrum(self.peaks[rows], self.precursor, self.adduct)


def merged(spectra: Sequence[Spectrum]) -> Spectrum:
    """One spectrum of several of the same molecule and adduct, such as those at different collision energies.

    Peaks at most 0.005 Da apart become one, at their mean m/z weighted by intensity; intensities add up.
    """
    peaks = np.concatenate([spectrum.peaks for spectrum in spectra])
    peaks = peaks[np.argsort(peaks[:, 0], kind="stable")]
    place = np.concatenate([[0], np.cumsum(np.diff(peaks[:, 0]) > MERGED_WITHIN)])
    heights = np.bincount(place, peaks[:, 1])
    centres = np.bincount(place, peaks[:, 0] * peaks[:, 1]) / heights
    precursor = float(np.median([spectrum.precursor for spectrum in spectra]))
    return Spectrum(np.stack([centres, heights / heights.max()], axis=1), precursor, spectra[0].adduct)


def checked(peaks: Iterable[Sequence[float]]) -> Peaks:
    """The peaks as (P, 2), sorted, with the highest intensity 1; raise `InvalidInput` if one is wrong."""
    try:
        found = np.array(list(peaks), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput("the peaks are not pairs of m/z and intensity.") from error
    if found.size == 0:
        raise InvalidInput("the spectrum has no peaks.")
    if found.ndim != 2 or found.shape[1] != 2:
        raise InvalidInput("the peaks are not pairs of m/z and intensity.")
    for name, values in (("m/z", found[:, 0]), ("intensity", found[:, 1])):
        wrong = np.flatnonzero(~np.isfinite(values) | (values < 0))
        if len(wrong):
            raise InvalidInput(f"peak {wrong[0] + 1} has the {name} {values[wrong[0]]:g}; it should not be negative.")
    found = found[(found[:, 1] > 0) & (found[:, 0] > 0)]
    if not len(found):
        raise InvalidInput("the spectrum has no peak of positive m/z and intensity.")
    found = found[np.argsort(found[:, 0], kind="stable")]
    found[:, 1] /= found[:, 1].max()
    return found


def known_adduct(name: str) -> Adduct:
    """The adduct of a name; raise `InvalidInput` if there is none or it is not known."""
    if not name.strip():
        raise InvalidInput("the adduct is missing.", fix="Give it, such as adduct=[M+H]+.")
    adduct = find(name)
    if adduct is None:
        raise InvalidInput(f"the adduct {name[:40]!r} is not known.", fix=f"Known are {', '.join(BY_NAME)}.")
    return adduct


def precursor_of(text: str | None) -> float:
    """The m/z of the precursor; raise `InvalidInput` if it is missing or not a number."""
    if text is None or not text.strip():
        raise InvalidInput("the precursor m/z is missing.", fix="Give it, such as precursor=179.0697.")
    return number(text, "the precursor m/z")


def number_pair(word: str) -> tuple[float, float]:
    """The m/z and intensity of one peak `mz:intensity`."""
    mz, colon, intensity = word.partition(":")
    if not colon:
        raise InvalidInput(f"the peak {word[:40]!r} is not written as mz:intensity.")
    return number(mz, "an m/z"), number(intensity, "an intensity")


def number(text: str, what: str) -> float:
    """A number; raise `InvalidInput` that says what it should have been."""
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"{what} is {text[:40]!r}, which is not a number.") from None


def as_spectrum(value: Any) -> Spectrum:
    """A spectrum as it is, or one given as text."""
    if isinstance(value, Spectrum):
        return value
    if isinstance(value, str):
        return Spectrum.parse(value)
    raise InvalidInput(f"got {type(value).__name__}, not a spectrum.", fix=f"Give a Spectrum, or a text: {TEXT}")
