"""Broken components other than output spaces: each is caught by exactly the check that should catch it."""

from __future__ import annotations

import broken_decoders
import broken_learners as broken
import pytest
import torch
from broken_spaces import Plain, small

from ele_core.components.backbones.mlp import MLPBackbone
from ele_core.components.inputs.text import TextInput
from ele_core.components.inputs.vector import VectorInput
from ele_core.testing import (
    LinearSurrogate,
    check_backbone,
    check_decoder,
    check_encoder,
    check_input_space,
    check_regressor,
    check_surrogate,
    check_task,
    sample_problem,
)
from ele_graphs.graphs.networkx_space import PaddedGraphSpace
from ele_sequences.number_words import NumberWords


def failed(results):
    assert all(result.explanation for result in results if result.status == "skipped")
    return {result.name for result in results if result.status == "failed"}


def every(table):
    return pytest.mark.parametrize(("cls", "check"), table.items(), ids=lambda value: getattr(value, "__name__", ""))


@pytest.fixture
def vectors():
    inputs = VectorInput()
    inputs.fit(inputs.examples())
    return inputs


def build(cls, *arguments):
    torch.manual_seed(0)
    return cls(None, *arguments)


@every({broken.PlainEncoder: None, **broken.ENCODERS})
def test_a_broken_encoder_is_caught_by_its_check_alone(cls, check):
    space = small(Plain)
    assert failed(check_encoder(build(cls, space, 5), space)) == ({check} - {None})


def test_an_encoder_that_claims_an_invariance_is_held_to_it():
    space = PaddedGraphSpace(PaddedGraphSpace.Config(node_labels=("a", "b"), max_nodes=4))
    assert failed(check_encoder(build(broken.ClaimsInvariance, space, 5), space)) == {"check_encoder_is_invariant"}


@every({TextInput: None, VectorInput: None, **broken.INPUTS})
def test_a_broken_input_space_is_caught_by_its_check_alone(cls, check):
    assert failed(check_input_space(cls())) == ({check} - {None})


def test_missing_examples_are_asked_for_in_one_sentence():
    (result,) = (result for result in check_input_space(broken.HasNoExamples()) if result.status == "failed")
    assert result.explanation == (
        "HasNoExamples has no examples: write the method `examples`, which returns a few inputs"
    )


@every({MLPBackbone: None, **broken.BACKBONES})
def test_a_broken_backbone_is_caught_by_its_check_alone(vectors, cls, check):
    assert failed(check_backbone(build(cls, vectors, 5), vectors)) == ({check} - {None})


@every({broken.LearnedSurrogate: None, **broken.SURROGATES})
def test_a_broken_surrogate_is_caught_by_its_check_alone(cls, check):
    assert failed(check_surrogate(cls(None, small(Plain)))) == ({check} - {None})


@every({broken.PlainRegressor: None, **broken.REGRESSORS})
def test_a_broken_regressor_is_caught_by_its_check_alone(vectors, cls, check):
    surrogate = LinearSurrogate(None, small(Plain))
    assert failed(check_regressor(cls(None, vectors, surrogate))) == ({check} - {None})


@every({broken_decoders.Plain: None, broken_decoders.Tracing: None, **broken_decoders.DECODERS})
def test_a_broken_decoder_is_caught_by_its_check_alone(cls, check):
    assert failed(check_decoder(cls(), sample_problem(small(Plain)))) == ({check} - {None})


class Overlapping(NumberWords):
    def load(self, space, context):
        import dataclasses

        data = super().load(space, context)
        return dataclasses.replace(data, test=data.train[:5])


class Unseeded(NumberWords):
    def load(self, space, context):
        import dataclasses
        import uuid

        return dataclasses.replace(super().load(space, context), fingerprint=uuid.uuid4().hex)


@every({NumberWords: None, Overlapping: "check_task_splits_are_apart", Unseeded: "check_task_is_seeded"})
def test_a_broken_task_is_caught_by_its_check_alone(cls, check):
    task = cls(cls.Config(size=60, validation=10, test=10))
    assert failed(check_task(task)) == ({check} - {None})


def test_at_least_forty_broken_components_are_tried():
    from broken_spaces import CAUGHT_BY

    tables = (broken.ENCODERS, broken.INPUTS, broken.BACKBONES, broken.SURROGATES, broken.REGRESSORS)
    assert sum(map(len, (CAUGHT_BY, broken_decoders.DECODERS, *tables))) >= 90
