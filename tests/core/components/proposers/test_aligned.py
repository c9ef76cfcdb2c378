"""Joint n-grams as a proposer: writes, scores, is restored, and declines pairs that do not align."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from linear import given_pairs
from recording import Recorder

from ele_core import TextInput
from ele_core.components.inputs.vector import VectorInput
from ele_core.components.proposers.aligned import JointNgramProposer
from ele_core.errors import ConfigError, ModelError
from ele_core.numerics.keys import ranks
from ele_core.runtime.context import Context
from ele_sequences.space import SequenceSpace

MEANT = {"a": "A", "b": "BE", "c": "", "d": "D"}


def words(count: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return ["".join(draw.choices("abcd", k=draw.randint(2, 6))) for _ in range(count)]


def spoken(word: str) -> str:
    return "".join(MEANT[letter] for letter in word) or "D"


def fitted(inputs: list[str], outputs: list[str], monitor: Recorder | None = None) -> tuple[JointNgramProposer, Any]:
    texts = TextInput()
    texts.fit(inputs)
    options = SequenceSpace.Texts.infer(outputs, {})
    objects = [SequenceSpace.Texts(SequenceSpace, dict(options)).parse(text) for text in outputs]
    space = SequenceSpace(SequenceSpace.infer(objects, options))
    packed = texts.pack(inputs), space.pack(objects)
    made = JointNgramProposer(None, texts, space)
    made.fit(given_pairs(packed, packed), Context(monitor=monitor) if monitor else Context())
    return made, packed


def test_new_inputs_get_their_outputs_first() -> None:
    train = words(200)
    made, _ = fitted(train, [spoken(word) for word in train])
    new = [word for word in words(60, seed=1) if word not in train and word.strip("c")]
    asked = made.inputs.pack(new)
    energy = made.energy(made.predict(asked))
    found = energy.proposals(5)
    assert found is not None
    first = ranks(found.owner) == 0
    answers = made.texts(found.batch[first.nonzero().flatten()])
    assert found.owner[first].tolist() == list(range(len(new)))
    assert sum(a == spoken(word) for a, word in zip(answers, new, strict=True)) > 0.9 * len(new)
    energies = energy.of(found.batch, found.owner)
    steps = energies.diff()[found.owner.diff() == 0]
    assert (steps >= 0).all()
    assert energy.costly


def test_a_restored_proposer_gives_the_same_bits() -> None:
    train = words(100)
    made, (inputs, outputs) = fitted(train, [spoken(word) for word in train])
    other = JointNgramProposer(None, made.inputs, made.space)
    other.restore({name: tensor.clone() for name, tensor in made.state().items()})
    queries = made.predict(inputs)
    assert torch.equal(other.predict(inputs), queries)
    assert torch.equal(other.energy(queries).of(outputs), made.energy(queries).of(outputs))
    left, right = made.energy(queries).proposals(4), other.energy(queries).proposals(4)
    assert left is not None
    assert right is not None
    assert torch.equal(made.space.keys(left.batch), made.space.keys(right.batch))


def test_a_damaged_state_is_refused() -> None:
    train = words(60)
    made, _ = fitted(train, [spoken(word) for word in train])
    state = made.state()
    state["member0.shorter"] = state["member0.shorter"] + 1
    with pytest.raises(ModelError, match="damaged"):
        JointNgramProposer(None, made.inputs, made.space).restore(state)


def declined(inputs: list[str], outputs: list[str], reason: str) -> None:
    monitor = Recorder()
    made, (packed, _) = fitted(inputs, outputs, monitor)
    assert [message for message in monitor.messages if reason in message] == monitor.messages
    assert len(monitor.messages) == 1
    assert made.predict(packed).shape == (len(inputs), 0)
    other = JointNgramProposer(None, made.inputs, made.space)
    other.restore(made.state())
    assert other.predict(packed).shape[1] == 0


def test_outputs_too_long_for_their_inputs_are_declined() -> None:
    train = words(40)
    declined(train, [5 * word for word in train], "too long")


def test_units_that_never_come_again_are_declined() -> None:
    draw = random.Random(0)
    letters = [chr(0x4E00 + number) for number in range(2000)]
    inputs = ["".join(draw.choices(letters, k=3)) for _ in range(30)]
    outputs = ["".join(draw.choices(letters, k=3)) for _ in range(30)]
    declined(inputs, outputs, "do not come up together again")


def test_inputs_without_tokens_are_refused() -> None:
    inputs = VectorInput()
    inputs.fit([[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(ConfigError, match="not texts"):
        JointNgramProposer(None, inputs, None)
