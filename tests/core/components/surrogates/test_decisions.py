"""Training with the pairs: its loss, its regression without each pair, resuming, and when nothing is trained."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from linear import random_sequences, sequence_space
from recording import Memory, Recorder, Stopped
from torch import Tensor

from ele_core.components.inputs.text import TextInput
from ele_core.components.inputs.vector import VectorInput
from ele_core.components.sketching import median_distance
from ele_core.components.surrogates import decisions
from ele_core.components.surrogates.contrastive import ContrastiveSurrogate
from ele_core.components.surrogates.decisions import Decisions, linear_maps
from ele_core.runtime.context import Context
from ele_core.types import Pairs, TrainingData
from ele_sequences.number_words import spell
from ele_sequences.space import SequenceSpace

SPACE = SequenceSpace(SequenceSpace.Config(alphabet=tuple("0123456789"), length=3))
DECISIONS = {"epochs": 3, "batch_size": 48, "learning_rate": 3e-3, "evaluations": 3}
STEPS = 15
"""Three epochs of five batches."""


def number_words(count: int = 240, validation: int = 40) -> TrainingData:
    """Spelled numbers and their digits."""
    numbers = torch.randperm(1000, generator=torch.Generator().manual_seed(0))[: count + validation].tolist()
    inputs, words = TextInput(TextInput.Config(level="character")), [spell(number) for number in numbers]
    inputs.fit(words[:count])
    pairs = Pairs(inputs.pack(words), SPACE.pack([str(number) for number in numbers]))
    return TrainingData(inputs, pairs[:count], pairs[count:])


def surrogate(**options: Any) -> ContrastiveSurrogate:
    settings = {"dim": 24, "spherical": False, "training": None, "encoder": {"name": "contexts"}, **options}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return ContrastiveSurrogate(ContrastiveSurrogate.Config(**settings), SPACE)


def fitted(context: Context | None = None, data: TrainingData | None = None, **options: Any) -> ContrastiveSurrogate:
    made = surrogate(**{"decisions": DECISIONS, **options})
    made.fit(data or number_words(), context or Context())
    return made


def encoder_weights(made: ContrastiveSurrogate) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in made.encoder.state_dict().items()}


# -- training -----------------------------------------------------------------------------------------------------


def test_training_on_decisions_lessens_their_loss_on_validation_pairs():
    recorder, data = Recorder(), number_words()
    untrained = fitted(data=data, decisions=None)
    with torch.no_grad():
        before = Decisions(untrained, data, 3000, Context()).validation_loss()
    fitted(Context(monitor=recorder), data)
    assert recorder.stages() == ["decisions"]
    assert recorder.steps("decisions") == [5, 10, 15]
    losses = recorder.values("decisions", "validation_loss")
    assert losses == sorted(losses, reverse=True)
    assert losses[0] < before
    assert losses[-1] < 0.9 * before


def test_the_trained_embedding_has_a_spread_of_one_and_other_weights():
    made, data = fitted(), number_words()
    before, after = encoder_weights(surrogate()), encoder_weights(made)
    assert any(not torch.equal(value, before[name]) for name, value in after.items())
    embedded = made.embed(data.train.outputs)
    assert float((embedded - embedded.mean(0)).square().sum(1).mean()) == pytest.approx(1, abs=1e-4)


def test_more_pairs_than_the_option_says_are_not_used():
    data = number_words()
    problem = Decisions(fitted(decisions=None), data, 210, Context())
    assert (len(problem.truths), len(problem.held_out)) == (210, 40)
    assert tuple(problem.left_out.shape) == (210, 210)
    assert tuple(problem.predicting.shape) == (40, 210)
    (stage,) = surrogate(decisions={**DECISIONS, "pairs": 210}).planned(240, 0)
    assert (stage.name, stage.steps) == ("decisions", 15)


def test_rivals_are_moves_of_the_truths_and_not_the_truths():
    problem = Decisions(fitted(decisions=None), number_words(), 3000, Context())
    row, rank = (problem.places >= 0).nonzero().unbind(1)
    rivals = problem.rivals[problem.places[row, rank]]
    keys, truths = SPACE.keys(rivals), SPACE.keys(problem.truths)
    assert (keys != truths[row]).any(dim=1).all()
    assert len(torch.cat([row[:, None], keys], dim=1).unique(dim=0)) == len(row), "each once"
    moved, of = SPACE.moves.list(problem.truths)
    reached = {tuple(each) for each in torch.cat([of[:, None], SPACE.keys(moved)], dim=1).tolist()}
    assert {tuple(each) for each in torch.cat([row[:, None], keys], dim=1).tolist()} <= reached
    assert (problem.places >= 0).sum(dim=1).min() == decisions.RIVALS


def test_the_loss_is_the_cross_entropy_of_the_truths_among_their_rivals_and_those_of_the_batch():
    made = fitted(decisions=None)
    problem, rows = Decisions(made, number_words(), 3000, Context()), torch.tensor([3, 77, 200])
    embedded = made.embed(problem.truths)
    queries = problem.left_out @ embedded
    with torch.no_grad():
        found = problem.loss(rows)
    for place, row in enumerate(rows.tolist()):
        structures = [problem.truths[row : row + 1], problem.rivals[problem.places[row]]]
        structures += [problem.truths[other : other + 1] for other in rows.tolist() if other != row]
        missing = queries[row] - problem.errors.expected(made.embed(type(problem.truths).cat(structures)))
        energies = (missing @ problem.errors.root.T).square().sum(dim=1)
        expected = -torch.log_softmax(-decisions.SHARPNESS * energies, dim=0)[0]
        assert found[place].item() == pytest.approx(expected.item(), rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("steps", [1, 6, STEPS])
def test_a_stopped_training_goes_on_to_the_same_bits(steps):
    undisturbed, work = fitted(), Memory(stop_after=steps)
    with pytest.raises(Stopped):
        fitted(Context(work=work))
    resumed = Memory(work.kept)
    again = fitted(Context(work=resumed))
    assert resumed.steps == STEPS - steps
    state, expected = again.state(), undisturbed.state()
    assert state.keys() == expected.keys()
    assert all(torch.equal(state[name], value) for name, value in expected.items())


def test_a_finished_training_is_not_repeated():
    work = Memory()
    undisturbed = fitted(Context(work=work))
    resumed, recorder = Memory(work.kept), Recorder()
    again = fitted(Context(work=resumed, monitor=recorder))
    assert (resumed.steps, recorder.rows) == (0, [])
    assert all(torch.equal(again.state()[name], value) for name, value in undisturbed.state().items())


# -- no training ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("pairs", "spherical"), [(199, False), (240, True)])
def test_nothing_is_trained_with_few_pairs_or_on_the_sphere(pairs, spherical):
    recorder, work = Recorder(), Memory()
    made = fitted(Context(monitor=recorder, work=work), number_words(pairs), spherical=spherical)
    before = encoder_weights(surrogate(spherical=spherical))
    assert all(torch.equal(value, before[name]) for name, value in encoder_weights(made).items())
    assert (recorder.rows, work.steps) == ([], 0)
    assert made.planned(pairs, 0) == []
    assert [stage.name for stage in surrogate(decisions=DECISIONS).planned(200, 0)] == ["decisions"]


# -- the regression -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("penalty", [1e-1, 1e-3])
def test_predictions_for_pairs_left_out_are_those_of_regressions_without_them(penalty, monkeypatch):
    monkeypatch.setattr(decisions, "PENALTIES", (penalty,))
    count, values = 20, np.random.default_rng(0).normal(size=(26, 4))
    inputs, outputs = VectorInput(), random_sequences(sequence_space(), 26)
    inputs.fit(values)
    pairs = Pairs(inputs.pack(values), outputs)
    data = TrainingData(inputs, pairs[:count], pairs[count:])
    embeddings = torch.randn(count, 6, generator=torch.Generator().manual_seed(0))
    left_out, predicting = linear_maps(data.train.inputs, data, embeddings, Context())

    points = inputs.features(pairs.inputs).times(torch.eye(4)).double()
    width = median_distance(points[:count] @ points[:count].T)
    kernel = (-torch.cdist(points, points).square() / (2 * width**2)).exp()
    targets, penalised = embeddings.double(), kernel[:count, :count] + count * penalty * torch.eye(count)
    for row in range(count):
        kept = torch.arange(count) != row
        expected = kernel[row, :count][kept] @ torch.linalg.solve(penalised[kept][:, kept], targets[kept])
        torch.testing.assert_close((left_out[row] @ embeddings).double(), expected, rtol=0, atol=1e-3)
    assert left_out.diagonal().abs().max() < 1e-6, "the pair itself has no part in it"
    expected = kernel[count:, :count] @ torch.linalg.solve(penalised, targets)
    torch.testing.assert_close((predicting @ embeddings).double(), expected, rtol=0, atol=1e-3)


def test_the_penalty_of_least_error_for_pairs_left_out_is_taken(monkeypatch):
    data = number_words(60, 5)
    embeddings = fitted(data=data).embed(data.train.outputs)
    tried = {}
    for penalty in decisions.PENALTIES:
        with monkeypatch.context() as patch:
            patch.setattr(decisions, "PENALTIES", (penalty,))
            alone, _ = linear_maps(data.train.inputs, data, embeddings, Context())
            tried[penalty] = float((alone @ embeddings - embeddings).square().mean())
    assert len(tried) == 8
    found, _ = linear_maps(data.train.inputs, data, embeddings, Context())
    assert float((found @ embeddings - embeddings).square().mean()) == pytest.approx(min(tried.values()), rel=1e-5)
    assert min(tried.values()) < 0.9 * max(tried.values())
