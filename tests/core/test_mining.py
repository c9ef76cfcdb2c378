"""Batches of near structures."""

from __future__ import annotations

from itertools import islice

import pytest
import torch
from torch import Tensor

from ele_core.context import Context
from ele_core.mining import mined_batches, near_groups


def embeddings(count: int, dim: int = 2) -> Tensor:
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(0))


def spread(points: Tensor, groups: Tensor) -> float:
    return float((points[groups] - points[groups].mean(dim=1, keepdim=True)).square().sum(dim=2).mean())


@pytest.mark.parametrize(("count", "size"), [(64, 8), (100, 8), (7, 8), (8, 8), (1, 4), (33, 2)])
def test_groups_have_their_size_and_no_place_stands_twice(count, size):
    groups = near_groups(embeddings(count), size, torch.Generator().manual_seed(1))
    places = groups.flatten().tolist()
    assert groups.shape[1] == min(size, count)
    assert len(set(places)) == len(places) > count // 2
    assert set(places) <= set(range(count))


def test_members_of_a_group_lie_near_each_other():
    points = embeddings(512)
    near = near_groups(points, 8, torch.Generator().manual_seed(1))
    random = torch.randperm(512, generator=torch.Generator().manual_seed(1)).view(-1, 8)
    assert spread(points, near) < 0.2 * spread(points, random)


def test_equal_structures_can_be_grouped():
    groups = near_groups(torch.ones(40, 3), 4, torch.Generator().manual_seed(0))
    assert len(set(groups.flatten().tolist())) == groups.numel() == 32


def batches(count: int, seed: int = 0, number: int = 12) -> list[Tensor]:
    points = embeddings(count)
    source = mined_batches(count, 16, 4, 3, lambda rows: points[rows], Context(seed), "embedding")
    return list(islice(source, number))


def test_batches_hold_rows_once_and_follow_the_seed():
    first = batches(96)
    assert all(len(set(rows.tolist())) == len(rows) for rows in first)
    assert all(map(torch.equal, first, batches(96)))
    assert not all(map(torch.equal, first, batches(96, seed=1)))
    assert {len(rows) for rows in first} == {16}


def test_most_rows_are_seen_in_an_epoch_and_all_of_them_in_a_few():
    assert len({row for rows in batches(90, number=40) for row in rows.tolist()}) == 90


def test_rows_are_embedded_as_the_network_is_then():
    asked = []
    source = mined_batches(
        96, 16, 4, 3, lambda rows: asked.append(rows) or embeddings(96)[rows], Context(), "embedding"
    )
    next(source)
    assert len(asked) == 1
    list(islice(source, 3))
    assert len(asked) == 2
