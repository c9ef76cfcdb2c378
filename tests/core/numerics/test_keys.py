"""Row hashes: equal for equal rows, different for different ones, the same in every batch and dtype."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ele_core.numerics.keys import hash_rows, mix

MASK = 2**64 - 1


def splitmix64(value: int) -> int:
    """The finaliser with Python's unbounded integers, as an unsigned number."""
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


@given(st.integers(-(2**63), 2**63 - 1))
def test_mix_is_splitmix64(value: int) -> None:
    assert int(mix(torch.tensor([value]))) & MASK == splitmix64(value & MASK)


def test_all_small_rows_have_different_keys() -> None:
    rows = torch.tensor(list(itertools.product(range(4), repeat=6)), dtype=torch.int8)
    keys = hash_rows([rows])
    assert keys.shape == (len(rows), 2)
    assert keys.dtype == torch.int64
    for half in (keys, keys[:, :1], keys[:, 1:]):
        assert len(half.unique(dim=0)) == len(rows)


def test_a_key_depends_on_its_row_alone() -> None:
    rows = torch.randint(5, (20, 3, 2))
    assert torch.equal(hash_rows([rows])[7:9], hash_rows([rows[7:9]]))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.bool])
def test_the_dtype_of_the_labels_does_not_matter(dtype: torch.dtype) -> None:
    rows = torch.randint(2, (20, 6))
    assert torch.equal(hash_rows([rows.to(dtype)]), hash_rows([rows]))


def test_the_order_of_the_entries_matters() -> None:
    left, right = torch.tensor([[1, 2]]), torch.tensor([[2, 1]])
    assert not torch.equal(hash_rows([left]), hash_rows([right]))
    assert not torch.equal(hash_rows([left, right]), hash_rows([right, left]))


def test_an_empty_batch_has_no_keys() -> None:
    assert hash_rows([torch.zeros(0, 3, dtype=torch.int8)]).shape == (0, 2)
