"""Sets of numbered features: what is read, what is refused, and that nothing becomes dense on the way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from ele_core.components.backbones.bag import BagBackbone
from ele_core.components.inputs.bits import Bits, BitsInput
from ele_core.components.inputs.text import TextInput
from ele_core.data.prepare import for_vectors
from ele_core.errors import ConfigError, InvalidInput, ModelError
from ele_core.numerics.sparse_vectors import SparseVector
from ele_core.plugins import registry

SETS = [{0: 1, 3: 2}, {1: 1}, {0: 4, 1: 1, 9: 1}]


def fitted(values=SETS, **options) -> BitsInput:
    inputs = BitsInput(BitsInput.Config(**options))
    inputs.fit(values)
    return inputs


def test_sets_are_packed_as_padded_numbers_and_counts():
    batch = fitted().pack(SETS)
    assert batch.numbers.tolist() == [[1, 4, 0], [2, 0, 0], [1, 2, 10]]
    assert batch.counts.tolist() == [[1, 2, 0], [1, 0, 0], [4, 1, 1]]
    assert batch.numbers.dtype == batch.counts.dtype == torch.int16
    assert fitted(size=1 << 20).pack(SETS).numbers.dtype == torch.int32


def test_every_way_to_give_a_set_is_packed_alike():
    inputs = fitted([{0: 1, 3: 2}], size=6)
    dense = [1, 0, 0, 2, 0, 0]
    sparse = SparseVector(np.array([3, 0, 3]), np.array([1, 1, 1]), 6)
    texts = [inputs.parse(text) for text in ("0 3:2", "[3:2, 0]", "1 0 0 2 0 0", "[1.0, 0, 0, 2, 0, 0]")]
    values = [{0: 1, 3: 2}, {3: 2.0, 0: 1, 5: 0}, dense, np.array(dense, dtype=np.uint8), sparse, *texts]
    batch = inputs.pack(values)
    assert batch.numbers.tolist() == [[1, 4]] * len(values)
    assert batch.counts.tolist() == [[1, 2]] * len(values)
    assert inputs.format(sparse) == "0 3:2"
    assert inputs.pack([{0, 3}]).counts.tolist() == [[1, 1]]


def test_without_counts_a_feature_is_there_or_not():
    inputs = fitted(counts=False)
    assert inputs.pack(SETS).counts.max() == 1
    assert inputs.format({0: 4, 9: 1}) == "0 9"


def test_a_longer_set_than_in_training_fits_beside_the_others():
    inputs = fitted()
    longer = inputs.pack([dict.fromkeys(range(7), 1)])
    joined = Bits.cat([inputs.pack(SETS), longer])
    assert joined.numbers.shape == (4, 7)
    assert joined.numbers[1].tolist() == [2, 0, 0, 0, 0, 0, 0]


def test_a_text_of_numbers_that_repeat_is_a_vector_and_others_are_sets():
    inputs = BitsInput()
    assert inputs.parse("0 1 1 0").tolist() == [0, 1, 1, 0]
    assert inputs.parse("4 7") == {4: 1, 7: 1}
    assert inputs.parse("[]") == {}
    assert inputs.format({}) == "[]"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1, 0, 1], "the vector has 3 numbers instead of 10"),
        ({10: 1}, "feature 10 is not one of the 10 features"),
        ({1: 0.5}, "a count is not a whole number"),
        ({1: -1}, "is negative"),
        ({-1: 1}, "is negative"),
        ({1: 40_000}, "a count is greater than 32,767"),
        ([0.5] * 10, "a count is not a whole number"),
        ([float("nan")] * 10, "a count is not a whole number"),
        (["a", "b"], "not a set of numbered features"),
        (7, "not a set of numbered features"),
        (None, "not a set of numbered features"),
        (SparseVector(np.array([1]), np.array([0.5]), 10), "a count is not a whole number"),
    ],
)
def test_what_is_no_set_of_these_features_is_refused_with_its_position(value, message):
    with pytest.raises(InvalidInput, match=message) as caught:
        fitted().pack([SETS[0], value])
    assert caught.value.index == 1


@pytest.mark.parametrize("text", ["", "1 x", "1:2:3", "1.5", "3 3:2", "nan", "1e30", "-4"])
def test_a_text_that_is_no_set_is_refused_in_a_sentence(text):
    with pytest.raises(InvalidInput) as caught:
        BitsInput().parse(text)
    assert "\n" not in str(caught.value)


def test_inputs_of_features_that_never_occurred_are_marked():
    assert fitted(size=20).unlike_training([{0: 1, 19: 1}, {18: 1, 19: 1, 0: 1}]) == [
        "",
        "2 of 3 features never occurred in training",
    ]


def test_a_saved_input_that_was_changed_is_refused(tmp_path: Path):
    fitted().save(tmp_path)
    for broken in ('{"size": 3, "longest": 1, "seen": [7]}', '{"size": 0}', "[]", '{"size": 1e30, "longest": 1}'):
        (tmp_path / "bits.json").write_text(broken)
        with pytest.raises(ModelError):
            BitsInput().load(tmp_path)


def test_the_backbone_reads_only_sets_of_features():
    texts = TextInput()
    texts.fit(["a"])
    with pytest.raises(ConfigError, match="reads sets of numbered features"):
        BagBackbone(None, texts, 4)


def test_without_layers_the_backbone_is_linear_in_the_counts():
    inputs = fitted()
    backbone = BagBackbone(BagBackbone.Config(layers=0, width=8), inputs, 4)
    one, two, both = backbone(inputs.pack([{0: 1}, {3: 2}, {0: 1, 3: 2}])) - backbone.last.bias
    assert torch.allclose(one + two, both, atol=1e-6)


def test_vectors_are_read_by_the_space_of_vectors_unless_another_is_chosen():
    assert for_vectors(registry()) == ["vector"]


MEMORY = """
import resource, sys
from ele_core.components.inputs.{module} import {name} as Input
from ele_core.files.tables import FIRST, read_table
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
(column,) = read_table(sys.argv[1], [FIRST], None).read([FIRST])
inputs = Input()
inputs.fit(column)
assert len(inputs.Batch.cat(inputs.pack(column[row : row + 50_000]) for row in range(0, len(column), 50_000))) == {rows}
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


@pytest.mark.parametrize(
    ("module", "name", "rows", "megabytes"),
    [("bits", "BitsInput", 200_000, 350), ("vector", "VectorInput", 20_000, 450)],
)
def test_sparse_files_are_read_and_packed_in_little_memory(tmp_path: Path, module, name, rows, megabytes):
    """Dense in double precision, 200,000 × 2,048 numbers are 3,277 MB, and 20,000 are 328 MB in each copy."""
    places = np.sort(np.random.default_rng(0).integers(0, 2048, (rows, 30)), axis=1).astype(np.int32)
    arrays = {"indices": places.flatten(), "indptr": np.arange(0, places.size + 1, 30)}
    file = tmp_path / "bits.npz"
    np.savez(file, format=b"csr", shape=(rows, 2048), data=np.ones(places.size, dtype=np.uint8), **arrays)
    program = MEMORY.format(module=module, name=name, rows=rows)
    found = subprocess.run([sys.executable, "-c", program, str(file)], capture_output=True, text=True, check=True)
    assert float(found.stdout) < megabytes
