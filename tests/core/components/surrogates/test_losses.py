"""The contrastive family against its formulas."""

import math

import pytest
import torch
from torch.nn import functional

from ele_core.components.surrogates.losses import ContrastiveLoss, info_nce, soft_triplet


@pytest.fixture
def pairs() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    draw = torch.randn(2, 6, 5, generator=generator)
    return functional.normalize(draw[0], dim=1), functional.normalize(draw[1], dim=1)


def off_diagonal(size: int) -> torch.Tensor:
    return ~torch.eye(size, dtype=torch.bool)


def test_info_nce_with_epsilon_one_is_scaled_cross_entropy(pairs):
    anchors, views = pairs
    loss = ContrastiveLoss(temperature=0.3)(anchors, views, off_diagonal(6))
    expected = 0.3 * functional.cross_entropy(anchors @ views.T / 0.3, torch.arange(6), reduction="none")
    torch.testing.assert_close(loss, expected)


def test_info_nce_follows_the_paper_for_any_epsilon(pairs):
    anchors, views = pairs
    similarity = anchors @ views.T
    margins = similarity - similarity.diagonal().unsqueeze(1)
    for epsilon in (0.0, 0.5, 2.0):
        loss = info_nce(margins, off_diagonal(6), 0.2, epsilon)
        terms = (margins / 0.2).exp().masked_fill(torch.eye(6, dtype=torch.bool), 0)
        torch.testing.assert_close(loss, 0.2 * (epsilon + terms.sum(dim=1)).log())


def test_info_nce_stays_finite_at_tiny_temperatures(pairs):
    anchors, views = pairs
    assert ContrastiveLoss(temperature=1e-4)(anchors, views, off_diagonal(6)).isfinite().all()


def test_soft_triplet_approaches_the_hinge_as_the_temperature_falls():
    margins = torch.tensor([[0.0, -0.9, 0.4]])
    negative = torch.tensor([[False, True, True]])
    loss = soft_triplet(margins, negative, temperature=1e-4, margin=0.5)
    assert math.isclose(loss.item(), (0.0 + 0.9) / 2, abs_tol=1e-3)


def test_structures_that_are_not_negatives_do_not_count(pairs):
    anchors, views = pairs
    negative = off_diagonal(6)
    negative[0, 1] = False
    changed = views.clone()
    changed[1] = anchors[0]
    for member in ("info-nce", "soft-triplet"):
        loss = ContrastiveLoss(member=member)
        torch.testing.assert_close(loss(anchors, views, negative)[0], loss(anchors, changed, negative)[0])


def test_some_anchors_among_all_views_have_the_loss_they_have_among_all_anchors(pairs):
    anchors, views = pairs
    for member in ("info-nce", "soft-triplet"):
        loss = ContrastiveLoss(member=member)
        some = loss(anchors[2:5], views, off_diagonal(6)[2:5], first=2)
        torch.testing.assert_close(some, loss(anchors, views, off_diagonal(6))[2:5])


def test_a_batch_without_negatives_has_a_finite_loss(pairs):
    anchors, views = pairs
    none = torch.zeros(6, 6, dtype=torch.bool)
    for member in ("info-nce", "soft-triplet"):
        for epsilon in (0, 1):
            assert ContrastiveLoss(member=member, epsilon=epsilon)(anchors, views, none).abs().max() == 0
