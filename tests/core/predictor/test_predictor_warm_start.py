"""`warm_start`: a training that starts from the weights of another model."""

from __future__ import annotations

import pytest
import torch
from quick import QUICK, quick

from ele_core import ConfigError, EleError, InvalidOutput, Run, StructuredPredictor
from ele_core.errors import ModelError
from ele_sequences.number_words import draw, spell

STILL = {"epochs": 1, "evaluations": 1, "learning_rate": 1e-12}
"""A training that moves no weight by more than a rounding error."""


def still(**changes):
    return quick(**{"regressor": {**QUICK["regressor"], "training": STILL}, **changes})


def energies(predictor, texts):
    return predictor.decode(texts, candidates=["1", "20", "300"], top_k=3).decoding.energies


@pytest.fixture(scope="module")
def donor(pairs):
    return quick(seed=5).fit(*pairs)


def same(left, right, texts):
    return torch.allclose(energies(left, texts), energies(right, texts), atol=1e-4)


@pytest.mark.parametrize("given", ["predictor", "folder", "run", "run folder"])
def test_a_training_starts_from_the_weights_of_a_model_wherever_it_is(donor, pairs, tmp_path, given):
    if given == "folder":
        donor.save(tmp_path / "saved")
    if given.startswith("run"):
        quick(seed=5).fit(*pairs, run=tmp_path / "run")
    run = tmp_path / "run"
    source = {"predictor": donor, "folder": tmp_path / "saved", "run folder": str(run)}.get(given) or Run(run)
    started = still().fit(pairs[0][:60], pairs[1][:60], warm_start=source)
    assert same(started, donor, pairs[0])
    assert len(started.model_.candidates) >= len(donor.model_.candidates), "those of the model stay"
    assert not same(still().fit(pairs[0][:60], pairs[1][:60]), donor, pairs[0])


def test_the_training_goes_on_and_leaves_the_other_model_as_it_is(donor, pairs):
    before = energies(donor, pairs[0])
    started = quick().fit(*pairs, warm_start=donor)
    assert not torch.equal(energies(started, pairs[0]), before)
    assert torch.equal(energies(donor, pairs[0]), before)


def test_labels_sizes_and_vocabulary_are_those_of_the_other_model(donor):
    started = still().fit(["one", "two", "zzz"] * 5, ["1", "2", "3"] * 5, warm_start=donor)
    assert started.model_.space.config == donor.model_.space.config
    assert started.model_.inputs.vocabulary_size == donor.model_.inputs.vocabulary_size


def test_another_regressor_starts_from_new_weights_on_the_same_embedding(donor, pairs):
    started = still().set_params(regressor__backbone__width=6).fit(*pairs, warm_start=donor)
    assert started.embed(pairs[1]) == pytest.approx(donor.embed(pairs[1]), abs=1e-4)
    assert not same(started, donor, pairs[0])


def test_another_input_learns_its_own_vocabulary(donor, pairs):
    words = {"name": "text", "level": "regex", "pattern": r"\w+"}
    started = still(input=words).fit(*pairs, warm_start=donor)
    assert started.model_.inputs.vocabulary_size != donor.model_.inputs.vocabulary_size
    assert started.embed(pairs[1]) == pytest.approx(donor.embed(pairs[1]), abs=1e-4)


def test_it_is_told_what_the_training_starts_from(donor, pairs):
    from recording import Recorder

    kept = "starting from a fitted predictor: its output space and its loss, as they are"
    for width, told in [
        (4, ", its input space, and its regressor, which is trained further"),
        (6, ", and its input space; the regressor is another, and is trained anew"),
    ]:
        recorder = Recorder()
        predictor = still(callbacks=[recorder]).set_params(regressor__backbone__width=width)
        predictor.fit(*pairs, warm_start=donor)
        assert kept + told in recorder.messages


def test_what_is_not_given_is_that_of_the_model(donor, pairs):
    started = StructuredPredictor("sequence").fit(*pairs, warm_start=donor).model_.config
    assert (started.surrogate, started.decoder) == (donor.model_.config.surrogate, donor.model_.config.decoder)
    assert started.regressor.options["backbone"] == donor.model_.config.regressor.options["backbone"]
    training = started.regressor.options["training"]
    assert (training["learning_rate"], training["patience"]) == (2e-4, 5), "it goes on gently"


def test_inputs_that_the_model_does_not_know_get_a_regressor_of_their_own(donor):
    from recording import Recorder

    recorder = Recorder()
    numbers = [str(number) for number in range(40)]
    started = still(callbacks=[recorder]).fit([f"<{number}>" for number in numbers], numbers, warm_start=donor)
    assert started.model_.inputs is not donor.model_.inputs
    assert any("the inputs are of another kind, so the regressor is trained anew" in told for told in recorder.messages)
    assert started.embed(["12"]) == pytest.approx(donor.embed(["12"]))


def test_errors_that_the_model_measured_on_more_pairs_stay():
    numbers = draw(260, seed=1)
    texts, digits = [spell(number) for number in numbers], [str(number) for number in numbers]
    weighing = {**QUICK["regressor"], "weigh_errors": True}
    first = quick(regressor=weighing).fit(texts, digits)
    first.model_.regressor.use_mode("weighted")
    again = quick(regressor=weighing).fit(texts[:30], digits[:30], warm_start=first)
    assert torch.equal(again.model_.regressor.measured.root, first.model_.regressor.measured.root)
    more = quick(regressor=weighing).fit(texts[:220], digits[:220], warm_start=first)
    assert not torch.equal(more.model_.regressor.measured.root, first.model_.regressor.measured.root)


def test_outputs_of_the_new_pairs_are_candidates_beside_those_of_the_model(donor):
    started = still().fit(["one", "two", "three"] * 5, ["1", "2", "3"] * 5, warm_start=donor)
    known, found = (set(each.model_.space.unpack(each.model_.candidates.batch)) for each in (donor, started))
    assert found == known | {"1", "2", "3"}


def test_a_regressor_that_is_computed_at_once_is_fitted_anew_on_the_same_loss(pairs):
    from recording import Recorder

    recorder = Recorder()
    first = quick(regressor="sketched-ridge").fit(*pairs)
    again = quick(regressor="sketched-ridge", callbacks=[recorder]).fit(pairs[0][:60], pairs[1][:60], warm_start=first)
    assert any("takes no starting weights, and is fitted anew" in told for told in recorder.messages)
    assert again.embed(pairs[1]) == pytest.approx(first.embed(pairs[1]))


def test_the_argument_true_starts_from_the_last_fit(pairs):
    predictor = quick(warm_start=True).fit(*pairs)
    plain = quick().fit(*pairs)
    assert torch.equal(energies(predictor, pairs[0]), energies(plain, pairs[0])), "the first fit starts afresh"
    first = energies(predictor, pairs[0])
    predictor.set_params(regressor__training=STILL).fit(*pairs)
    assert torch.allclose(energies(predictor, pairs[0]), first, atol=1e-4)


def test_a_folder_as_argument_is_kept_by_clones(donor, pairs, tmp_path):
    from sklearn.base import clone

    donor.save(tmp_path)
    assert same(clone(still(warm_start=str(tmp_path))).fit(*pairs), donor, pairs[0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"output": "molecule"}, "its output is 'sequence', not 'molecule'"),
        ({"output": {"name": "sequence", "length": 9}}, "its output differs: output.length: 6 → 9"),
        ({"surrogate": {**QUICK["surrogate"], "dim": 5}}, "its surrogate differs: surrogate.dim: 4 → 5"),
        ({"surrogate": "sketched-kernel"}, "its surrogate is 'contrastive', not 'sketched-kernel'"),
    ],
)
def test_a_model_of_other_spaces_is_refused_in_one_sentence(donor, pairs, changes, message):
    outputs = ["CC"] * len(pairs[0]) if changes.get("output") == "molecule" else pairs[1]
    with pytest.raises(ConfigError, match=f"a fitted predictor: cannot start from this model: {message}"):
        quick(**changes).fit(pairs[0], outputs, warm_start=donor)


def test_an_output_outside_the_space_of_the_other_model_is_named(donor, pairs):
    outputs = [*pairs[1][:4], "x", *pairs[1][5:]]
    with pytest.raises(InvalidOutput, match=r"output 4: 'x' holds 'x'.*in the spaces of the model to start from"):
        quick().fit(pairs[0], outputs, warm_start=donor)


def test_what_is_no_model_is_refused(pairs, tmp_path):
    with pytest.raises(ConfigError, match="warm_start: got int; give a fitted StructuredPredictor, a Run"):
        quick().fit(*pairs, warm_start=3)
    with pytest.raises(ModelError, match="there is no model here"):
        quick().fit(*pairs, warm_start=tmp_path)
    with pytest.raises(EleError, match="not fitted yet"):
        quick().fit(*pairs, warm_start=quick())


def test_a_run_continues_only_from_the_same_start(donor, pairs, tmp_path):
    run = tmp_path / "run"
    first = quick().fit(*pairs, run=run, warm_start=donor)
    assert torch.equal(energies(quick().fit(*pairs, run=run, warm_start=donor), pairs[0]), energies(first, pairs[0]))
    for other in (None, quick(seed=6).fit(*pairs)):
        with pytest.raises(ModelError, match=r"the configuration has changed: start"):
            quick().fit(*pairs, run=run, warm_start=other)
