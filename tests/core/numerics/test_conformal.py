"""Thresholds hold their promise on exchangeable examples, and say when they cannot."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ele_core.numerics.conformal import (
    examples_needed,
    group_of,
    merged_groups,
    most_coverage,
    risk_threshold,
    threshold,
)


@given(st.integers(1, 300), st.floats(0.05, 0.995))
def test_a_threshold_is_finite_from_the_number_of_examples_that_is_said_to_be_needed(count, coverage):
    scores = torch.arange(float(count))
    assert math.isfinite(threshold(scores, coverage)) == (count >= examples_needed(coverage))


@pytest.mark.parametrize("coverage", [0.8, 0.9, 0.95, 0.99])
def test_new_scores_are_below_the_threshold_as_often_as_asked(coverage):
    draws = torch.rand(4000, 200, generator=torch.Generator().manual_seed(0))
    known, new = draws[:, :199], draws[:, 199]
    limits = torch.tensor([threshold(scores, coverage) for scores in known])
    held = (new <= limits).double().mean().item()
    assert held == pytest.approx(coverage, abs=4 * math.sqrt(coverage * (1 - coverage) / 4000))


def test_truths_that_were_not_found_limit_the_coverage():
    scores = torch.cat([torch.rand(90), torch.full((10,), math.inf)])
    assert most_coverage(scores) == pytest.approx(90 / 101)
    assert math.isfinite(threshold(scores, 0.89))
    assert math.isinf(threshold(scores, 0.9))


def test_the_expected_loss_of_new_examples_stays_below_the_risk():
    generator = torch.Generator().manual_seed(1)
    held = []
    for _ in range(400):
        energies = torch.rand(101, 6, generator=generator).sort(dim=1).values
        losses = (torch.rand(101, 6, generator=generator) * 4).cummin(dim=1).values
        limit = risk_threshold(energies[:100], losses[:100], risk=0.8, largest=4.0)
        assert limit is not None
        kept = max(1, int((energies[100] <= limit).sum()))
        held.append(losses[100, kept - 1].item())
    assert sum(held) / len(held) < 0.8


def test_a_risk_that_all_structures_do_not_keep_is_refused_and_a_large_one_needs_only_the_answer():
    energies, losses = torch.tensor([[0.1, 0.2]] * 50), torch.tensor([[2.0, 1.0]] * 50)
    assert risk_threshold(energies, losses, risk=0.5, largest=10) is None
    assert risk_threshold(energies, losses, risk=3.0, largest=10) == -math.inf
    assert risk_threshold(energies, losses, risk=1.3, largest=10) == pytest.approx(0.2)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=80), st.integers(1, 40))
def test_groups_of_neighbouring_values_have_enough_members(values, least):
    numbers = torch.tensor(values)
    ends = merged_groups(numbers, least)
    sizes = group_of(numbers, ends).bincount(minlength=len(ends)).tolist()
    assert sum(sizes) == len(values)
    assert len(sizes) == 1 or min(sizes) >= least
