"""Muon: steps of hidden matrices are orthogonal, other weights follow AdamW, and a stopped training goes on exactly."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from ele_core.components.training.muon import RATE, Muon, hidden_matrices, orthogonal


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.Flatten(), nn.Linear(8, 5))


def descend(module: nn.Module, optimiser: torch.optim.Optimizer, steps: int) -> None:
    pictures = torch.randn(16, 3, 5, 5, generator=torch.Generator().manual_seed(1))
    for _ in range(steps):
        module(pictures).square().sum().backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 1000), st.sampled_from([1e-8, 1.0, 1e8]))
def test_singular_values_become_about_one_whatever_the_scale(rows, columns, seed, scale):
    generator = torch.Generator().manual_seed(seed)
    left = torch.linalg.qr(torch.randn(rows, rows, generator=generator)).Q
    right = torch.linalg.qr(torch.randn(columns, columns, generator=generator)).Q
    rank = min(rows, columns)
    values = 0.05 + torch.rand(rank, generator=generator)
    found = orthogonal(scale * left[:, :rank] * values @ right[:, :rank].T)
    inside = torch.diagonal(left[:, :rank].T @ found @ right[:, :rank])
    assert found.shape == (rows, columns)
    assert (inside > 0.6).all()
    assert (inside < 1.3).all()


def test_a_matrix_of_zeros_stays_zero():
    assert not orthogonal(torch.zeros(3, 5)).any()


def test_only_the_matrices_between_the_first_and_the_last_are_hidden():
    module = network()
    assert [weight.shape for weight in hidden_matrices(module.parameters())] == [(8, 8, 3, 3)]
    assert hidden_matrices(nn.Linear(3, 2).parameters()) == []


def test_hidden_matrices_move_by_orthogonal_steps_and_the_others_as_with_adamw():
    ours, adamw = network(), network()
    descend(ours, Muon(ours, lr=0.01, weight_decay=0.0), 1)
    descend(adamw, torch.optim.AdamW(adamw.parameters(), lr=0.01, weight_decay=0.0), 1)
    start = network()
    for name, weight in ours.named_parameters():
        if name == "2.weight":
            step = (weight - start.get_parameter(name)).detach().flatten(1)
            values = torch.linalg.svdvals(step) / (0.01 * RATE * math.sqrt(72))
            assert values.max() < 1.3
            assert values.median() > 0.6
        else:
            assert torch.equal(weight, adamw.get_parameter(name))


def test_weight_decay_shrinks_hidden_matrices():
    plain, decayed = network(), network()
    descend(plain, Muon(plain, lr=0.01, weight_decay=0.0), 1)
    descend(decayed, Muon(decayed, lr=0.01, weight_decay=0.5), 1)
    start = network()[2].weight
    assert torch.allclose(plain[2].weight - decayed[2].weight, 0.005 * start, atol=1e-6)


@pytest.mark.parametrize("made", [0, 1, 3])
def test_a_restored_optimiser_goes_on_as_if_it_had_not_stopped(made):
    whole, stopped = network(), network()
    descend(whole, Muon(whole, lr=0.01, weight_decay=0.1), made + 2)
    before = Muon(stopped, lr=0.01, weight_decay=0.1)
    descend(stopped, before, made)
    after = Muon(stopped, lr=0.01, weight_decay=0.1)
    after.load_state_dict(before.state_dict())
    descend(stopped, after, 2)
    for name, weight in whole.named_parameters():
        assert torch.equal(weight, stopped.get_parameter(name)), name
