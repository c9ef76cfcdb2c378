"""Sketched kernels: complete sketches reproduce the kernel, the parts they keep are checked, any space will do."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from linear import outputs_only, random_sequences, sequence_space
from torch import Tensor
from torch.nn import functional

from ele_core import StructuredPredictor
from ele_core.components.sketching import KernelOptions, Sketch, SketchedKernel, whitening
from ele_core.components.surrogates.kernel import SketchedKernelSurrogate
from ele_core.errors import ConfigError, ModelError
from ele_core.numerics.sparse import SparseRows
from ele_core.runtime.context import Context
from ele_core.types import Candidates

KINDS = ("subsample", "gaussian", "sparse")


def vectors(count: int = 40, columns: int = 12, seed: int = 0) -> Tensor:
    return torch.randint(0, 4, (count, columns), generator=torch.Generator().manual_seed(seed)).float()


def dense_kernel(left: Tensor, right: Tensor, kernel: str, width: float = 3.0) -> Tensor:
    if kernel == "cosine":
        return functional.normalize(left, dim=1) @ functional.normalize(right, dim=1).T
    return (-(torch.cdist(left, right) ** 2) / (2 * width**2)).exp()


def fitted(objects: Tensor, dim: int | None = None, **options: Any) -> SketchedKernel:
    made = SketchedKernel(KernelOptions(**options), dim)
    made.fit(SparseRows.dense, objects, Context(), "test")
    return made


@pytest.mark.parametrize("kernel", ["cosine", "gaussian"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_complete_sketch_reproduces_the_kernel(kernel, kind):
    objects = vectors()
    made = fitted(objects, kernel=kernel, width=3.0, sketch={"kind": kind, "size": 60})
    mapped = made(SparseRows.dense(objects))
    assert mapped.shape == (40, 60)
    torch.testing.assert_close(mapped @ mapped.T, dense_kernel(objects, objects, kernel), rtol=0, atol=1e-4)


@pytest.mark.parametrize("kernel", ["cosine", "gaussian"])
@pytest.mark.parametrize("kind", KINDS)
def test_features_are_those_of_the_formula(kernel, kind):
    objects, others = vectors(), vectors(9, seed=1)
    options = KernelOptions(kernel=kernel, width=3.0, sketch={"kind": kind, "size": 10, "nonzeros": 3})
    made = SketchedKernel(options)
    made.fit(SparseRows.dense, objects, Context(seed=4), "test")
    rows, matrix = options.sketch.draw(40, Context(seed=4).generator("test", "sketch"))
    matrix = (torch.eye(10) if matrix is None else matrix).double()
    gram = dense_kernel(objects[rows].double(), objects[rows].double(), kernel)
    values, basis = torch.linalg.eigh(matrix @ gram @ matrix.T)
    values, basis = values.flip(0), basis.flip(1)
    kept = values > 1e-8
    expected = dense_kernel(others.double(), objects[rows].double(), kernel) @ matrix.T @ basis / values.sqrt()
    mapped = made(SparseRows.dense(others)).double()
    assert int(kept.sum()) == (mapped.abs().sum(0) > 0).sum()
    torch.testing.assert_close(mapped[:, kept].abs(), expected[:, kept].abs(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sketch_never_adds_to_the_kernel(kind):
    objects, others = vectors(), vectors(30, seed=1)
    mapped = fitted(objects, sketch={"kind": kind, "size": 5})(SparseRows.dense(others))
    assert (mapped.square().sum(dim=1) <= 1 + 1e-5).all()


def test_the_first_components_are_those_of_the_greatest_eigenvalues():
    objects = vectors()
    all_of_them, some = (fitted(objects, dim, sketch={"size": 20}) for dim in (None, 4))
    mapped = all_of_them(SparseRows.dense(objects))
    torch.testing.assert_close(some(SparseRows.dense(objects)).abs(), mapped[:, :4].abs(), rtol=0, atol=1e-4)


def test_directions_that_are_rounding_are_left_out():
    objects = vectors(6)
    twice = torch.cat([objects, objects])
    mapped = fitted(twice, sketch={"size": 12})(SparseRows.dense(twice))
    assert int((mapped.abs().sum(dim=0) > 0).sum()) == 6
    assert whitening(torch.zeros(3, 3, dtype=torch.float64), 3).shape == (3, 0)


def test_a_width_is_found_where_none_is_given():
    objects = vectors()
    made = fitted(objects, kernel="gaussian", sketch={"size": 40})
    distances = torch.cdist(objects, objects)
    assert made.learned is not None
    assert made.learned.width == pytest.approx(distances[distances > 0].median().item(), rel=1e-4)


def test_the_same_seed_draws_the_same_sketch():
    for kind in KINDS:
        draws = [Sketch(kind=kind, size=5).draw(30, Context(seed=s).generator("a", "sketch")) for s in (1, 1, 2)]
        same = [
            torch.equal(draws[0][0], draw[0]) and (draw[1] is None or torch.equal(draws[0][1], draw[1]))
            for draw in draws
        ]
        assert same == [True, True, False]


def test_an_unfitted_kernel_says_so():
    with pytest.raises(ModelError, match="before it was fitted"):
        SketchedKernel(KernelOptions())(SparseRows.dense(vectors(2)))


@pytest.mark.parametrize(
    "damage",
    [
        {"offsets": torch.tensor([0, 5, 3])},
        {"values": torch.zeros(2)},
        {"keys": torch.zeros(3)},
        {"projection": torch.zeros(4, 4)},
        {"width": torch.zeros(0)},
    ],
    ids=lambda damage: next(iter(damage)),
)
def test_tensors_that_do_not_go_together_are_refused(damage):
    made = fitted(vectors(), sketch={"size": 5})
    with pytest.raises(ModelError, match="do not go together"):
        SketchedKernel(made.options).restore({**made.state(), **damage})


# -- as a surrogate, on any space ---------------------------------------------------------------------------------


def test_the_surrogate_embeds_any_space_and_comes_back_the_same():
    space = sequence_space()
    outputs = random_sequences(space, 50)
    config = SketchedKernelSurrogate.Config(kernel="gaussian", sketch={"size": 30}, dim=7)
    surrogate, restored = SketchedKernelSurrogate(config, space), SketchedKernelSurrogate(config, space)
    surrogate.fit(outputs_only(outputs, outputs), Context())
    restored.restore(surrogate.state())
    assert surrogate.dim == 7
    assert surrogate.embed(outputs).shape == (50, 7)
    assert torch.equal(restored.embed(outputs), surrogate.embed(outputs))
    assert surrogate.embed(outputs[:0]).shape == (0, 7)


def test_the_least_energy_of_a_complete_kernel_is_the_structure_itself():
    space = sequence_space()
    outputs = random_sequences(space, 40)
    surrogate = SketchedKernelSurrogate(SketchedKernelSurrogate.Config(sketch={"size": 40}), space)
    surrogate.fit(outputs_only(outputs, outputs), Context())
    embeddings = surrogate.embed(outputs)
    energies = surrogate.energy(embeddings).among(Candidates(outputs, embeddings))
    assert torch.equal(energies.argmin(dim=1), torch.arange(40))
    torch.testing.assert_close(energies.diagonal(), torch.zeros(40), rtol=0, atol=1e-4)
    torch.testing.assert_close(surrogate.energy(embeddings).of(outputs), energies.diagonal(), rtol=0, atol=1e-5)


@pytest.fixture(scope="module")
def kernel_predictor(pairs: Any, tiny: Any) -> StructuredPredictor:
    """The neural regressor on a sketched kernel: DSOKR, on sequences."""
    surrogate = {"name": "sketched-kernel", "sketch": {"size": 30}}
    return StructuredPredictor("sequence", surrogate=surrogate, regressor=tiny["regressor"]).fit(*pairs, validation=20)


def test_queries_are_not_put_on_the_sphere(kernel_predictor, pairs):
    model = kernel_predictor.model_
    norms = model.queries(pairs[0][:20]).norm(dim=1)
    assert (norms - 1).abs().min() > 1e-3


def test_a_loaded_model_predicts_the_same(kernel_predictor, pairs, tmp_path):
    kernel_predictor.save(tmp_path / "model")
    loaded = StructuredPredictor.load(tmp_path / "model")
    for decoder in ("candidates", "search"):
        left, right = (each.decode(pairs[0][:8], decoder=decoder) for each in (kernel_predictor, loaded))
        assert torch.equal(left.decoding.energies, right.decoding.energies)
        assert [p.objects for p in left] == [p.objects for p in right]


def test_gradient_decoding_is_refused(kernel_predictor, pairs):
    with pytest.raises(ConfigError, match=r"surrogate 'sketched-kernel' does not have.*candidates.*search"):
        kernel_predictor.predict(pairs[0][:2], decoder="pgd")
