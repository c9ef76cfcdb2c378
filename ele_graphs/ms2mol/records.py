"""The records of MSP, MGF and MassBank files: named fields and peaks, as they are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from ele_core import InvalidInput
from ele_graphs.ms2mol.spectrum import Spectrum, precursor_of

NAMES = {
    "name": "name",
    "title": "name",
    "accession": "name",
    "smiles": "smiles",
    "inchikey": "inchikey",
    "inchiaux": "inchikey",
    "formula": "formula",
    "precursortype": "adduct",
    "adduct": "adduct",
    "precursormz": "precursor",
    "pepmass": "precursor",
    "exactmass": "mass",
    "collisionenergy": "energy",
    "instrumenttype": "instrument",
    "license": "license",
}
"""The names of fields, in lower case without other characters than letters, and what they are called here."""
NUMBER = re.compile(r"[^\s,;:]+")
QUOTED = re.compile(r'"([^"=]+)=([^"]*)"')


@dataclass
class Record:
    """One spectrum of a file: its `fields` by the names used here, and its peaks as words."""

    line: int
    """The line of the file at which it begins, counted from 1."""
    number: int
    """Its place in the file, counted from 1."""
    fields: dict[str, str] = field(default_factory=dict)
    peaks: list[list[str]] = field(default_factory=list)

    def add(self, name: str, value: str) -> None:
        """Add a field, unless its name is unknown here, it was given before, or it is empty or not available."""
        known = NAMES.get(re.sub(r"[^a-z]", "", name.lower()))
        if known and value.strip() and value.strip().lower() not in ("n/a", "na", "none"):
            self.fields.setdefault(known, value.strip())

    def add_peaks(self, line: str) -> None:
        """Add the peaks of a line: pairs of numbers, several of them with semicolons between them."""
        for part in line.split(";"):
            if words := NUMBER.findall(part)[:2]:
                self.peaks.append(words)

    def spectrum(self) -> Spectrum:
        """The spectrum; raise `InvalidInput` with the reason and the place if there is none."""
        try:
            peaks = [self._peak(words) for words in self.peaks]
            precursor = precursor_of(self.fields.get("precursor", "").split(" ")[0])
            return Spectrum.of(peaks, precursor, self.fields.get("adduct", ""))
        except InvalidInput as error:
            raise InvalidInput(f"{self.place}: {error.what}", fix=error.fix) from None

    def text(self) -> str:
        """The spectrum as text."""
        return str(self.spectrum())

    def mass(self) -> float:
        """The monoisotopic mass of the molecule, from the precursor and the adduct."""
        return round(self.spectrum().neutral_mass, 6)

    def smiles(self) -> str:
        """The SMILES; raise `InvalidInput` with the place if there is none."""
        if "smiles" not in self.fields:
            raise InvalidInput(f"{self.place}: there is no SMILES.")
        return self.fields["smiles"]

    @property
    def place(self) -> str:
        """The place in the file, for messages."""
        return f"spectrum {self.number}, line {self.line}"

    def _peak(self, words: list[str]) -> tuple[float, float]:
        try:
            mz, intensity = map(float, words)
        except ValueError:
            raise InvalidInput(f"the peak {' '.join(words)[:40]!r} is not two numbers.") from None
        return mz, intensity


def msp(lines: Iterable[str]) -> Iterator[Record]:
    """The records of an MSP file: `Name: value` lines, the last one `Num Peaks`, then the peaks; a blank line ends."""
    record: Record | None = None
    number, in_peaks = 0, False
    for place, line in enumerate(map(str.strip, lines), 1):
        starts = in_peaks and re.match(r"name\s*:", line, re.IGNORECASE)
        if record is not None and (not line or starts):
            yield record
            record = None
        if not line:
            continue
        if record is None:
            number += 1
            record, in_peaks = Record(place, number), False
        if in_peaks:
            record.add_peaks(line)
            continue
        name, colon, value = line.partition(":")
        in_peaks = bool(re.fullmatch(r"num\s*peaks", name.strip(), re.IGNORECASE))
        if name.lower().startswith("comment"):
            for key, quoted in QUOTED.findall(value):
                record.add(key, quoted)
        elif colon:
            record.add(name, value)
    if record is not None:
        yield record


def mgf(lines: Iterable[str]) -> Iterator[Record]:
    """The records of an MGF file: between BEGIN IONS and END IONS, `NAME=value` lines and lines of peaks."""
    record: Record | None = None
    number = 0
    for place, line in enumerate(map(str.strip, lines), 1):
        if line.upper() == "BEGIN IONS":
            number += 1
            record = Record(place, number)
        elif record is not None and line.upper() == "END IONS":
            yield record
            record = None
        elif record is not None and "=" in line and not line[0].isdigit():
            record.add(*line.split("=", 1))
        elif record is not None and line:
            record.add_peaks(line)
    if record is not None:
        yield record


def massbank(lines: Iterable[str]) -> Iterator[Record]:
    """The records of a MassBank file: `TAG: value` lines, indented peaks after `PK$PEAK`, and `//` at the end."""
    record: Record | None = None
    number, in_peaks = 0, False
    for place, line in enumerate(lines, 1):
        if line.startswith("//"):
            if record is not None:
                yield record
            record = None
            continue
        if not line.strip():
            continue
        if record is None:
            number += 1
            record, in_peaks = Record(place, number), False
        if in_peaks and line[0].isspace():
            record.add_peaks(line)
            continue
        tag, _, value = line.partition(": ")
        in_peaks = tag.startswith("PK$PEAK")
        if tag in ("CH$LINK", "MS$FOCUSED_ION", "AC$MASS_SPECTROMETRY"):
            record.add(*value.strip().partition(" ")[::2])
        else:
            record.add(tag.rpartition("$")[2], value)
    if record is not None:
        yield record


FORMATS: dict[str, Callable[[Iterable[str]], Iterator[Record]]] = {".msp": msp, ".mgf": mgf, ".txt": massbank}
"""How the files of each suffix are read."""
