"""`Tensors`: rows stay together through indexing, concatenation and conversion."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor

from ele_core.numerics.tensors import Index, Tensors


@dataclasses.dataclass(frozen=True, eq=False)
class Pair(Tensors):
    """Two fields."""

    left: Tensor
    right: Tensor


@pytest.fixture
def pair() -> Pair:
    return Pair(left=torch.arange(4), right=torch.arange(8).reshape(4, 2))


def assert_equal(one: Pair, other: Pair) -> None:
    assert torch.equal(one.left, other.left)
    assert torch.equal(one.right, other.right)


@pytest.mark.parametrize("index", [slice(1, 3), torch.tensor([1, 2]), [1, 2], torch.arange(4) % 3 > 0])
def test_indexing_takes_the_same_rows_of_every_field(pair: Pair, index: Index) -> None:
    assert_equal(pair[index], Pair(left=torch.tensor([1, 2]), right=torch.tensor([[2, 3], [4, 5]])))


def test_an_empty_list_gives_an_empty_batch(pair: Pair) -> None:
    assert len(pair[[]]) == 0
    assert pair[[]].right.shape == (0, 2)


def test_a_single_number_is_refused_with_the_way_to_write_it(pair: Pair) -> None:
    with pytest.raises(TypeError, match=r"batch\[2:3\]"):
        pair[2]  # type: ignore[index]


@pytest.mark.parametrize("size", [1, 3, 4, 9])
def test_chunks_and_cat_are_inverse(pair: Pair, size: int) -> None:
    chunks = list(pair.chunks(size))
    assert max(map(len, chunks)) <= size
    assert_equal(Pair.cat(chunks), pair)


def test_dicts_are_contiguous_and_come_back(pair: Pair) -> None:
    turned = pair.replace(right=pair.right.T.contiguous().T)
    stored = turned.as_dict()
    assert list(stored) == ["left", "right"]
    assert all(tensor.is_contiguous() for tensor in stored.values())
    assert_equal(Pair.from_dict(stored), pair)


def test_replace_changes_only_what_it_names(pair: Pair) -> None:
    changed = pair.replace(left=pair.left + 1)
    assert_equal(changed, Pair(left=torch.arange(1, 5), right=pair.right))
    assert pair.left.tolist() == [0, 1, 2, 3]


def test_map_and_to_reach_every_field(pair: Pair) -> None:
    assert {tensor.dtype for _, tensor in pair.to(torch.float32).named_tensors()} == {torch.float32}
    assert pair.map(lambda tensor: tensor * 2).left.tolist() == [0, 2, 4, 6]
    assert pair.device == torch.device("cpu")


def test_fields_cannot_be_assigned(pair: Pair) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        pair.left = pair.right  # type: ignore[misc]


def test_a_field_cannot_hide_a_method() -> None:
    with pytest.raises(TypeError, match="a field cannot be called 'to'"):

        class Hidden(Tensors):
            to: Tensor  # type: ignore[assignment]
