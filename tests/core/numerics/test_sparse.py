"""Sparse features: counting, looking up, and inner products agree with dense matrices."""

from __future__ import annotations

from collections import Counter

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from ele_core.numerics.sparse import FREQUENT, Products, SparseRows, nearest_rows, signs


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


# -- sums, rows, neighbours, signs --------------------------------------------------------------------------------


@given(st.integers(0, 10_000), st.integers(0, 6), st.integers(1, 9))
def test_values_of_equal_keys_are_summed_and_zeros_left_out(seed, rows, length):
    generator = torch.Generator().manual_seed(seed)
    keys = torch.randint(-2, 3, (rows, length), generator=generator)
    values = torch.randint(0, 4, (rows, length), generator=generator).float()
    found = SparseRows.summed(keys, values)
    for row in range(rows):
        expected: Counter[int] = Counter()
        for key, value in zip(keys[row].tolist(), values[row].tolist(), strict=True):
            expected[key] += int(value)
        own = found.between(row, row + 1)
        assert dict(zip(own.keys.tolist(), own.values.tolist(), strict=True)) == dict(+expected)


@given(st.integers(0, 10_000), st.integers(0, 7), st.integers(0, 7))
def test_the_rows_between_two_places_are_those_of_the_matrix(seed, first, end):
    first, end = sorted((first, end))
    dense = random_counts(7, 5, seed)
    part = SparseRows.dense(dense).between(first, end)
    assert len(part) == end - first
    assert torch.equal(part.transposed(5).T, dense[first:end])


@given(st.integers(0, 10_000), st.integers(1, 12), st.integers(1, 12))
def test_the_nearest_row_is_that_of_brute_force(seed, rows, others):
    left, right = random_counts(rows, 6, seed), random_counts(others, 6, seed + 1)
    row, distance = nearest_rows(SparseRows.dense(left), SparseRows.dense(right))
    expected = torch.cdist(left.double(), right.double())
    torch.testing.assert_close(distance.double(), expected.min(dim=1).values, rtol=1e-4, atol=2e-3)
    torch.testing.assert_close(expected.gather(1, row[:, None])[:, 0], expected.min(dim=1).values, rtol=1e-4, atol=2e-3)
    left, right = (left > 0).float(), (right > 0).float()
    row, distance = nearest_rows(SparseRows.dense(left), SparseRows.dense(right), "tanimoto")
    both, either = left @ right.T, ((left[:, None] + right) > 0).sum(dim=2)
    expected = torch.where(either == 0, 0.0, 1 - both / either.clamp(min=1))  # two empty rows are equal
    torch.testing.assert_close(distance, expected.min(dim=1).values)
    torch.testing.assert_close(expected.gather(1, row[:, None])[:, 0], distance)


def test_rows_are_compared_in_chunks(monkeypatch):
    left, right = random_counts(30, 6, 0), random_counts(9, 6, 1)
    expected = nearest_rows(SparseRows.dense(left), SparseRows.dense(right))
    monkeypatch.setattr("ele_core.numerics.sparse.CHUNK", 4)
    found = nearest_rows(SparseRows.dense(left), SparseRows.dense(right))
    assert torch.equal(found[0], expected[0])
    assert [len(part) for part in nearest_rows(SparseRows.dense(left[:0]), SparseRows.dense(right))] == [0, 0]


def test_signs_are_fixed_and_nearly_orthogonal():
    keys = torch.tensor([0, 1, -1, 2**40, 7])
    found = signs(keys, 1000)
    assert found.shape == (5, 1000)
    assert set(found.unique().tolist()) == {-1.0, 1.0}
    assert torch.equal(signs(keys.flip(0), 1000), found.flip(0)), "the vector of a key depends on nothing else"
    assert torch.equal(signs(keys, 100), found[:, :100])
    cosines = found @ found.T / 1000
    assert float((cosines - torch.eye(5)).abs().max()) < 0.15
    many = signs(torch.arange(300), 512)
    cosines = (many @ many.T / 512)[~torch.eye(300, dtype=torch.bool)]
    assert float(cosines.square().mean()) * 512 < 1.2, "as for random vectors, whose mean is 1"
