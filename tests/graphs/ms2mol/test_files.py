"""Files of spectra: MSP, MGF and MassBank records, good and bad, as tables and as records."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from ele_core.errors import DataError
from ele_core.plugins import registry
from ele_core.testing import check_file_reader
from ele_graphs.ms2mol.files import MGF, MSP, MgfReader, MspReader, read
from ele_graphs.ms2mol.spectrum import Spectrum

MASSBANK = """ACCESSION: MSBNK-Test-1
CH$FORMULA: C2H6O
CH$SMILES: CCO
CH$LINK: CAS 64-17-5
CH$LINK: INCHIKEY LFQSCWFLJHTTHZ-UHFFFAOYSA-N
AC$MASS_SPECTROMETRY: COLLISION_ENERGY 10
MS$FOCUSED_ION: PRECURSOR_M/Z 47.0491
MS$FOCUSED_ION: PRECURSOR_TYPE [M+H]+
PK$NUM_PEAK: 2
PK$PEAK: m/z int. rel.int.
  29.0386 400 400
  47.0491 999 999
//
"""
BAD = """Name: no peaks
SMILES: CCO
Precursor_type: [M+H]+
PrecursorMZ: 47.0491
Num Peaks: 0

Name: not a number
SMILES: CCO
Precursor_type: [M+H]+
PrecursorMZ: 47.0491
Num Peaks: 1
nan 5

Name: negative
SMILES: CCO
Precursor_type: [M+H]+
PrecursorMZ: 47.0491
Num Peaks: 1
29.0386 -5

Name: unknown adduct
SMILES: CCO
Precursor_type: [M+Xx]+
PrecursorMZ: 47.0491
Num Peaks: 1
29.0386 5

Name: no precursor
SMILES: CCO
Precursor_type: [M+H]+
PrecursorMZ:
Num Peaks: 1
29.0386 5

Name: no structure
Precursor_type: [M+H]+
PrecursorMZ: 47.0491
Num Peaks: 1
29.0386 5

"""
REASONS = ("no peaks", "m/z nan", "intensity -5", "not known", "precursor m/z is missing")


@pytest.mark.parametrize("suffix", [".msp", ".mgf"])
def test_the_readers_keep_the_laws(suffix: str) -> None:
    results = check_file_reader(registry().create("reader", suffix))
    assert not [str(result) for result in results if result.status == "failed"]


@pytest.mark.parametrize(("reader", "text"), [(MspReader(), MSP), (MgfReader(), MGF)])
def test_a_file_is_a_table_from_spectrum_to_smiles(reader, text: str) -> None:
    columns = reader.read(io.BytesIO(text.encode()))
    assert next(iter(columns)) == "spectrum"
    assert list(columns)[-1] == "smiles"
    assert columns["smiles"] == ["CCO"]
    assert columns["mass"] == [pytest.approx(46.0418, abs=1e-4)]
    assert Spectrum.parse(columns["spectrum"][0]).precursor == 47.0491


@pytest.mark.parametrize(
    "text",
    [
        MSP.replace("29.0386 400\n47.0491 999", "29.0386 400; 47.0491 999;"),
        MSP.replace("29.0386 400", '29.0386\t400\t"C2H5+"'),
        MSP.replace("\n", "\r\n"),
        MSP.strip(),
        MSP.replace("SMILES: CCO", 'Comments: "SMILES=CCO" "ms level=2"'),
        MSP.replace("Precursor_type", "PRECURSORTYPE").replace("Num Peaks", "Num peaks"),
    ],
)
def test_variants_of_msp_are_read_alike(text: str) -> None:
    columns = MspReader().read(io.BytesIO(text.encode()))
    assert columns["spectrum"] == MspReader().read(io.BytesIO(MSP.encode()))["spectrum"]
    assert columns["smiles"] == ["CCO"]


def test_bad_spectra_have_a_reason_with_their_place_and_rows_stay_aligned() -> None:
    columns = MspReader().read(io.BytesIO((BAD + MSP).encode()))
    assert len({len(column) for column in columns.values()}) == 1
    for place, reason in enumerate(REASONS):
        said = str(columns["spectrum"][place])
        assert reason in said
        assert f"spectrum {place + 1}, line" in said
    assert "spectrum 6, line 35: there is no SMILES" in str(columns["smiles"][5])
    assert isinstance(columns["spectrum"][5], str)
    assert columns["smiles"][6] == "CCO"
    assert isinstance(columns["spectrum"][6], str)


@pytest.mark.parametrize(("name", "text"), [("a.msp", MSP), ("a.mgf", MGF), ("a.txt", MASSBANK), ("a.MSP", MSP)])
@pytest.mark.parametrize("packed", [False, True])
def test_each_format_gives_the_same_record(tmp_path: Path, name: str, text: str, packed: bool) -> None:
    file = tmp_path / (name + (".gz" if packed else ""))
    file.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    (record,), _ = read(str(file))
    assert str(record.spectrum()) == str(Spectrum.parse("29.0386:400 47.0491:999 | precursor=47.0491 adduct=[M+H]+"))
    assert record.smiles() == "CCO"


def test_a_folder_of_massbank_records_is_read_in_the_order_of_names(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "b.txt").write_text(MASSBANK.replace("CCO", "CCN"))
    (tmp_path / "a.txt").write_text(MASSBANK)
    (tmp_path / "README.md").write_text("not a record")
    records, _ = read(str(tmp_path))
    assert [record.smiles() for record in records] == ["CCO", "CCN"]
    assert records[0].fields["inchikey"].startswith("LFQSCWFLJHTTHZ")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.xyz", b"", "not a file of spectra"),
        ("a.msp", b"", "there are no spectra"),
        ("a.msp.gz", b"not compressed", "cannot be read"),
        (None, b"", "no such file or folder"),
    ],
)
def test_files_that_cannot_be_read_are_refused(tmp_path: Path, name: str | None, content: bytes, reason: str) -> None:
    file = tmp_path / (name or "missing.msp")
    if name:
        file.write_bytes(content)
    with pytest.raises(DataError, match=reason):
        read(str(file))


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no MassBank records"):
        read(str(tmp_path))
