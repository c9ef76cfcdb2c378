"""The task number-words: how numbers are spelt, drawn and split."""

from __future__ import annotations

import pytest
import torch

from ele_core import config as configuration
from ele_core.errors import ConfigError
from ele_core.numerics.keys import member
from ele_core.runtime.context import Context
from ele_sequences.number_words import NumberWords, draw, spell
from ele_sequences.space import SequenceSpace

SPACE = SequenceSpace(SequenceSpace.Config(alphabet=tuple("0123456789"), length=6))


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (0, "zero"),
        (5, "five"),
        (10, "ten"),
        (13, "thirteen"),
        (20, "twenty"),
        (21, "twenty-one"),
        (99, "ninety-nine"),
        (100, "one hundred"),
        (105, "one hundred and five"),
        (110, "one hundred and ten"),
        (999, "nine hundred and ninety-nine"),
        (1000, "one thousand"),
        (1005, "one thousand and five"),
        (1100, "one thousand one hundred"),
        (12_345, "twelve thousand three hundred and forty-five"),
        (100_000, "one hundred thousand"),
        (100_001, "one hundred thousand and one"),
        (999_999, "nine hundred and ninety-nine thousand nine hundred and ninety-nine"),
    ],
)
def test_numbers_are_spelt_in_english(number, words):
    assert spell(number) == words


def test_no_two_numbers_are_spelt_alike():
    numbers = [*range(2000), *range(99_000, 102_000), *range(990_000, 1_000_000)]
    assert len({spell(number) for number in numbers}) == len(numbers)


@pytest.mark.parametrize("number", [-1, 1_000_000])
def test_numbers_outside_the_task_are_refused(number):
    with pytest.raises(ValueError, match="not between 0 and 999,999"):
        spell(number)


def test_numbers_are_different_follow_their_seed_and_have_all_lengths():
    numbers = draw(5000, seed=0)
    assert len(set(numbers)) == len(numbers) == 5000
    assert numbers == draw(5000, seed=0) != draw(5000, seed=1)
    assert 0 <= min(numbers) <= max(numbers) <= 999_999
    lengths = [len(str(number)) for number in numbers]
    assert {lengths.count(length) > 0 for length in range(1, 7)} == {True}


def load(**options):
    return NumberWords(NumberWords.Config(**options)).load(SPACE, Context())


def test_no_test_or_validation_output_occurs_in_training():
    data = load(size=3000)
    keys = SPACE.keys(data.outputs)
    for part in (data.test, data.validation):
        assert not member(keys[part], of=keys[data.train]).any()


def test_sizes_are_as_asked_and_pairs_belong_together():
    data = load(size=300, validation=20, test=0.1)
    assert [len(part) for part in (data.train, data.validation, data.test)] == [250, 20, 30]
    assert [spell(int(digits)) for digits in SPACE.unpack(data.outputs)] == list(data.inputs)


def test_the_task_follows_its_seed_and_says_so():
    first, again, other = load(size=300, test=20, validation=20), load(size=300, test=20, validation=20), None
    other = load(size=300, test=20, validation=20, seed=1)
    assert first.fingerprint == again.fingerprint != other.fingerprint
    assert torch.equal(first.test, again.test)
    assert "seed 1" in other.source


def test_the_defaults_make_a_configuration_that_holds_every_number():
    config = configuration.load("number-words")
    assert config.output.options["length"] == 6
    assert config.output.options["alphabet"] == list("0123456789")
    with pytest.raises(ConfigError, match=r"task\.size"):
        configuration.load("number-words", ["task.size=3"])
