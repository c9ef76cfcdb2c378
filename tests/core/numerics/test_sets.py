"""One table of convex sets, and the laws that each of them keeps."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Generator, Tensor

from ele_core.numerics.sets import Birkhoff, Box, ConvexSet, Simplex, SymmetricSimplex, all_switches
from ele_core.numerics.tensors import Tensors

SETS: list[ConvexSet] = [
    Simplex(size=4),
    Simplex(size=1, rows=(2,)),
    Simplex(size=5, rows=(3,)),
    Simplex(size=18, rows=(2, 2)),
    SymmetricSimplex(nodes=4, size=3),
    SymmetricSimplex(nodes=2, size=2),
    SymmetricSimplex(nodes=1, size=3),
    Box(size=5),
    Box(size=3, low=-2.0, high=0.5),
    Birkhoff(size=1),
    Birkhoff(size=2),
    Birkhoff(size=5),
]
SCALES = [1e-8, 1e-3, 1.0, 1e3, 1e8]
DTYPES = [torch.float32, torch.float64]

every_set = pytest.mark.parametrize("convex", SETS, ids=str)
laws = settings(deadline=None, max_examples=10)
scales = st.sampled_from(SCALES)
dtypes = st.sampled_from(DTYPES)
seeds = st.integers(0, 10**6)


def seeded(seed: int) -> Generator:
    return Generator().manual_seed(seed)


def anywhere(convex: ConvexSet, scale: float, dtype: torch.dtype, seed: int, count: int = 8) -> Tensor:
    """Points in and around the set: noise of some scale around a feasible point."""
    generator = seeded(seed)
    noise = torch.randn(count, *convex.point_shape, generator=generator, dtype=torch.float64)
    return (convex.sample(count, generator, torch.float64) + scale * noise).to(dtype)


def norms(x: Tensor) -> Tensor:
    return x.double().flatten(1).square().sum(dim=1).sqrt()


def assert_contains(convex: ConvexSet, x: Tensor) -> None:
    inside, reason = convex.contains(x, explain=True)
    assert inside, reason


# -- projection ----------------------------------------------------------------------------------------------------


@every_set
@laws
@given(scale=scales, dtype=dtypes, seed=seeds)
def test_projection_is_feasible_and_idempotent(convex: ConvexSet, scale: float, dtype: torch.dtype, seed: int) -> None:
    projected = convex.project(anywhere(convex, scale, dtype, seed))
    assert_contains(convex, projected)
    torch.testing.assert_close(convex.project(projected), projected, rtol=0, atol=4 * convex.tolerance(dtype))


@every_set
@laws
@given(scale=scales, dtype=dtypes, seed=seeds)
def test_projection_is_nearest(convex: ConvexSet, scale: float, dtype: torch.dtype, seed: int) -> None:
    """No feasible point is nearer, and ⟨x − Px, p − Px⟩ ≤ 0 for each: the variational inequality."""
    x = anywhere(convex, scale, dtype, seed)
    projected = convex.project(x).double()
    residual = x.double() - projected
    others = convex.sample(64, seeded(seed + 1), torch.float64)
    angles = torch.einsum("bk,bpk->bp", residual.flatten(1), (others - projected[:, None]).flatten(2))
    allowed = 10 * convex.tolerance(dtype) * (1 + norms(residual))
    assert (angles <= allowed[:, None]).all()
    distances = (x.double()[:, None] - others).flatten(2).norm(dim=2)
    assert (norms(residual)[:, None] <= distances + allowed[:, None]).all()


@every_set
@laws
@given(scale=scales, dtype=dtypes, seed=seeds)
def test_projection_is_non_expansive(convex: ConvexSet, scale: float, dtype: torch.dtype, seed: int) -> None:
    x, y = anywhere(convex, scale, dtype, seed), anywhere(convex, 1.0, dtype, seed + 1)
    moved = norms(convex.project(x).double() - convex.project(y).double())
    assert (moved <= norms(x.double() - y.double()) + 10 * convex.tolerance(dtype)).all()


@every_set
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, *DTYPES], ids=str)
def test_projection_keeps_the_dtype_and_leaves_its_input_alone(convex: ConvexSet, dtype: torch.dtype) -> None:
    x = anywhere(convex, 1.0, dtype, seed=0)
    before = x.clone()
    projected = convex.project(x)
    assert projected.dtype == dtype
    assert torch.equal(x, before)
    assert projected.data_ptr() != x.data_ptr()
    assert_contains(convex, projected)


@every_set
@pytest.mark.parametrize("seed", range(3))
def test_projection_has_the_derivative_that_differences_show(convex: ConvexSet, seed: int) -> None:
    x = anywhere(convex, 0.5, torch.float64, seed).requires_grad_(True)
    along = torch.randn(x.shape, generator=seeded(seed), dtype=torch.float64)
    (found,) = torch.autograd.grad((convex.project(x) * along).sum(), x)
    step = 1e-5 * along
    with torch.no_grad():
        difference = (convex.project(x + step) - convex.project(x - step)) / 2e-5
    torch.testing.assert_close(found, difference, rtol=0, atol=1e-3)  # the derivative is a symmetric matrix


@every_set
def test_feasible_points_stay_where_they_are(convex: ConvexSet) -> None:
    points = convex.sample(50, seeded(0), torch.float64)
    torch.testing.assert_close(convex.project(points), points, rtol=0, atol=convex.tolerance(torch.float64))


@every_set
@pytest.mark.parametrize("count", [0, 1])
def test_batches_of_zero_and_one_work_everywhere(convex: ConvexSet, count: int) -> None:
    points, labels = convex.sample(count, seeded(0)), convex.sample_labels(count, seeded(0))
    assert convex.project(points).shape == (count, *convex.point_shape)
    assert convex.nearest_vertex(points).shape == (count, *convex.label_shape)
    assert convex.vertices(labels).shape == (count, *convex.point_shape)
    assert convex.switch_gains(labels, points).shape == (count, convex.switches)
    assert convex.switch(labels[:0], torch.zeros(0, dtype=torch.long)).shape == (0, *convex.label_shape)
    assert_contains(convex, points)


# -- membership and samples ----------------------------------------------------------------------------------------


@every_set
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_samples_are_feasible_and_hold_vertices_and_more(convex: ConvexSet, dtype: torch.dtype) -> None:
    points = convex.sample(200, seeded(0), dtype)
    assert points.dtype == dtype
    assert_contains(convex, points)
    at_vertex = norms(points - convex.vertices(convex.nearest_vertex(points)).to(dtype)) < 1e-6
    assert at_vertex.any()
    assert at_vertex.all() == (convex.switch_gains(convex.sample_labels(1, seeded(0))).isinf().all())
    assert torch.equal(points, convex.sample(200, seeded(0), dtype))


@pytest.mark.parametrize(
    ("convex", "point", "reason"),
    [
        (Simplex(2), [[0.5, 0.6]], "rows sum to 1: broken by 0.1"),
        (Simplex(2), [[-0.5, 1.5]], "entries are at least 0: broken by 0.5"),
        (Simplex(2), [[float("nan"), 1.0]], "not finite"),
        (Simplex(2), [0.5, 0.5], "shape (2,) is not (B, 2)"),
        (Box(2, high=3.0), [[0.0, 4.0]], "entries are at most 3.0: broken by 1"),
        (Birkhoff(2), [[[1.0, 0.0], [1.0, 0.0]]], "columns sum to 1: broken by 1"),
        (SymmetricSimplex(2, 2), [[[[1.0, 0], [1.0, 0]], [[0, 1.0], [1.0, 0]]]], "(i, j) and (j, i) are equal"),
        (SymmetricSimplex(1, 2), [[[[0.0, 1.0]]]], "the diagonal is label 0"),
    ],
)
def test_contains_explains_what_is_wrong(convex: ConvexSet, point: list[object], reason: str) -> None:
    x = torch.tensor(point)
    inside, why = convex.contains(x, explain=True)
    assert not inside
    assert reason in why
    assert not convex.contains(x)


def test_integers_are_no_points() -> None:
    assert Simplex(2).contains(torch.tensor([[0, 1]]), explain=True) == (False, "points are floats, not torch.int64")


def test_a_box_needs_room() -> None:
    with pytest.raises(ValueError, match="low < high"):
        Box(size=2, low=1.0, high=1.0)


# -- vertices ------------------------------------------------------------------------------------------------------


@every_set
def test_nearest_vertex_inverts_vertices(convex: ConvexSet) -> None:
    labels = convex.sample_labels(40, seeded(0))
    points = convex.vertices(labels)
    assert points.dtype == torch.float32
    assert_contains(convex, points)
    assert labels.dtype == convex.nearest_vertex(points).dtype == convex.label_dtype
    assert torch.equal(convex.nearest_vertex(points), labels)


@every_set
def test_nearest_vertex_is_no_farther_than_any_other(convex: ConvexSet) -> None:
    x = anywhere(convex, 1.0, torch.float64, seed=0)
    nearest = norms(x - convex.vertices(convex.nearest_vertex(x)))
    others = convex.vertices(convex.sample_labels(100, seeded(1)))
    assert (nearest[:, None] <= (x[:, None] - others).flatten(2).norm(dim=2) + 1e-9).all()


def test_ties_go_to_the_smallest_label() -> None:
    assert Simplex(3).nearest_vertex(torch.tensor([[0.2, 0.4, 0.4]])).tolist() == [1]
    assert Box(1).nearest_vertex(torch.tensor([[0.5]])).tolist() == [[0]]


@pytest.mark.parametrize(("size", "dtype"), [(128, torch.int8), (129, torch.int16), (40000, torch.int32)])
def test_labels_take_the_smallest_integer_that_fits(size: int, dtype: torch.dtype) -> None:
    last = torch.zeros(1, size)
    last[0, -1] = 1.0
    label = Simplex(size).nearest_vertex(last)
    assert label.dtype == dtype
    assert label.tolist() == [size - 1]
    assert torch.equal(Simplex(size).vertices(label), last)


# -- moves ---------------------------------------------------------------------------------------------------------


@every_set
def test_moves_lead_to_distinct_vertices_and_gains_are_exact(convex: ConvexSet) -> None:
    labels = convex.sample_labels(5, seeded(0))
    gradient = torch.randn(5, *convex.point_shape, generator=seeded(1), dtype=torch.float64)
    gains = convex.switch_gains(labels, gradient)
    assert gains.shape == (5, convex.switches)
    assert torch.equal(gains.isinf(), convex.switch_gains(labels).isinf())
    row, move = gains.isfinite().nonzero(as_tuple=True)
    moved = convex.switch(labels[row], move)
    assert moved.dtype == labels.dtype
    old, new = convex.vertices(labels[row]), convex.vertices(moved)
    assert_contains(convex, new)
    assert (norms(new - old) > 0).all()
    change = (gradient[row] * (new.double() - old.double())).flatten(1).sum(dim=1)
    torch.testing.assert_close(gains[row, move], change)
    for i in range(len(labels)):
        assert len(moved[row == i].unique(dim=0)) == (row == i).sum()


@every_set
def test_moves_without_effect_leave_the_vertex(convex: ConvexSet) -> None:
    labels = convex.sample_labels(5, seeded(0))
    row, move = convex.switch_gains(labels).isinf().nonzero(as_tuple=True)
    assert torch.equal(convex.switch(labels[row], move), labels[row])


@every_set
@pytest.mark.parametrize("count", [0, 1, 5])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_default_gains_and_idle_moves_are_those_of_the_set(
    convex: ConvexSet, count: int, dtype: torch.dtype
) -> None:
    labels = convex.sample_labels(count, seeded(0))
    gradient = torch.randn(count, *convex.point_shape, generator=seeded(1), dtype=dtype)
    gains = ConvexSet.gains(convex, labels, gradient)
    assert gains.dtype == dtype
    torch.testing.assert_close(gains, convex.gains(labels, gradient))
    idle = ConvexSet.idle(convex, labels)
    assert idle.dtype == torch.bool
    assert torch.equal(idle, convex.idle(labels).expand(count, convex.switches))


@dataclass(frozen=True, eq=False)
class Labelled(Tensors):
    """A graph-like batch; `tag` is in no set."""

    nodes: Tensor
    edges: Tensor
    tag: Tensor


GEOMETRY: dict[str, ConvexSet] = {"nodes": Simplex(3, (4,)), "edges": SymmetricSimplex(4, 2)}


def labelled(count: int) -> tuple[Labelled, Labelled]:
    """A batch and a gradient at its relaxation."""
    batch = {name: convex.sample_labels(count, seeded(0)) for name, convex in GEOMETRY.items()}
    slopes = {name: torch.randn(count, *convex.point_shape, generator=seeded(1)) for name, convex in GEOMETRY.items()}
    tag = torch.arange(count)
    return Labelled(**batch, tag=tag), Labelled(**slopes, tag=tag)


def linear_loss(batch: Labelled, slopes: Labelled) -> Tensor:
    terms = [(GEOMETRY[name].vertices(getattr(batch, name)) * getattr(slopes, name)).flatten(1) for name in GEOMETRY]
    return torch.cat(terms, dim=1).sum(dim=1)


def test_all_switches_lists_every_move_of_every_field_once() -> None:
    batch, _ = labelled(5)
    moved, row = all_switches(GEOMETRY, batch, None)
    assert torch.equal(row, torch.arange(5).repeat_interleave(4 * 2 + 6 * 1))
    assert torch.equal(moved.tag, row)
    assert moved.nodes.dtype == batch.nodes.dtype
    everything = torch.cat([moved.nodes.flatten(1), moved.edges.flatten(1), row[:, None]], dim=1)
    assert len(everything.unique(dim=0)) == len(row)


def test_all_switches_ranks_by_the_change_of_the_loss() -> None:
    batch, slopes = labelled(5)
    moved, row = all_switches(GEOMETRY, batch, slopes)
    losses = linear_loss(moved, slopes[row]).reshape(5, -1)
    assert (losses.diff(dim=1) >= -1e-5).all()


def test_all_switches_leaves_its_batch_alone_and_takes_an_empty_one() -> None:
    batch, slopes = labelled(3)
    before = batch.map(torch.clone)
    all_switches(GEOMETRY, batch, slopes)
    assert all(torch.equal(tensor, getattr(batch, name)) for name, tensor in before.named_tensors())
    moved, row = all_switches(GEOMETRY, batch[:0], slopes[:0])
    assert len(moved) == len(row) == 0


@every_set
def test_softened_points_stay_in_the_set_and_move_no_further_than_asked(convex):
    labels = convex.sample_labels(20, generator := torch.Generator().manual_seed(0))
    points = convex.vertices(labels)
    soft = convex.soften(points, 0.5, generator)
    assert convex.contains(soft, explain=True) == (True, "")
    assert torch.equal(soft, points) != bool(convex.switch_gains(labels).isfinite().any())
    assert (soft - points).abs().max() <= 0.5 * (points.max() - points.min()) + 1e-6
    assert torch.equal(convex.soften(points, 0.0, generator), points)
