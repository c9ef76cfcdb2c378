"""Files of spectra: as tables for `ele train` and `ele predict`, and as records for the task."""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from ele_core import DataError, FileReader, InvalidInput
from ele_graphs.ms2mol.records import FORMATS, Record, mgf, msp

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
