"""Measures of probabilities: area under the curve, calibration error, risk by coverage."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ele_core.numerics.calibration_metrics import area_under_curve, calibration_error, reliability, risk_by_coverage


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=2, max_size=30))
def test_the_area_is_the_share_of_pairs_in_the_right_order(values):
    scores = torch.tensor([float(score) for score, _ in values])
    right = torch.tensor([own for _, own in values])
    pairs = [(a - b).item() for a in scores[right] for b in scores[~right]]
    expected = sum(1.0 if d > 0 else 0.5 if d == 0 else 0.0 for d in pairs) / len(pairs) if pairs else None
    assert area_under_curve(scores, right) == (None if expected is None else pytest.approx(expected))


def test_probabilities_that_hold_have_no_calibration_error_and_boasts_have():
    right = torch.tensor([True] * 7 + [False] * 3)
    assert calibration_error(torch.full((10,), 0.7), right) == pytest.approx(0.0, abs=1e-6)
    assert calibration_error(torch.ones(10), right) == pytest.approx(0.3)
    assert [each["examples"] for each in reliability(torch.tensor([0.05, 0.95, 1.0]), right[:3])] == [1, 2]


def test_the_most_confident_come_first():
    curve = risk_by_coverage(torch.tensor([0.9, 0.1, 0.8, 0.2]), torch.tensor([0.0, 1.0, 0.0, 1.0]), points=5)
    assert curve == [(0.25, 0.0), (0.5, 0.0), (0.75, pytest.approx(1 / 3)), (1.0, 0.5)]
