"""The learned loss as a torch module: its value, its gradient, what it takes, and what it refuses."""

import pytest
import torch

from ele_core import ConfigError, DataError, StructuredPredictor
from ele_core.energies import SquaredDistance
from ele_core.interfaces import Surrogate
from ele_core.model.loss import LearnedLoss
from ele_core.testing import LinearSurrogate

TARGETS = ["17", "4203", "9", "860"]


@pytest.fixture
def loss(predictor):
    return predictor.loss(reduction="none")


@pytest.fixture
def point(loss):
    scores = torch.randn(4, *loss.space.geometry["tokens"].point_shape, generator=torch.Generator().manual_seed(0))
    return loss.space.Batch(tokens=scores.softmax(dim=-1).requires_grad_(True))


def test_at_structures_it_is_the_learned_distance(predictor, loss):
    others = TARGETS[::-1]
    relaxed = loss.space.relax(loss.space.pack(others))
    expected = torch.from_numpy(predictor.distance(others, TARGETS))
    torch.testing.assert_close(loss(relaxed, TARGETS), expected)
    torch.testing.assert_close(loss(relaxed, others), torch.zeros(4))


def test_targets_are_objects_batches_points_or_embeddings(loss, point):
    packed = loss.space.pack(TARGETS)
    expected = loss(point, TARGETS)
    for targets in (tuple(TARGETS), packed, loss.space.relax(packed), loss.embed(TARGETS)):
        torch.testing.assert_close(loss(point, targets), expected)


def test_reductions_are_those_of_torch(predictor, loss, point):
    each = loss(point, TARGETS)
    assert each.shape == (4,)
    torch.testing.assert_close(predictor.loss()(point, TARGETS), each.mean())
    torch.testing.assert_close(predictor.loss(reduction="sum")(point, TARGETS), each.sum())


def test_the_gradient_is_the_slope_of_the_loss(loss, point):
    loss(point, TARGETS).sum().backward()
    slope = point.tokens.grad
    along = slope / slope.norm()
    with torch.no_grad():
        ahead, behind = (loss(point.map(lambda t, s=sign: t + s * 1e-2 * along), TARGETS).sum() for sign in (1, -1))
    torch.testing.assert_close((ahead - behind) / 2e-2, slope.norm(), rtol=0.02, atol=0)


def test_two_points_both_have_a_gradient(loss, point):
    other = point.map(lambda tokens: tokens.detach().roll(1, dims=0).requires_grad_(True))
    loss(point, other).sum().backward()
    assert point.tokens.grad.any()
    assert other.tokens.grad.any()


def test_scores_descend_to_their_targets(loss):
    scores = torch.zeros(4, *loss.space.geometry["tokens"].point_shape, requires_grad=True)
    steps = torch.optim.Adam([scores], lr=0.3)
    values = []
    for _ in range(60):
        value = loss(loss.space.Batch(tokens=scores.softmax(dim=-1)), TARGETS).mean()
        steps.zero_grad()
        value.backward()
        steps.step()
        values.append(value.item())
    assert values[-1] < 0.1 * values[0]


def test_it_is_a_frozen_copy(predictor, point):
    loss = predictor.loss()
    before = predictor.embed(TARGETS)
    value = loss.train()(point, TARGETS)
    value.backward()
    assert not list(loss.parameters())
    assert not loss.state_dict()
    assert all(weight.grad is None and not weight.requires_grad for weight in loss.surrogate.network.parameters())
    assert not loss.surrogate.network.training
    with torch.no_grad():
        for weight in loss.surrogate.network.parameters():
            weight.zero_()
    assert (predictor.embed(TARGETS) == before).all()
    assert all(weight.requires_grad for weight in predictor.model_.surrogate.network.parameters())


def test_making_one_draws_no_random_numbers(predictor):
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    predictor.loss()
    assert torch.equal(torch.rand(2), expected)


def test_it_moves_as_a_part_of_another_module(predictor):
    loss = predictor.loss()
    torch.nn.ModuleDict({"network": torch.nn.Linear(1, 1), "loss": loss}).to("meta")
    assert {weight.device.type for weight in loss.surrogate.network.parameters()} == {"meta"}
    assert next(predictor.model_.surrogate.network.parameters()).device.type == "cpu"


def test_half_precision_points_are_taken(loss, point):
    halved = point.map(lambda tokens: tokens.detach().bfloat16().requires_grad_(True))
    loss(halved, TARGETS).sum().backward()
    assert halved.tokens.grad.dtype == torch.bfloat16


def test_a_surrogate_without_gradient_is_refused_in_one_sentence(pairs):
    made = StructuredPredictor("sequence", surrogate="parts", regressor="nearest-input", decoder="candidates")
    with pytest.raises(ConfigError, match="needs a gradient, which surrogate 'parts' does not have"):
        made.fit(*pairs).loss()


@pytest.mark.parametrize(
    ("points", "targets", "message"),
    [
        (lambda space, _point: space.pack(TARGETS), TARGETS, "points: these are labels, which have no gradient"),
        (lambda _space, point: point.tokens, TARGETS, "points: expected Tokens, not Tensor"),
        (lambda _space, point: point.map(lambda t: t[:, 1:]), TARGETS, "'tokens' should have the shape"),
        (lambda _space, point: point, TARGETS[:3], "4 points but 3 targets"),
        (lambda _space, point: point, "17", "one text where a list is expected"),
        (lambda _space, point: point, torch.zeros(4, 3), "expected embeddings (B, 8), not a tensor (4, 3)"),
        (lambda _space, point: point, ["17", "x", "9", "9"], "output 1"),
    ],
)
def test_what_is_no_point_or_no_target_is_refused(loss, point, points, targets, message):
    with pytest.raises(DataError) as error:
        loss(points(loss.space, point), targets)
    assert message in str(error.value)


def test_an_unknown_reduction_is_refused(predictor):
    with pytest.raises(ConfigError, match="should be one of mean, sum, none, not 'average'"):
        predictor.loss(reduction="average")


class OnlyEnergies(LinearSurrogate):
    """It has energies at points, but does not embed them."""

    def embed(self, batch):
        return LinearSurrogate.embed_at(self, self.space.relax(batch))

    def energy(self, queries):
        return EnergiesOfPoints(self, queries)

    embed_at = Surrogate.embed_at


class EnergiesOfPoints(SquaredDistance):
    smooth = True

    def at(self, point, owner=None):
        return (LinearSurrogate.embed_at(self.surrogate, point) - self.asked(owner)).square().sum(dim=1)


def test_a_surrogate_that_embeds_no_points_still_has_a_loss_for_structures(loss, point):
    own = LearnedLoss(OnlyEnergies(None, loss.space))
    assert own(point, TARGETS) > 0
    with pytest.raises(DataError, match="OnlyEnergies embeds structures, but no points"):
        own(point, point)
