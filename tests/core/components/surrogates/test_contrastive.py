"""The contrastive surrogate: what counts as a negative, where embeddings and soft points lie, and how it trains."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from linear import outputs_only
from recording import Recorder
from torch import Tensor

from ele_core.components.surrogates import contrastive
from ele_core.components.surrogates.contrastive import ContrastiveSurrogate, Views, different
from ele_core.runtime.context import Context
from ele_core.types import Candidates
from ele_sequences.space import SequenceSpace, Tokens


@pytest.fixture(scope="module")
def space() -> SequenceSpace:
    return SequenceSpace(SequenceSpace.Config(alphabet=tuple("abc"), length=4))


def random_outputs(space: SequenceSpace, count: int, seed: int = 0) -> Tokens:
    labels = space.geometry["tokens"].sample_labels(count, torch.Generator().manual_seed(seed))
    return space.unrelax(space.relax(Tokens(labels)))


def surrogate(space: SequenceSpace, seed: int = 0, **options: Any) -> ContrastiveSurrogate:
    training = {"epochs": 6, "batch_size": 32, "evaluations": 6, "learning_rate": 0.01, **options.pop("training", {})}
    settings = {"dim": 6, "encoder": {"name": "flat", "width": 16, "layers": 1}, "training": training, **options}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return ContrastiveSurrogate(ContrastiveSurrogate.Config(**settings), space)


def fitted(space: SequenceSpace, context: Context | None = None, extra: Any = None, **options: Any) -> Any:
    made = surrogate(space, **options)
    made.fit(outputs_only(random_outputs(space, 96), random_outputs(space, 24, seed=1), extra), context or Context())
    return made


def weights(made: ContrastiveSurrogate) -> Tensor:
    return torch.cat([tensor.flatten() for tensor in made.state().values()]).clone()


# -- negatives ----------------------------------------------------------------------------------------------------


def test_only_structures_with_other_keys_are_negatives(space):
    keys = space.keys(space.pack(["ab", "ba", "ab", ""]))
    assert different(keys, keys).int().tolist() == [[0, 1, 0, 1], [1, 0, 1, 1], [0, 1, 0, 1], [1, 1, 1, 0]]
    assert different(keys[1:3], keys).int().tolist() == [[1, 0, 1, 1], [0, 1, 0, 1]]


def test_keys_that_share_one_half_are_still_different():
    keys = torch.tensor([[1, 2], [1, 3], [2, 2]])
    assert different(keys, keys).sum() == 6


def test_a_batch_of_equal_structures_teaches_nothing(space):
    made = surrogate(space)
    before = weights(made)
    made.fit(outputs_only(space.pack(["ab"] * 64), space.pack(["a", "b"])), Context())
    torch.testing.assert_close(weights(made), before, rtol=0, atol=0)


def test_the_loss_in_training_never_sees_a_pair_of_equal_structures_as_negatives(space, monkeypatch):
    seen = []

    def spy(_: Any, anchors: Tensor, views: Tensor, negative: Tensor, first: int = 0) -> Tensor:
        seen.append(negative)
        return (anchors - views[first : first + len(anchors)]).square().sum(dim=1)

    monkeypatch.setattr(contrastive.ContrastiveLoss, "__call__", spy)
    surrogate(space, training={"epochs": 1, "batch_size": 4}).fit(
        outputs_only(space.pack(["ab", "ab", "ba", "c"]), space.pack(["a", "b"])), Context()
    )
    in_training = [negative for negative in seen if len(negative) == 4]
    assert in_training
    assert all(int((~negative).sum()) == 6 for negative in in_training)


# -- where things lie ---------------------------------------------------------------------------------------------


def test_embeddings_lie_on_the_unit_sphere(space):
    embedded = fitted(space).embed(random_outputs(space, 50))
    assert embedded.shape == (50, 6)
    torch.testing.assert_close(embedded.norm(dim=1), torch.ones(50))
    assert not embedded.requires_grad


def test_no_structures_embed_into_no_rows(space):
    assert surrogate(space).embed(space.pack([])).shape == (0, 6)


def test_embedding_in_chunks_changes_nothing(space, monkeypatch):
    made, outputs = surrogate(space), random_outputs(space, 23)
    whole = made.embed(outputs)
    monkeypatch.setattr(contrastive, "CHUNK", 5)
    torch.testing.assert_close(made.embed(outputs), whole)


def test_the_energy_at_a_vertex_is_the_energy_of_its_structure(space):
    made, outputs = surrogate(space), random_outputs(space, 20)
    queries = torch.randn(20, 6, generator=torch.Generator().manual_seed(0))
    at_points = made.energy(queries).at(space.relax(outputs)).detach()
    torch.testing.assert_close(at_points, made.energy(queries).of(outputs))
    all_pairs = made.energy(queries).among(Candidates(outputs, made.embed(outputs)))
    torch.testing.assert_close(at_points, all_pairs.diagonal(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_soft_points_stay_in_the_relaxed_set_and_move_at_most_their_share(space, share):
    made = surrogate(space, soft_points=share)
    vertices = space.relax(random_outputs(space, 200))
    soft = made._soften(vertices, torch.Generator().manual_seed(0))
    inside, reason = space.geometry["tokens"].contains(soft.tokens, explain=True)
    assert inside, reason
    moved = (soft.tokens - vertices.tokens).abs().amax(dim=(1, 2))
    assert moved.max() <= share + 1e-6
    assert (moved > 0).float().mean() > 0.2


@pytest.mark.parametrize(("share", "soft"), [(0.0, False), (0.5, True)])
def test_the_encoder_sees_soft_points_in_training_where_asked_and_vertices_in_evaluation(space, share, soft):
    made, seen = surrogate(space, soft_points=share), {True: [], False: []}
    made.encoder.register_forward_pre_hook(lambda module, inputs: seen[module.training].append(inputs[0].tokens))
    made.fit(outputs_only(random_outputs(space, 96), random_outputs(space, 24, seed=1)), Context())
    is_soft = {mode: any(bool(((p > 0) & (p < 1)).any()) for p in points) for mode, points in seen.items()}
    assert is_soft == {True: soft, False: False}


def test_without_soft_points_vertices_are_left_alone(space):
    point = space.relax(random_outputs(space, 5))
    assert surrogate(space)._soften(point, torch.Generator()) is point


@pytest.mark.parametrize("encoder", [{"name": "flat", "width": 7, "layers": 2}, {"name": "sequence", "width": 5}])
def test_the_gradient_in_the_relaxed_input_agrees_with_finite_differences(space, encoder):
    made = surrogate(space, encoder=encoder)
    made.encoder.double()
    generator = torch.Generator().manual_seed(0)
    tokens = space.geometry["tokens"].sample(3, generator, torch.float64).requires_grad_(True)
    queries = torch.randn(3, 6, generator=generator, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda tokens: made.energy(queries).at(Tokens(tokens)), (tokens,))


# -- training -----------------------------------------------------------------------------------------------------


def test_training_lowers_the_validation_loss_and_keeps_the_lowest(space):
    recorder, validation = Recorder(), random_outputs(space, 24, seed=1)
    fresh = Views(surrogate(space), validation, Context()).evaluate()["validation_loss"]
    made = fitted(space, Context(monitor=recorder), training={"epochs": 20})
    losses = recorder.values("embedding", "validation_loss")
    assert min(losses) < 0.85 * fresh
    after = Views(made, validation, Context()).evaluate()["validation_loss"]
    assert math.isclose(after, min(losses), rel_tol=1e-5)


def test_validation_views_are_drawn_once_and_follow_the_seed(space):
    made, validation = surrogate(space), random_outputs(space, 24)
    views = Views(made, validation, Context(seed=1))
    assert views.evaluate() == views.evaluate()
    assert views.evaluate() == Views(made, validation, Context(seed=1)).evaluate()
    assert views.evaluate() != Views(made, validation, Context(seed=2)).evaluate()


def test_evaluating_in_chunks_changes_nothing(space, monkeypatch):
    views = Views(surrogate(space), random_outputs(space, 23), Context())
    whole = views.evaluate()
    monkeypatch.setattr(contrastive, "CHUNK", 5)
    assert views.evaluate() == pytest.approx(whole, rel=1e-5)


def test_pre_training_runs_its_steps_on_the_extra_outputs_and_then_fine_tunes(space, monkeypatch):
    recorder, rows = Recorder(), []
    original = SequenceSpace.augment
    monkeypatch.setattr(SequenceSpace, "augment", lambda *args: rows.append(args[1]) or original(*args))
    extra = space.pack(["cc", "ccc", "c", "cccc"])
    fitted(space, Context(monitor=recorder), extra=extra, pretraining_steps=5, training={"epochs": 2})
    assert recorder.steps("pretraining")[-1] == 5
    assert recorder.steps("embedding")[-1] == 6
    assert recorder.stages() == ["pretraining", "embedding"]
    batches = rows[1:]  # the first are the validation views
    assert all(set(batch.tokens.unique().tolist()) <= {0, 3} for batch in batches[:5])
    assert all(batch.tokens.unique().numel() == 4 for batch in batches[5:])


def test_pre_training_changes_where_fine_tuning_ends(space):
    extra = random_outputs(space, 64, seed=9)
    with_extra = weights(fitted(space, extra=extra, pretraining_steps=5))
    assert not torch.equal(with_extra, weights(fitted(space)))


@pytest.mark.parametrize("options", [{"pretraining_steps": 0}, {}])
def test_extra_outputs_without_steps_change_nothing(space, options):
    extra = random_outputs(space, 64, seed=9)
    assert torch.equal(weights(fitted(space, extra=extra, **options)), weights(fitted(space)))


@pytest.mark.parametrize(
    "options",
    [{}, {"soft_points": 0.5}, {"mining": {"group": 4, "refresh": 2}}, {"encoder": {"name": "sequence", "width": 8}}],
)
def test_the_same_seed_gives_the_same_weights_and_another_gives_others(space, options):
    first = weights(fitted(space, Context(seed=3), **options))
    assert torch.equal(first, weights(fitted(space, Context(seed=3), **options)))
    assert not torch.equal(first, weights(fitted(space, Context(seed=4), **options)))


@pytest.mark.parametrize("loss", [{"member": "soft-triplet"}, {"epsilon": 0}, {"temperature": 0.01}])
def test_every_member_of_the_family_trains(space, loss):
    recorder = Recorder()
    made = fitted(space, Context(monitor=recorder), loss=loss, training={"epochs": 10, "batch_size": 95})
    losses = recorder.values("embedding", "loss")
    assert losses[-1] < losses[0]
    assert weights(made).isfinite().all()


# -- chunks -------------------------------------------------------------------------------------------------------


def gradient(made: ContrastiveSurrogate, outputs: Tokens) -> Tensor:
    views = made.space.augment(outputs, torch.Generator().manual_seed(2))
    made.encoder.zero_grad()
    made.losses(outputs, views, torch.Generator().manual_seed(3), Context()).mean().backward()
    return torch.cat([parameter.grad.flatten() for parameter in made.encoder.parameters()])


@pytest.mark.parametrize("chunk", [1, 7, 23, 100])
@pytest.mark.parametrize("options", [{}, {"spherical": False}, {"soft_points": 0.5}, {"loss": {"epsilon": 0}}])
def test_the_gradient_of_a_batch_is_the_same_in_chunks(space, chunk, options):
    outputs = random_outputs(space, 23)
    whole = gradient(surrogate(space, **options), outputs)
    assert whole.abs().max() > 0.01
    in_chunks = gradient(surrogate(space, chunk=chunk, **options), outputs)
    torch.testing.assert_close(in_chunks, whole, rtol=1e-4, atol=1e-6)


def test_a_step_encodes_no_more_structures_at_once_than_a_chunk_and_each_twice(space):
    made, seen = surrogate(space, chunk=5), []
    made.encoder.register_forward_pre_hook(lambda _, inputs: seen.append(len(inputs[0])))
    gradient(made, random_outputs(space, 23))
    assert max(seen) == 5
    assert sum(seen) == 2 * (23 + 23)  # structures and views, once for the loss and once for the gradient


def test_chunks_are_encoded_again_with_the_random_numbers_of_the_first_time(space):
    made, seen = surrogate(space, chunk=5), []

    def drop(_: Any, __: Any, encoded: Tensor) -> Tensor:
        seen.append(torch.nn.functional.dropout(encoded, 0.5))
        return seen[-1]

    made.encoder.register_forward_hook(drop)
    torch.manual_seed(0)
    gradient(made, random_outputs(space, 10))
    first, again = seen[:4], seen[4:]
    assert len(again) == 4
    assert all(any(torch.equal(one, other) for other in again) for one in first)


@pytest.mark.parametrize("options", [{}, {"mining": {"group": 4, "refresh": 2}}])
def test_training_in_chunks_ends_where_training_on_whole_batches_does(space, options):
    whole, in_chunks = (weights(fitted(space, chunk=chunk, **options)) for chunk in (None, 10))
    torch.testing.assert_close(in_chunks, whole, rtol=1e-2, atol=1e-3)


def test_the_state_brings_a_fresh_surrogate_to_the_same_embeddings(space):
    made, outputs = fitted(space), random_outputs(space, 10)
    other = surrogate(space, seed=5)
    assert not torch.equal(other.embed(outputs), made.embed(outputs))
    other.restore(made.state())
    assert torch.equal(other.embed(outputs), made.embed(outputs))
