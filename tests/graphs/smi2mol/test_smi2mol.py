"""The task smi2mol on a few rows of QM9, and GDB-11 files as extra outputs."""

from __future__ import annotations

import gzip
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from ele_core.data.dataset import DataSet
from ele_core.errors import ConfigError, DataError
from ele_core.extras import pip_install
from ele_core.runtime.context import Context
from ele_core.runtime.monitor import Monitor
from ele_graphs.graphs.networkx_space import PaddedGraphSpace
from ele_graphs.molecules import sources as datasets
from ele_graphs.molecules.sources import Source
from ele_graphs.molecules.space import MoleculeSpace
from ele_graphs.smi2mol.task import SmilesToMolecule, without

SPACE = MoleculeSpace()
SMILES = [f"{'C' * n}{end}" for n in range(1, 7) for end in ("O", "N", "F", "=O", "#N", "C")]


class Messages(Monitor):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def message(self, text: str) -> None:
        self.texts.append(text)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def small_qm9(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """A stand-in for QM9, which counts how often it is read."""
    reads = []

    def texts() -> list[str]:
        reads.append(1)
        return ["C", *SMILES]

    monkeypatch.setattr(datasets, "qm9", lambda: Source("QM9", "0" * 64, len(SMILES) + 1, texts))
    return reads


def load(context: Context | None = None, **options: object) -> DataSet:
    return SmilesToMolecule(SmilesToMolecule.Config(**options)).load(SPACE, context or Context())


@pytest.mark.skipif(importlib.util.find_spec("qm9pack") is None, reason="qm9pack is not installed")
def test_a_subset_of_qm9_is_read_and_split() -> None:
    data = load(size=200)
    assert len(data) == len(data.outputs) == 200 - len(data.rejected)
    assert (len(data.test), len(data.validation)) == (len(data) // 5, len(data) // 10)
    assert torch.equal(torch.cat([data.train, data.validation, data.test]).sort().values, torch.arange(len(data)))
    assert torch.equal(SPACE.keys(SPACE.pack(data.inputs)), SPACE.keys(data.outputs))
    assert data.extra is None
    assert len(data.fingerprint) == 64


@pytest.mark.usefixtures("small_qm9")
def test_a_subset_too_small_for_its_split_says_so() -> None:
    told = Messages()
    load(Context(monitor=told), validation=2, test=5)
    assert told.texts == []
    data = load(Context(monitor=told), validation=2, test=2000)
    assert told.texts == [
        "Using 2 of 36 molecules for validation and 7 for the test, at most a tenth and a fifth, "
        "instead of task.validation=2 and task.test=2000"
    ]
    assert (len(data.validation), len(data.test)) == (2, 7)


def test_single_atoms_are_rejected_by_row_and_the_cache_is_used_again(small_qm9: list[int]) -> None:
    first, second = load(), load()
    assert len(small_qm9) == 1
    assert [(r.row, r.text, r.reason) for r in first.rejected] == [(0, "C", "1 atom only, fewer than 2")]
    assert list(first.inputs) == list(second.inputs)
    assert first.fingerprint == second.fingerprint


def test_a_damaged_cache_is_read_again(small_qm9: list[int]) -> None:
    first = load()
    (codes,) = datasets.cache_folder().glob("molecules/*/codes.npy")
    codes.write_bytes(codes.read_bytes()[:200])
    assert load().fingerprint == first.fingerprint
    assert len(small_qm9) == 2


@pytest.mark.usefixtures("small_qm9")
def test_the_seed_decides_split_and_subset() -> None:
    assert torch.equal(load(Context(seed=1)).test, load(split_seed=1).test)
    assert not torch.equal(load(Context(seed=1)).test, load(Context(seed=2)).test)
    assert list(load(size=12).inputs) == list(load(size=12).inputs) != list(load(size=12, split_seed=5).inputs)
    assert set(load(size=12).inputs) <= set(load().inputs)


@pytest.mark.usefixtures("small_qm9")
def test_gdb_files_become_extra_outputs_and_say_what_was_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "gdb"
    folder.mkdir()
    (folder / "gdb11_size01.smi").write_text("C\t1\nN\t2\n")
    (folder / "gdb11_size02.smi").write_text("CC 1\nCO 2\n\nC( 4\n")
    with gzip.open(folder / "gdb11_size11.smi.gz", "wt") as stream:
        stream.write("CCCCCCCCCCC\nCCCCl\nC#CC=O")
    monitor = Messages()
    data = load(Context(monitor=monitor), extra=str(folder), validation=2, test=5)
    assert [m.smiles for m in SPACE.unpack(data.extra[:])] == ["CC", "CO", "C#CC=O"]
    assert data.extra.codes.element_size() * data.extra.codes.shape[1] == 45
    assert "extra outputs: 3, rows left out: 6" in monitor.texts[0]
    assert "11 atoms, more than max_atoms = 9" in monitor.texts[0]
    file = monitor.texts[0].rsplit(": ")[-1]
    assert len(Path(file).read_text().splitlines()) == 6


@pytest.mark.usefixtures("small_qm9")
def test_test_molecules_can_be_left_out_of_the_extra_outputs(tmp_path: Path) -> None:
    file = tmp_path / "all.smi"
    file.write_text("\n".join([*SMILES, "CC(C)C", "c1ccccc1"]))
    kept, data = load(extra=str(file), exclude_test=True), load(extra=str(file))
    test, extra = SPACE.keys(data.outputs[data.test]), SPACE.keys(kept.extra)
    assert len(data.extra) == len(SMILES) + 2
    assert not (extra[:, None] == test).all(dim=2).any()
    # The stand-in holds CC…C twice (as "C" and as "CC"), as QM9 holds its 87 duplicates.
    assert len(kept.extra) == sum(not (key == test).all(dim=1).any() for key in SPACE.keys(data.extra))
    assert len(data.extra) == len(load(extra=str(file)).extra), "the cached file is not changed"


def test_leaving_out_all_or_nothing() -> None:
    graphs = load_file_of(["CC", "CO"])
    keys = SPACE.keys(graphs)
    assert len(without(graphs, keys[:0], Context())) == 2
    assert len(without(graphs, keys, Context())) == 0


def load_file_of(smiles: list[str]) -> datasets.CompactGraphs:
    source = Source("lines", "1" * 64, len(smiles), lambda: smiles)
    return datasets.load(source, SPACE.limits(), Context()).graphs


def test_files_with_nothing_to_read_are_an_empty_set(tmp_path: Path) -> None:
    file = tmp_path / "bad.smi"
    file.write_text("nonsense\n")
    molecules = datasets.load(datasets.smiles_files(file), SPACE.limits(), Context())
    assert len(molecules.graphs) == 0
    assert molecules.reasons.total() == len(molecules.rejected) == 1


def test_missing_files_and_packages_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="no such file"):
        datasets.smiles_files(tmp_path / "none.smi")
    with pytest.raises(DataError, match="no files that end in"):
        datasets.smiles_files(tmp_path)
    (tmp_path / "broken.smi.gz").write_bytes(b"no gzip")
    with pytest.raises(DataError, match="cannot be read"):
        datasets.smiles_files(tmp_path / "broken.smi.gz")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(DataError, match=re.escape(pip_install("qm9"))):
        datasets.qm9()


def test_another_space_is_refused() -> None:
    with pytest.raises(ConfigError, match="predicts molecules"):
        SmilesToMolecule().load(PaddedGraphSpace(), Context())


def test_the_papers_rows_stand_beside_ours() -> None:
    rows = {reference.name: reference.values for reference in SmilesToMolecule.references}
    assert rows["ELE"] == {"ged_with_edges": 2.444, "ged_without_edges": 2.305}
    assert len(rows) == 7
