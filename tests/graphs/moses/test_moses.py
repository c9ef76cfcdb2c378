"""The task moses on small files of its form: in a wheel, in a package, in a folder."""

from __future__ import annotations

import gzip
import importlib.util
import zipfile
from pathlib import Path

import pytest
import torch

from ele_core.data.dataset import DataSet
from ele_core.errors import ConfigError, DataError
from ele_core.numerics.keys import member
from ele_core.runtime.context import Context
from ele_core.runtime.monitor import Monitor
from ele_core.testing import check_task
from ele_graphs.graphs.networkx_space import PaddedGraphSpace
from ele_graphs.molecules import sources as molecule_files
from ele_graphs.molecules.space import MoleculeSpace
from ele_graphs.moses import ELEMENTS, HELD_OUT, Moses, moses

SPACE = MoleculeSpace(MoleculeSpace.Config(elements=ELEMENTS, max_atoms=26))
TRAIN = [f"{'C' * n}{end}" for n in range(8, 18) for end in ("O", "N", "F", "S", "Cl", "Br")]
TEST = [f"O{'C' * n}O" for n in range(7, 17)]
SCAFFOLDS = [f"C1CC1{'C' * n}N" for n in range(5, 15)]
PARTS = {"train": TRAIN, "test": TEST, "test_scaffolds": SCAFFOLDS}
INSIDE = "moses/dataset/data"


def table(smiles: list[str], column: str = "SMILES") -> str:
    return "\n".join([column, *smiles]) + "\n"


def folder_of(folder: Path, parts: dict[str, str], *, packed: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in parts.items():
        if packed:
            (folder / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode()))
        else:
            (folder / f"{name}.csv").write_text(text)
    return folder


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def tables() -> dict[str, str]:
    return {name: table(smiles) for name, smiles in PARTS.items()}


@pytest.fixture
def wheel(tmp_path: Path, tables: dict[str, str]) -> Path:
    """A wheel with the files of MOSES in their place."""
    file = tmp_path / "molsets-0.3.1-py3-none-any.whl"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("moses/__init__.py", "raise ImportError('old dependencies')")
        for name, text in tables.items():
            archive.writestr(f"{INSIDE}/{name}.csv.gz", gzip.compress(text.encode()))
    return file


class Messages(Monitor):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def message(self, text: str) -> None:
        self.texts.append(text)


def load(path: Path | None, context: Context | None = None, **options: object) -> DataSet:
    config = Moses.Config(path=None if path is None else str(path), **options)
    return Moses(config).load(SPACE, context or Context())


def texts(data: DataSet, part: str) -> list[str]:
    return data.inputs_at(getattr(data, part))


def test_the_wheel_is_read_as_it_is_with_the_split_of_moses(wheel: Path) -> None:
    data = load(wheel, validation=6, test=4)
    assert [len(part) for part in (data.train, data.validation, data.test)] == [54, 6, 4]
    assert sorted(texts(data, "train") + texts(data, "validation")) == sorted(molecule_smiles(TRAIN))
    assert set(texts(data, "test")) < set(molecule_smiles(SCAFFOLDS))
    assert set(texts(load(wheel, split="test"), "test")) == set(molecule_smiles(TEST))
    assert torch.equal(SPACE.keys(SPACE.pack(data.inputs)), SPACE.keys(data.outputs))
    assert data.source == "MOSES (54 of its 60 training molecules)"


def molecule_smiles(smiles: list[str]) -> list[str]:
    return [SPACE.format(molecule) for molecule in SPACE.unpack(SPACE.pack(smiles))]


def test_wheel_package_and_folders_hold_the_same_data(
    wheel: Path, tables: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = load(wheel).fingerprint
    package = folder_of(tmp_path / "site" / INSIDE, tables, packed=True).parents[1]
    (package / "__init__.py").write_text("raise ImportError('old dependencies')")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    plain = folder_of(tmp_path / "plain", tables)
    assert {load(path).fingerprint for path in (plain, package, package.parent, None)} == {known}


def test_sizes_and_seed_choose_the_molecules(wheel: Path) -> None:
    small, large = load(wheel, size=10, validation=5, test=3), load(wheel, size=30, validation=5, test=3)
    assert (len(small.train), len(large.train), len(small.validation), len(small.test)) == (10, 30, 5, 3)
    assert set(texts(small, "train")) < set(texts(large, "train"))
    assert set(texts(small, "validation")) == set(texts(large, "validation"))
    assert texts(small, "test") == texts(large, "test") != texts(load(wheel, Context(seed=1), test=3), "test")
    assert load(wheel, Context(seed=1), size=10).fingerprint == load(wheel, size=10, split_seed=1).fingerprint
    assert load(wheel, size=10).fingerprint != load(wheel, size=10, split_seed=1).fingerprint


def test_only_the_chosen_rows_are_read_and_only_once(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    original = molecule_files._read

    def counted(source: molecule_files.Source, *rest: object) -> None:
        read.append(source.count)
        original(source, *rest)

    monkeypatch.setattr(molecule_files, "_read", counted)
    first = load(wheel, size=10, validation=5, test=3)
    assert sorted(read) == [3, 5, 10]
    assert load(wheel, size=10, validation=5, test=3).fingerprint == first.fingerprint
    assert len(read) == 3


def test_no_molecule_is_in_two_parts(tmp_path: Path) -> None:
    twice = {
        "train": table([*TRAIN, "OCCCCCCCCO", "C1CC1CCCCCN"]),
        "test_scaffolds": table(["NCCCCCC1CC1", "CCCCCCCCCO"]),
    }
    told = Messages()
    data = load(folder_of(tmp_path / "both", twice), Context(monitor=told), validation=5)
    keys = SPACE.keys(data.outputs)
    for part, later in (("train", "validation"), ("train", "test"), ("validation", "test")):
        assert not member(keys[getattr(data, part)], of=keys[getattr(data, later)]).any()
    assert (len(data.train) + len(data.validation), len(data.test)) == (60, 2)
    assert told.texts == ["MOSES: molecules left out because they are held out as well: 2"]


def test_rows_that_do_not_fit_are_left_out_by_their_row(tmp_path: Path, tables: dict[str, str]) -> None:
    lines = tables["train"].splitlines()
    lines[7:7] = ["", "C(", "CCCCCCCCCC[Si]"]
    data = load(folder_of(tmp_path / "odd", tables | {"train": "\n".join(lines)}))
    reasons = {each.row: each.reason for each in data.rejected}
    assert set(reasons) == {6, 7, 8}
    assert reasons[6] == "empty SMILES"
    assert "Si" in reasons[8]
    assert len(data.train) + len(data.validation) == 60


def test_all_laws_of_tasks_hold(wheel: Path) -> None:
    results = check_task(Moses(Moses.Config(path=str(wheel), validation=5)))
    assert not [f"{result.name}: {result.explanation}" for result in results if not result.ok]
    assert sum(result.status == "passed" for result in results) >= 5


def test_a_missing_package_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(DataError, match=r"not installed.*pip download --no-deps molsets==0.3.1.*task.path="):
        load(None)


def test_bad_files_are_refused_with_the_reason(tmp_path: Path, wheel: Path, tables: dict[str, str]) -> None:
    with pytest.raises(DataError, match="no such file or folder"):
        load(tmp_path / "none.whl")
    (tmp_path / "no.whl").write_text("no wheel")
    with pytest.raises(
        DataError, match=r"no\.whl: not a folder, and cannot be read as a wheel: File is not a zip file"
    ):
        load(tmp_path / "no.whl")
    (tmp_path / "half.whl").write_bytes(wheel.read_bytes()[:-100])
    with pytest.raises(DataError, match="cannot be read as a wheel"):
        load(tmp_path / "half.whl")
    with pytest.raises(DataError, match=r"holds no train\.csv\.gz and no train\.csv"):
        load(folder_of(tmp_path / "empty", {}))
    with pytest.raises(DataError, match=r"train\.csv: there is no column 'SMILES': only smiles"):
        load(folder_of(tmp_path / "other", tables | {"train": table(TRAIN, "smiles")}))
    with pytest.raises(DataError, match=r"train\.csv: there is no column 'SMILES': the file is empty"):
        load(folder_of(tmp_path / "nothing", tables | {"train": ""}))


def test_a_damaged_member_is_refused_with_its_name(tmp_path: Path, tables: dict[str, str]) -> None:
    packed = gzip.compress(tables["train"].encode())
    file = tmp_path / "damaged.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{INSIDE}/train.csv.gz", packed)
    file.write_bytes(file.read_bytes().replace(packed[20:24], b"\0\0\0\0"))
    with pytest.raises(DataError, match=r"train\.csv\.gz: cannot be read"):
        load(file)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{INSIDE}/train.csv.gz", packed)
    with pytest.raises(DataError, match=r"damaged\.whl: holds no test_scaffolds\.csv\.gz"):
        load(file)


def test_another_space_is_refused() -> None:
    with pytest.raises(ConfigError, match="predicts molecules"):
        Moses().load(PaddedGraphSpace(), Context())


def test_every_part_has_a_file_of_its_own(wheel: Path) -> None:
    for part, smiles in PARTS.items():
        source = moses(part, str(wheel))
        assert (source.count, list(source.texts())) == (len(smiles), smiles)
    assert set(HELD_OUT.values()) < set(PARTS)
