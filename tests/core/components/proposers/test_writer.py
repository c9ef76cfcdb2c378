"""The network that writes structures: its tokens, its search, its scores, saving and resuming."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from recording import Memory, Recorder, Stopped

from ele_core.components.inputs.text import TextInput
from ele_core.components.proposers import writer as module
from ele_core.components.proposers.rows import Rows
from ele_core.components.proposers.texts import END, UNKNOWN, Alphabet
from ele_core.components.proposers.writer import WriterProposer, beam_search
from ele_core.errors import ModelError
from ele_core.runtime.context import Context
from ele_core.types import Pairs, TrainingData
from ele_sequences.space import SequenceSpace

INPUTS = ["a b", "b a", "c", "a c c", "b", "c a b"]
OUTPUTS = ["ab", "ba", "c", "acc", "b", "cab"]


def writer(**options: Any) -> WriterProposer:
    inputs = TextInput()
    inputs.fit(INPUTS)
    space = SequenceSpace(SequenceSpace.Config(alphabet=tuple("abc"), length=4))
    usual = {
        "backbone": {"name": "gru", "embedding": 4, "layers": 1, "width": 4},
        "width": 8,
        "embedding": 4,
        "training": {"epochs": 4, "batch_size": 4, "evaluations": 2},
    }
    torch.manual_seed(0)
    return WriterProposer(WriterProposer.Config(**{**usual, **options}), inputs, space)


def pairs(made: WriterProposer, outputs: list[str] = OUTPUTS) -> TrainingData:
    packed = Pairs(made.inputs.pack(INPUTS), made.space.pack(outputs))
    return TrainingData(made.inputs, packed, packed)


def fitted(context: Context | None = None, **options: Any) -> WriterProposer:
    made = writer(**options)
    made.fit(pairs(made), context or Context())
    return made


@given(st.lists(st.text(max_size=8), min_size=1, max_size=6), st.sampled_from(["auto", "words", "characters"]))
def test_texts_come_back_from_their_tokens_and_tokens_from_their_bytes(texts, level):
    alphabet = Alphabet.from_tensor(Alphabet.learned(texts, level).as_tensor())
    assert alphabet.names == Alphabet.learned(texts, level).names
    assert alphabet.decode(alphabet.encode(texts)) == texts


def test_words_are_tokens_if_they_come_up_again_and_again():
    assert Alphabet.learned(["one two", "two one two"] * 9, "auto").names[2:] == ["two", "one"]
    assert Alphabet.learned(["ab", "ba"], "auto").names[2:] == ["a", "b"]
    assert Alphabet.learned(["x1 x2", "x3 x4"], "auto").between == "", "words that come up once are not learned"


def test_tokens_outside_the_vocabulary_are_unknown():
    assert Alphabet(["a", "b"], "").encode(["abz"]).tolist() == [[2, 3, UNKNOWN, END]]


@pytest.mark.parametrize("stored", [torch.zeros(3), torch.tensor([9, 9], dtype=torch.uint8)])
def test_damaged_tokens_are_refused(stored):
    with pytest.raises(ModelError, match="tokens of a proposer are damaged"):
        Alphabet.from_tensor(stored)


@pytest.mark.parametrize("copying", [True, False])
def test_a_wide_beam_finds_what_trying_all_texts_finds(copying):
    made = fitted(copying=copying)
    assert made.network is not None
    symbols, longest = range(2, len(made.alphabet.names)), 2
    every = [word for length in range(longest + 1) for word in itertools.product(symbols, repeat=length)]
    batch = made.inputs.pack(INPUTS[:3])
    found, owner = beam_search(made.network, batch, len(every), longest)
    for row in range(3):
        tokens = torch.tensor([[*word, *[END] * (longest + 1 - len(word))] for word in every])
        one = made.inputs.pack([INPUTS[row]] * len(every))
        with torch.no_grad():
            values = made.network.loss(one, tokens)
        best = [list(every[place]) for place in values.argsort().tolist()]
        assert [[token for token in text if token != END] for text in found[owner == row].tolist()] == best


def test_a_score_is_the_sum_of_the_log_probabilities_of_its_tokens():
    made = fitted()
    network, energy = made.network, made.energy(made.predict(made.inputs.pack(INPUTS)))
    assert network is not None
    for row, text in enumerate(OUTPUTS):
        memory = network.read(made.inputs.pack([INPUTS[row]]))
        state, before, total = network.begin(memory), END, 0.0
        for token in made.alphabet.encode([text])[0].tolist():
            with torch.no_grad():
                found, state = network.step(memory, torch.tensor([[before]]), state)
            total, before = total - float(found[0, 0, token]), token
        scored = energy.of(made.space.pack([text]), torch.tensor([row]))
        assert float(scored) == pytest.approx(total, rel=1e-4)


def test_tokens_are_copied_if_inputs_have_tokens_of_the_same_names():
    learned, plain = fitted().network, fitted(copying=False).network
    assert learned is not None
    assert plain is not None
    assert learned.copied is not None
    assert plain.copied is None
    names = fitted().alphabet.names
    copied = {name: names[token] for name, token in zip(writer().inputs.names, learned.copied.tolist(), strict=True)}  # type: ignore[attr-defined]
    assert {name: copied[name] for name in "abc"} == {"a": "a", "b": "b", "c": "c"}
    with torch.no_grad():
        learned.gate.weight.zero_()
        learned.gate.bias.fill_(20.0)  # write nothing, copy everything
        found, _ = learned.step(
            (memory := learned.read(writer().inputs.pack(["c"]))), torch.tensor([[END]]), learned.begin(memory)
        )
    assert float(found.exp()[0, 0, names.index("c", 2)]) == pytest.approx(1, abs=1e-4)


def test_long_texts_are_not_written_and_one_message_says_so(monkeypatch):
    monkeypatch.setattr(module, "LONGEST", 2)
    recorder = Recorder()
    made = fitted(Context(monitor=recorder))
    assert [text for text in recorder.messages if "no proposals" in text] == [
        "no proposals by the network that writes: structures are written with up to 3 tokens, and 2 is the limit"
    ]
    assert made.predict(made.inputs.pack(INPUTS)).shape == (len(INPUTS), 0)
    assert made.state() == {}


def test_texts_that_cannot_be_read_are_dropped():
    made = fitted()
    found = made.proposed(["ab", "xyz", "abcabc", "c", "ab"], torch.tensor([0, 0, 1, 2, 0]))
    assert made.space.unpack(found.batch) == ["ab", "c"]
    assert found.owner.tolist() == [0, 2]


def test_a_restored_writer_gives_the_same_bits():
    made = fitted()
    torch.manual_seed(99)
    other = writer()
    other.restore(dict(sorted(made.state().items())))
    energies = [each.energy(each.predict(each.inputs.pack(INPUTS))) for each in (made, other)]
    first, second = (energy.proposals(4) for energy in energies)
    assert torch.equal(first.owner, second.owner)
    assert torch.equal(first.batch.tokens, second.batch.tokens)
    assert torch.equal(*(energy.of(first.batch, first.owner) for energy in energies))


def test_the_first_weights_depend_on_the_seed_alone():
    torch.manual_seed(1)
    first = fitted(Context(3)).state()
    made = writer()
    torch.manual_seed(2)
    made.fit(pairs(made), Context(3))
    assert all(torch.equal(value, made.state()[name]) for name, value in first.items())
    made.fit(pairs(made), Context(4))
    assert any(not torch.equal(value, made.state()[name]) for name, value in first.items())


@pytest.mark.parametrize("stop_after", [1, 5])
def test_a_resumed_training_gives_the_same_bits(stop_after):
    whole, work = fitted().state(), Memory(stop_after=stop_after)
    with pytest.raises(Stopped):
        fitted(Context(work=work))
    resumed = fitted(Context(work=Memory(work.kept))).state()
    assert whole.keys() == resumed.keys()
    assert all(torch.equal(value, resumed[name]) for name, value in whole.items())


def test_it_learns_pairs_that_are_easy():
    made = fitted(training={"epochs": 250, "batch_size": 6, "evaluations": 4, "learning_rate": 0.02}, dropout=0.0)
    energy = made.energy(made.predict(made.inputs.pack(INPUTS)))
    found = energy.proposals(3)
    best = [made.space.unpack(found.batch[found.owner == row]) for row in range(len(INPUTS))]
    assert sum(truth in own for truth, own in zip(OUTPUTS, best, strict=True)) >= 5


def test_rows_of_numbers_become_the_batch_again():
    inputs = TextInput()
    inputs.fit(INPUTS)
    batch = inputs.pack(INPUTS)
    rows = Rows.like(batch)
    flat = rows.flattened(batch)
    again = Rows(type(batch), dict(reversed(rows.state().items()))).restored(flat)
    for name, tensor in batch.named_tensors():
        assert torch.equal(getattr(again, name), tensor)
        assert getattr(again, name).dtype == tensor.dtype
    assert len(rows.restored(flat[:0])) == 0


def test_a_damaged_layout_is_refused():
    with pytest.raises(ModelError, match="layout of inputs is damaged"):
        Rows(TextInput.Batch, {"tokens": torch.zeros(3, 2)})
