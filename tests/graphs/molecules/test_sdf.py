"""SDF files: their fields and structures as columns, and training data from them."""

from __future__ import annotations

import io

import pytest
from columns import read_columns
from recording import Recorder

from ele_core import DataError
from ele_core import config as configuration
from ele_core.data.objects import readers
from ele_core.data.prepare import prepare
from ele_core.files.tables import LAST
from ele_core.plugins import registry
from ele_core.runtime.context import Context
from ele_graphs.molecules.sdf import EXAMPLE, SdfReader

BROKEN = EXAMPLE.replace("  3  2  0", "  9  2  0").replace("ethanol", "broken")


def test_fields_are_columns_and_the_structure_is_the_last():
    other = EXAMPLE.replace("melting_point", "boiling point").replace("ethanol", "again").replace(">  <", "> 25 <")
    columns = SdfReader().read(io.BytesIO((EXAMPLE + other).replace("\n", "\r\n").encode()))
    assert columns == {
        "name": ["ethanol", "again"],
        "melting_point": ["-114.1", None],
        "boiling point": [None, "-114.1"],
        "smiles": ["CCO", "CCO"],
    }


def test_the_last_molecule_may_lack_its_end_and_titles_may_be_missing():
    columns = SdfReader().read(io.BytesIO(EXAMPLE.removesuffix("$$$$\n").removeprefix("ethanol").encode()))
    assert list(columns) == ["melting_point", "smiles"]


def test_a_structure_that_cannot_be_read_is_a_row_with_a_reason(tmp_path):
    file = tmp_path / "some.sdf"
    file.write_text(EXAMPLE + BROKEN)
    (smiles,), _ = read_columns(str(file), ["smiles"], readers(registry()))
    assert smiles[0] == "CCO"
    assert smiles[1].reason == "RDKit cannot read this structure."
    with pytest.raises(DataError, match=r"some\.sdf: no column is called 'logp'"):
        read_columns(str(file), ["logp", LAST], readers(registry()))
    file.write_text("no molecules")
    with pytest.raises(DataError, match=r"some\.sdf: not an SDF file"):
        read_columns(str(file), [LAST], readers(registry()))


def test_a_training_reads_its_pairs_from_an_sdf_file(tmp_path):
    file = tmp_path / "some.sdf"
    file.write_text(EXAMPLE * 20 + BROKEN)
    data = {"file": str(file), "input": "name", "on_error": "skip"}
    prepared = prepare(configuration.load({"output": "molecule", "data": data}), Context(0, monitor=Recorder()))
    assert (len(prepared.data), [each.row for each in prepared.data.rejected]) == (20, [20])
    assert prepared.data.notes == [
        "input: column 'name'; output: column 'smiles' (the last); 1 other is not used",
        "note: 19 rows equal to an earlier one, and only 1 different: equal rows are trained and tested on, so results "
        "are too good",
        "output: molecules of C O, at most 3 heavy atoms",
        "no confidence: below 1,000 training pairs none are set aside to learn it. To learn it from all "
        "pairs after the training: `ele calibrate RUN --folds 3`; to set some aside: --set calibration.pairs=0.1",
    ]
