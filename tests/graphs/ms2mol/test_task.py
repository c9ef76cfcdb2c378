"""The task ms2mol on small files: its split, what it merges, what it leaves out, and a training from end to end."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from ele_core.cli import cli
from ele_core.data.dataset import DataSet
from ele_core.errors import ConfigError, DataError
from ele_core.numerics.keys import member
from ele_core.runtime.context import Context
from ele_core.testing import check_task
from ele_graphs.graphs.networkx_space import PaddedGraphSpace
from ele_graphs.molecules.rdkit_adapter import scaffold
from ele_graphs.molecules.space import MoleculeSpace
from ele_graphs.ms2mol.task import ELEMENTS, TEST, TRAIN, SpectrumToMolecule, by_hash, by_scaffold

SPACE = MoleculeSpace(MoleculeSpace.Config(elements=ELEMENTS, max_atoms=12, charges="labels", resonance=True))
SMILES = [
    f"{start}{'C' * n}{end}" for n in range(1, 6) for start in ("O", "N", "C1CC1", "F", "c1ccccc1") for end in "ONS"
]


def record(smiles: str, number: int, adduct: str = "[M+H]+", inchikey: str = "") -> str:
    peaks = "".join(f"{20.0 + 3 * number + k:.4f} {100 * (k + 1)}\n" for k in range(3))
    known = f"InChIKey: {inchikey}\n" if inchikey else ""
    return (
        f"Name: spectrum {number}\n{known}SMILES: {smiles}\nPrecursor_type: {adduct}\nPrecursorMZ: {90 + number}\n"
        f"Num Peaks: 3\n{peaks}\n"
    )


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Three spectra of each of 75 molecules, one of them negative."""
    texts = [record(smiles, number) for number, smiles in enumerate(SMILES)]
    texts += [record(smiles, number + 7) for number, smiles in enumerate(SMILES)]
    texts += [record(smiles, number, "[M-H]-") for number, smiles in enumerate(SMILES)]
    path = tmp_path / "spectra.msp"
    path.write_text("".join(texts))
    return str(path)


def loaded(path: str, **options) -> DataSet:
    return SpectrumToMolecule(SpectrumToMolecule.Config(path=path, processes=0, **options)).load(SPACE, Context())


def test_the_task_keeps_the_laws(file: str) -> None:
    task = SpectrumToMolecule(SpectrumToMolecule.Config(path=file, processes=0))
    assert not [str(result) for result in check_task(task) if result.status == "failed"]


@pytest.mark.parametrize("split", ["molecule", "scaffold"])
@pytest.mark.parametrize("merge", ["held-out", "all", "none"])
def test_no_molecule_is_on_two_sides(file: str, split: str, merge: str) -> None:
    data = loaded(file, split=split, merge=merge, test=0.2, validation=0.2)
    keys = [SPACE.keys(data.outputs[rows]) for rows in (data.train, data.validation, data.test)]
    assert all(len(key) for key in keys)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert not member(keys[one], of=keys[other]).any()


def test_no_scaffold_is_on_two_sides(file: str) -> None:
    data = loaded(file, split="scaffold", test=0.3, validation=0.3)
    sides = [
        {scaffold(molecule.smiles) for molecule in SPACE.unpack(data.outputs[rows])} - {""}
        for rows in (data.train, data.validation, data.test)
    ]
    assert not sides[0] & (sides[1] | sides[2])
    assert not sides[1] & sides[2]


def test_a_common_scaffold_is_for_training() -> None:
    names = [f"molecule {number}" for number in range(400)]
    sides = by_scaffold(["c1ccccc1"] * 200 + [f"ring {n}" for n in range(200)], names, 0.1, 0.1)
    assert (sides[:200] == TRAIN).all()
    assert (sides[200:] == TEST).any()


def test_the_side_of_a_molecule_does_not_depend_on_the_others() -> None:
    names = [f"molecule {number}" for number in range(1000)]
    sides = by_hash(names, 0.1, 0.1)
    assert torch.equal(by_hash(names[500:], 0.1, 0.1), sides[500:])
    assert 700 < int((sides == TRAIN).sum()) < 900


def test_spectra_of_one_inchikey_block_are_of_one_molecule(tmp_path: Path) -> None:
    pairs = [("OC(C)CC", "AAAAAAAAAAAAAA-A-N"), ("O[C@H](C)CC", "AAAAAAAAAAAAAA-B-N")] + [
        (smiles, f"{number:014d}-A-N") for number, smiles in enumerate(SMILES)
    ]
    path = tmp_path / "a.msp"
    path.write_text("".join(record(smiles, number, inchikey=key) for number, (smiles, key) in enumerate(pairs)))
    data = loaded(str(path), merge="all")
    assert len(data) == len(SMILES) + 1


def test_held_out_spectra_of_a_molecule_and_adduct_are_merged(file: str) -> None:
    data, apart = loaded(file, merge="held-out"), loaded(file, merge="none")
    assert len(data.test) == len(apart.test) // 3 * 2
    assert len(data.train) == len(apart.train) // 3 * 5
    assert max(len(data.inputs[row].peaks) for row in data.test.tolist()) > 3


def test_at_most_so_many_single_spectra_of_a_molecule_are_for_training(file: str) -> None:
    few, all_of_them = (loaded(file, merge="held-out", spectra=most) for most in (1, None))
    assert len(few.train) == len(all_of_them.train) // 5 * 4
    assert len(few.test) == len(all_of_them.test)


def test_what_cannot_be_used_is_left_out_with_its_reason(file: str) -> None:
    path = Path(file)
    large, mute = record("C" * 20, 1), record("CCO", 1).replace("PrecursorMZ: 91", "PrecursorMZ:")
    path.write_text(large + mute + record("C1CC", 2) + path.read_text())
    data = loaded(file)
    reasons = {each.row: (each.reason, each.line) for each in data.rejected}
    assert set(reasons) == {0, 1, 2}
    assert "20 atoms, more than max_atoms = 12" in reasons[0][0]
    assert "spectrum 2, line 10: the precursor m/z is missing" in reasons[1][0]
    assert reasons[2][1] == 19


def test_without_a_file_the_task_says_what_to_give() -> None:
    with pytest.raises(ConfigError, match=r"the file of spectra is missing. Add --set task.path"):
        SpectrumToMolecule().load(SPACE, Context())


def test_a_file_without_usable_spectra_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.msp"
    path.write_text(record("C" * 20, 1))
    with pytest.raises(DataError, match="no spectrum can be used"):
        loaded(str(path))


def test_another_output_space_is_refused(file: str) -> None:
    space = PaddedGraphSpace(PaddedGraphSpace.Config(node_labels=("a",), edge_labels=("b",), max_nodes=3))
    with pytest.raises(ConfigError, match="predicts molecules"):
        SpectrumToMolecule(SpectrumToMolecule.Config(path=file)).load(space, Context())


def test_extra_molecules_are_read(file: str, tmp_path: Path) -> None:
    (tmp_path / "more.smi").write_text("CCCCO\nCCCCCN\n")
    extra = loaded(file, extra=str(tmp_path / "more.smi")).extra
    assert extra is not None
    assert len(extra) == 2


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


def test_the_task_trains_evaluates_and_predicts_an_own_file(file: str, tmp_path: Path) -> None:
    folder = str(tmp_path / "run")
    options = ("task.processes=0", "output.max_atoms=12", "surrogate.dim=32", "decoder.rounds=2")
    sets = [part for option in (f"task.path={file}", "task.test=0.2", *options) for part in ("--set", option)]
    run("train", "ms2mol", "-o", folder, "--no-report", *sets)
    assert "ged_with_edges" in run("evaluate", folder)
    new = tmp_path / "new.msp"
    new.write_text(record("CCO", 1) + record("CCN", 2).replace("[M+H]+", "[M+Xx]+"))
    table = tmp_path / "out.csv"
    run("predict", folder, str(new), "-o", str(table))
    lines = table.read_text().splitlines()
    assert len(lines) == 3
    assert "is not known" in lines[2]
    (tmp_path / "known.smi").write_text("".join(f"{smiles}\n" for smiles in (*SMILES, "CCCCO", "CCOCC")))
    new.write_text(record("CCOCC", 1).replace("PrecursorMZ: 91", "PrecursorMZ: 75.0804"))
    ranked = ("--candidates", str(tmp_path / "known.smi"), "--decoder", "candidates", "--constraint", "mass=@mass")
    run("predict", folder, str(new), *ranked, "--top-k", "3", "-o", str(table))
    isomers = [smiles for smiles in ("CCCCO", "CCOCC") if f",{smiles}," in table.read_text()]
    assert isomers == ["CCCCO", "CCOCC"]


def test_own_pairs_in_a_file_of_spectra_train_by_its_columns(file: str, tmp_path: Path) -> None:
    folder = str(tmp_path / "run")
    chosen = ("--output-space", "molecule", "--set", "input=spectrum", "--epochs", "1", "--no-report")
    assert "column 'spectrum'" in run("train", "--data", file, "-o", folder, *chosen)
