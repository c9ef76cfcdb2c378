"""Morgan fingerprints as input: of SMILES, as on-bits and as vectors; computed once for a task."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from rdkit import Chem
from rdkit.Chem import rdFingerprintGenerator

from ele_core.errors import InvalidInput, ModelError
from ele_core.runtime.context import Context
from ele_graphs.molecules import inputs
from ele_graphs.molecules.inputs import FingerprintInput, fingerprint, fingerprints

SMILES = ["CCO", "CC(=O)Oc1ccccc1", "C1CC1N", "CCCCCCCC"]


def fitted(values=SMILES, **options) -> FingerprintInput:
    inputs = FingerprintInput(FingerprintInput.Config(**options))
    inputs.fit(values)
    return inputs


def on_bits(smiles: str, radius: int = 2, bits: int = 2048) -> list[int]:
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=radius, fpSize=bits)
    return list(generator.GetFingerprint(Chem.MolFromSmiles(smiles)).GetOnBits())


def rows(batch) -> list[list[int]]:
    return [[number - 1 for number in row if number] for row in batch.numbers.tolist()]


@pytest.mark.parametrize(("radius", "bits"), [(2, 2048), (3, 512)])
def test_the_bits_of_a_smiles_are_those_of_rdkit(radius, bits):
    inputs = fitted(radius=radius, size=bits)
    assert rows(inputs.pack(SMILES)) == [on_bits(smiles, radius, bits) for smiles in SMILES]


def test_bits_can_be_given_themselves_in_every_form():
    inputs = fitted()
    bits = on_bits("CCO")
    vector = np.zeros(2048, dtype=np.uint8)
    vector[bits] = 1
    texts = "CCO", " ".join(map(str, bits)), str(bits), " ".join(map(str, vector.tolist()))
    batch = inputs.pack([vector, *map(inputs.parse, texts)])
    assert rows(batch) == [bits] * 5
    assert torch.equal(batch.counts, (batch.numbers > 0).short())


def test_counts_are_an_option():
    assert fitted(counts=True).pack(["CCCCCCCC"]).counts.max() > 1
    assert fitted().pack(["CCCCCCCC"]).counts.max() == 1


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("C1CC", "no fingerprint of 'C1CC'"),
        ("", "empty"),
        ([0, 1] * 512, "the vector has 1,024 numbers instead of 2,048"),
        ({2048: 1}, "feature 2048 is not one of the 2,048 features"),
        ([0.5] * 2048, "a count is not a whole number"),
        ([-1] * 2048, "is negative"),
        (fingerprint("CCO", radius=3), "radius 3, but this model is for radius 2"),
    ],
)
def test_what_has_no_such_fingerprint_is_refused_with_its_position(value, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        fitted().pack(["CCO", value])
    assert caught.value.index == 1


@pytest.mark.parametrize("text", ["C1CC", "xyz", "", "1.5 2"])
def test_a_text_without_a_fingerprint_is_refused_in_a_sentence(text):
    with pytest.raises(InvalidInput) as caught:
        fitted().parse(text)
    assert "\n" not in str(caught.value)


def test_the_radius_of_the_training_fingerprints_is_kept(tmp_path):
    inputs = fitted([fingerprint(smiles, 3, 512) for smiles in SMILES])
    inputs.save(tmp_path)
    loaded = FingerprintInput()
    loaded.load(tmp_path)
    assert (loaded.radius, loaded.size) == (3, 512)
    assert rows(loaded.pack(["CCO"])) == [on_bits("CCO", 3, 512)]
    (tmp_path / "bits.json").write_text('{"size": 5, "longest": 1, "seen": []}')
    with pytest.raises(ModelError):
        FingerprintInput().load(tmp_path)


def test_fingerprints_are_computed_once(tmp_path, monkeypatch):
    monkeypatch.setenv("ELE_CACHE", str(tmp_path))
    first = fingerprints(SMILES, 2, 2048, Context())
    monkeypatch.setattr(inputs, "_compute", None)
    second = fingerprints(SMILES, 2, 2048, Context())
    for column in (first, second):
        assert [each.places.tolist() for each in column] == [on_bits(smiles) for smiles in SMILES]
        assert column[1].radius == 2
    assert second.places.dtype == np.uint16


def test_damaged_files_are_computed_again(tmp_path, monkeypatch):
    monkeypatch.setenv("ELE_CACHE", str(tmp_path))
    fingerprints(SMILES, 2, 2048, Context())
    (file,) = tmp_path.rglob("places.npy")
    file.write_bytes(file.read_bytes()[:-9])
    assert fingerprints(SMILES, 2, 2048, Context())[0].places.tolist() == on_bits("CCO")
