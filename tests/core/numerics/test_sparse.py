"""Sparse features: counting, looking up, and inner products agree with dense matrices."""

from __future__ import annotations

from collections import Counter

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from ele_core.numerics.sparse import FREQUENT, Products, SparseRows


def random_counts(rows: int, columns: int, seed: int, share: float = 0.4) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    there = torch.rand(rows, columns, generator=generator) < share
    return torch.randint(1, 5, (rows, columns), generator=generator).float() * there


@given(st.integers(0, 10_000), st.integers(0, 6), st.integers(1, 9))
def test_counts_are_those_of_a_counter(seed, rows, length):
    generator = torch.Generator().manual_seed(seed)
    keys = torch.randint(-2, 3, (rows, length), generator=generator)
    present = torch.rand(rows, length, generator=generator) < 0.6
    counted = SparseRows.counted(keys, present)
    assert len(counted) == rows
    for row in range(rows):
        expected = Counter(keys[row][present[row]].tolist())
        inside = slice(int(counted.offsets[row]), int(counted.offsets[row + 1]))
        assert dict(zip(counted.keys[inside].tolist(), counted.values[inside].tolist(), strict=True)) == expected


@given(st.integers(0, 10_000), st.integers(1, 8), st.integers(1, 3 * FREQUENT), st.integers(1, 12))
def test_inner_products_are_those_of_the_dense_matrices(seed, rows, anchors, columns):
    share = 0.5 if seed % 2 else 1 / FREQUENT  # keys of many anchors, and keys of few
    left, right = random_counts(rows, columns, seed, 0.5), random_counts(anchors, columns, seed + 1, share)
    products = Products(SparseRows.dense(right))(SparseRows.dense(left))
    torch.testing.assert_close(products, left @ right.T)


def test_keys_that_no_anchor_has_bring_nothing():
    anchors = SparseRows.counted(torch.tensor([[1, 2]]), torch.ones(1, 2, dtype=torch.bool))
    others = SparseRows.counted(torch.tensor([[7, -3], [2, 7]]), torch.ones(2, 2, dtype=torch.bool))
    assert Products(anchors)(others).tolist() == [[0.0], [1.0]]


def test_unknown_keys_count_in_the_norm():
    rows = SparseRows.counted(torch.tensor([[1, 2, 2, 9]]), torch.ones(1, 4, dtype=torch.bool)).normalised()
    known = rows.within(torch.tensor([1, 2]))
    torch.testing.assert_close(known.values, torch.tensor([1.0, 2.0]) / 6**0.5)


def test_a_row_of_nothing_stays_one():
    rows = SparseRows.dense(torch.tensor([[0.0, 0.0], [3.0, 4.0]])).normalised()
    assert rows.squares.tolist() == [0.0, 1.0]
    assert rows.times(torch.eye(2)).tolist()[0] == [0.0, 0.0]


def test_parts_put_together_are_the_whole():
    matrix = random_counts(7, 5, seed=3)
    whole, parts = SparseRows.dense(matrix), SparseRows.cat(SparseRows.dense(part) for part in matrix.split(3))
    assert torch.equal(parts.times(torch.eye(5)), matrix)
    assert torch.equal(whole.offsets, parts.offsets)
