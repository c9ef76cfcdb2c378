"""Moves that lead somewhere new."""

from __future__ import annotations

import torch

from ele_core.numerics.keys import fresh_moves


def keys(*numbers):
    return torch.tensor([[number, 0] for number in numbers])


def test_the_first_move_to_each_structure_is_kept_and_none_to_the_structure_itself():
    owner = torch.tensor([0, 0, 0, 0, 1, 1])
    moved = keys(5, 1, 5, 6, 5, 2)
    assert fresh_moves(moved, owner, keys(1, 2)).tolist() == [0, 3, 4]


def test_the_limit_counts_what_is_kept():
    owner = torch.tensor([0, 0, 0, 0, 1])
    assert fresh_moves(keys(1, 5, 5, 6, 7), owner, keys(1, 2), limit=2).tolist() == [1, 3, 4]


def test_no_moves_are_no_rows():
    empty = torch.zeros(0, dtype=torch.long)
    assert fresh_moves(torch.zeros(0, 2, dtype=torch.long), empty, keys(1), limit=3).tolist() == []
