"""Batches of near structures."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ele_core.components.surrogates.mining import MinedBatches, near_groups
from ele_core.runtime.context import Context


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
    source = MinedBatches((0, count), 16, 4, 3, lambda rows: points[rows], Context(seed), "embedding")
    return [source.draw() for _ in range(number)]


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
    source = MinedBatches(
        (0, 96), 16, 4, 3, lambda rows: asked.append(rows) or embeddings(96)[rows], Context(), "embedding"
    )
    source.draw()
    assert len(asked) == 1
    for _ in range(3):
        source.draw()
    assert len(asked) == 2


@pytest.mark.parametrize("drawn", [0, 1, 3, 4, 6, 11])
def test_batches_go_on_from_a_kept_state_although_the_network_has_changed_since(drawn):
    network = {"seed": 0}

    def embed(rows: Tensor) -> Tensor:
        return torch.randn(96, 2, generator=torch.Generator().manual_seed(network["seed"]))[rows]

    undisturbed, other = (MinedBatches((0, 96), 16, 4, 3, embed, Context(), "embedding") for _ in range(2))
    for _ in range(drawn):
        undisturbed.draw()
    state = {name: value.clone() for name, value in undisturbed.state().items()}
    network["seed"] = 1
    other.restore(state)
    assert all(torch.equal(undisturbed.draw(), other.draw()) for _ in range(8))
