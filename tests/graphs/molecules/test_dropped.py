"""What reading drops from a user's molecules is said before training, for files and for `fit`."""

from __future__ import annotations

import pytest

from ele_core import config
from ele_core.data.prepare import Pairs, load_pairs, prepare
from ele_core.data.summary import summary
from ele_core.errors import DataError
from ele_core.runtime.context import Context

OPTIONS = {"output": "molecule", "input": "text", "surrogate": {"name": "contrastive", "encoder": "rgcn"}}
SMILES = ["C[C@H](O)N", "CC(=O)[O-]", "CCO.[Na+]", *["C" * n for n in range(1, 9)]]


def of_file(file, **output):
    file.write_text("name,smiles\n" + "".join(f"n{i},{text}\n" for i, text in enumerate(SMILES)), encoding="utf-8")
    options = {**OPTIONS, "data": {"file": str(file)}, "output": {"name": "molecule", **output}}
    return prepare(config.load(options), Context())


def test_a_file_of_molecules_says_in_one_line_what_was_dropped(tmp_path):
    prepared = of_file(tmp_path / "own.csv", fragments="largest", charges=None)
    line = "molecules: dropped stereo from 1, charges from 1; kept the largest fragment of 1"
    assert line in summary(prepared).splitlines()
    assert len(prepared.data) == len(SMILES)
    assert prepared.space.config.elements == ("C", "N", "O")


def test_charges_of_a_file_become_labels_and_are_not_said_to_be_dropped(tmp_path):
    prepared = of_file(tmp_path / "own.csv", fragments="largest")
    line = "molecules: dropped stereo from 1; kept the largest fragment of 1"
    assert line in summary(prepared).splitlines()
    assert len(prepared.data) == len(SMILES)
    assert prepared.space.config.elements == ("C", "N", "O", "O-")


def test_rows_with_isotopes_and_radicals_are_left_out_with_their_names_and_the_others_keep_their_places(tmp_path):
    file = tmp_path / "own.csv"
    rows = ["CC", "CC[13CH3]", "CC[NH3+]", "CC([O])C", *["C" * n for n in range(3, 9)]]
    file.write_text("name,smiles\n" + "".join(f"n{i},{text}\n" for i, text in enumerate(rows)), encoding="utf-8")
    options = {**OPTIONS, "data": {"file": str(file), "on_error": "skip"}}
    data = prepare(config.load(options), Context()).data
    assert [(each.row, each.reason) for each in data.rejected] == [
        (1, "CCC: isotope 13C at atom 3: isotopes are not supported"),
        (3, "CC(C)O: radical at atom 3 (O): radicals are not supported"),
    ]
    assert list(data.inputs) == [f"n{i}" for i in range(len(rows)) if i not in (1, 3)]


def test_a_row_of_several_fragments_is_refused_with_the_option_that_takes_it(tmp_path):
    with pytest.raises(DataError, match=r'row 3 .*2 fragments, one expected: .*output\.fragments = "largest"'):
        of_file(tmp_path / "own.csv")


def test_pairs_in_memory_have_the_same_line():
    import torch

    kept = [text for text in SMILES if "." not in text]
    pairs = Pairs(kept, kept, torch.arange(len(kept)), torch.arange(1))
    _, data = load_pairs(config.load({**OPTIONS, "data": {"file": "unused"}}), pairs, Context())
    assert data.notes == ["molecules: dropped stereo from 1"]
    dropping = {**OPTIONS, "output": {"name": "molecule", "charges": None}, "data": {"file": "unused"}}
    _, data = load_pairs(config.load(dropping), pairs, Context())
    assert data.notes == ["molecules: dropped stereo from 1, charges from 1"]
