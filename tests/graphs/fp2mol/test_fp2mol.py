"""The task fp2mol: the molecules and splits of smi2mol and moses, with fingerprints as inputs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ele_core import config as configuration
from ele_core.runtime.context import Context
from ele_core.testing import check_task
from ele_graphs.fp2mol import FingerprintToMolecule
from ele_graphs.molecules.inputs import fingerprint
from ele_graphs.molecules.space import MoleculeSpace
from ele_graphs.moses import ELEMENTS, Moses
from ele_graphs.smi2mol.task import SmilesToMolecule

SMALL = {"size": 60, "test": 6, "validation": 4, "processes": 0}
MOSES = MoleculeSpace(MoleculeSpace.Config(elements=ELEMENTS, max_atoms=26))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def moses_files(tmp_path: Path) -> str:
    parts = {
        "train": [f"{'C' * n}{end}" for n in range(8, 14) for end in ("O", "N", "F", "S", "Cl", "Br")],
        "test_scaffolds": [f"C1CC1{'C' * n}N" for n in range(5, 15)],
    }
    for name, smiles in parts.items():
        (tmp_path / f"{name}.csv").write_text("\n".join(["SMILES", *smiles]) + "\n")
    return str(tmp_path)


def same_pairs(data, texts) -> bool:
    """Whether `data` has the molecules and the split of `texts`, and the fingerprints of its SMILES."""
    parts = all(torch.equal(getattr(data, part), getattr(texts, part)) for part in ("train", "validation", "test"))
    outputs = torch.equal(data.outputs[:].nodes, texts.outputs[:].nodes)
    bits = all(
        each.places.tolist() == fingerprint(smiles).places.tolist()
        for each, smiles in zip(data.inputs, texts.inputs, strict=True)
    )
    return parts and outputs and bits


def test_the_split_of_qm9_is_that_of_smi2mol():
    space = MoleculeSpace()
    texts = SmilesToMolecule(SmilesToMolecule.Config(**SMALL)).load(space, Context(seed=3))
    data = FingerprintToMolecule(FingerprintToMolecule.Config(**SMALL)).load(space, Context(seed=3))
    assert same_pairs(data, texts)
    assert data.fingerprint != texts.fingerprint
    assert data.source == texts.source


def test_the_split_of_moses_is_that_of_moses(moses_files):
    options = {"size": 20, "test": 5, "validation": 3, "processes": 0, "path": moses_files}
    texts = Moses(Moses.Config(**options)).load(MOSES, Context(seed=1))
    data = FingerprintToMolecule(FingerprintToMolecule.Config(source="moses", **options)).load(MOSES, Context(seed=1))
    assert same_pairs(data, texts)


def test_another_radius_gives_other_data():
    found = [
        FingerprintToMolecule(FingerprintToMolecule.Config(radius=radius, bits=512, **SMALL)).load(
            MoleculeSpace(), Context()
        )
        for radius in (1, 2)
    ]
    assert found[0].fingerprint != found[1].fingerprint
    assert [data.inputs[0].radius for data in found] == [1, 2]
    assert found[0].inputs[0].size == 512


def test_the_source_decides_the_space_of_molecules():
    small = configuration.load("fp2mol")
    large = configuration.load("fp2mol", ["task.source=moses"])
    assert "max_atoms" not in small.output.options or small.output.options["max_atoms"] == 9
    assert large.output.options["max_atoms"] == 26
    assert list(large.output.options["elements"]) == list(ELEMENTS)
    again = configuration.load(configuration.load("fp2mol", ["task.source=moses", "output.max_atoms=20"]).given)
    assert again.output.options["max_atoms"] == 20


def test_the_task_keeps_its_laws():
    task = FingerprintToMolecule(FingerprintToMolecule.Config(**SMALL))
    assert [each for each in check_task(task) if each.status == "failed"] == []
