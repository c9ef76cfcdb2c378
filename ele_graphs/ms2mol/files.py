"""Files of spectra (MSP, MGF, MassBank): as tables for `ele train` and `ele predict`, and as records for the task."""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from ele_core import DataError, FileReader
from ele_core.errors import InvalidInput
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


INFORMATION = ("name", "inchikey", "formula", "precursor", "adduct")
"""The columns between the spectrum and the SMILES."""
MSP = """Name: ethanol
InChIKey: LFQSCWFLJHTTHZ-UHFFFAOYSA-N
SMILES: CCO
Formula: C2H6O
Precursor_type: [M+H]+
PrecursorMZ: 47.0491
Num Peaks: 2
29.0386 400
47.0491 999

"""
MGF = """BEGIN IONS
TITLE=ethanol
PEPMASS=47.0491
ADDUCT=[M+H]+
SMILES=CCO
29.0386 400
47.0491 999
END IONS
"""


class SpectraReader(FileReader):
    """Spectra with their fields: columns `spectrum`, the fields that the file has, `mass` of the molecule, `smiles`."""

    records: ClassVar[Callable[..., Iterator[Record]]]
    kind: ClassVar[str]
    example: ClassVar[str]

    def read(self, stream: BinaryIO) -> Mapping[str, Sequence[Any]]:
        """The columns of a file; a spectrum or SMILES that is missing or wrong has the reason with its place."""
        text = (line.decode("utf-8", errors="replace") for line in stream)
        found = [record for record in type(self).records(text) if record.fields or record.peaks]
        if not found or not any(record.fields for record in found):
            raise DataError(f"not a file of {self.kind} spectra: there is no record.")
        columns: dict[str, list[Any]] = {"spectrum": [_or_reason(record.text) for record in found]}
        for name in INFORMATION:
            if any(name in record.fields for record in found):
                columns[name] = [record.fields.get(name) for record in found]
        columns["mass"] = [_or_reason(record.mass) for record in found]
        return columns | {"smiles": [_or_reason(record.smiles) for record in found]}

    def examples(self) -> list[bytes]:
        """A file of one spectrum, and one of two."""
        return [self.example.encode(), (self.example + self.example.replace("400", "300")).encode()]


class MspReader(SpectraReader):
    """MSP files, as NIST, MassBank and MoNA write them."""

    records = staticmethod(msp)
    kind = "MSP"
    example = MSP


class MgfReader(SpectraReader):
    """MGF files, as Mascot and GNPS write them."""

    records = staticmethod(mgf)
    kind = "MGF"
    example = MGF


def read(path: str) -> tuple[list[Record], str]:
    """The records of an MSP, MGF or MassBank file, or of all MassBank records in a folder, and their SHA-256."""
    place = Path(path).expanduser()
    if not place.exists():
        raise DataError("no such file or folder.", where=path, fix="Give a file of spectra as task.path.")
    files = sorted(file for file in place.rglob("*") if suffix(file) == ".txt") if place.is_dir() else [place]
    if place.is_dir() and not files:
        raise DataError("the folder has no MassBank records (*.txt).", where=path)
    found, digest = [], hashlib.sha256()
    for file in files:
        content = contents(file)
        digest.update(content)
        found += records_of(file, content)
    if not found:
        raise DataError("there are no spectra.", where=path)
    return found, digest.hexdigest()


def records_of(file: Path, content: bytes) -> list[Record]:
    """The records of one file, by its suffix."""
    if suffix(file) not in FORMATS:
        raise DataError("not a file of spectra.", where=str(file), fix=f"Give one of {', '.join(FORMATS)}, or .gz.")
    text = io.StringIO(content.decode("utf-8", errors="replace"))
    return [record for record in FORMATS[suffix(file)](text) if record.fields]


def contents(file: Path) -> bytes:
    """The bytes of a file, decompressed if its name ends in .gz."""
    try:
        return gzip.decompress(file.read_bytes()) if file.name.endswith(".gz") else file.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot be read: {error}", where=str(file)) from error


def suffix(file: Path) -> str:
    """The suffix that names the format, without .gz, in lower case."""
    return Path(file.name.removesuffix(".gz")).suffix.lower()


def _or_reason(read: Callable[[], str | float]) -> str | float | InvalidInput:
    try:
        return read()
    except InvalidInput as error:
        return error
