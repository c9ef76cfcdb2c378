"""Alignments, n-grams of their units, and the searches: laws, and brute force on tiny models."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ele_core.numerics.alignment import SIZES, Aligner, coded, decoded
from ele_core.numerics.joint_ngrams import JointNgrams
from ele_core.numerics.ngrams import Floats, Ints, Ngrams

SEQUENCES = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=8), min_size=1, max_size=12)
LEFT, RIGHT = st.lists(st.integers(1, 3), min_size=1, max_size=6), st.lists(st.integers(1, 3), max_size=6)
PAIRS = st.lists(st.tuples(LEFT, RIGHT), min_size=2, max_size=20)


def rows(sequences: list[list[int]]) -> Ints:
    found = np.zeros((len(sequences), max(map(len, sequences)) or 1), dtype=np.int64)
    for number, sequence in enumerate(sequences):
        found[number, : len(sequence)] = sequence
    return found


def sides(pairs: list[tuple[list[int], list[int]]]) -> tuple[Ints, Ints]:
    return rows([left for left, _ in pairs]), rows([right for _, right in pairs])


def model(pairs: list[tuple[list[int], list[int]]], order: int = 3) -> JointNgrams:
    left, right = sides(pairs)
    aligner = Aligner.learned(left, right)
    return JointNgrams.learned(aligner, [path for path in aligner.paths(left, right) if path is not None], order)


def spelled(pairs: int = 60) -> list[tuple[list[int], list[int]]]:
    """Left tokens 1 to 3 stand for 1, for 2 3 and for nothing; sometimes 1 stands for 2."""
    generator, meant = np.random.default_rng(0), {1: [1], 2: [2, 3], 3: []}
    lefts = [generator.integers(1, 4, size=generator.integers(1, 6)).tolist() for _ in range(pairs)]
    return [
        (left, [2 if t == 1 and generator.random() < 0.2 else t for token in left for t in meant[token]])
        for left in lefts
    ]


# -- alignments ----------------------------------------------------------------------------------------------------


def test_codes_give_their_tokens_back() -> None:
    left, right = sides([([3, 1], [2, 1]), ([2], [3])])
    codes = coded(left, right, 3)
    assert (codes < 0).any()
    letters, sounds = decoded(codes[:, 0, 0, 0], 3)
    assert letters.tolist() == [3, 3, 3]
    assert sounds.tolist() == [[0, 0], [2, 0], [2, 1]]


@given(PAIRS)
def test_the_likelihood_never_decreases(pairs: list[tuple[list[int], list[int]]]) -> None:
    aligner, lattices = Aligner.begun(*sides(pairs))
    odds = []
    for _ in range(6):
        aligner, before = aligner.improved(lattices)
        odds.append(before)
    assert (np.diff(odds) >= -1e-9 * (1 + np.abs(odds[1:]))).all()


@given(PAIRS)
def test_paths_spell_both_sides_and_only_long_outputs_have_none(pairs: list[tuple[list[int], list[int]]]) -> None:
    aligner, _ = Aligner.begun(*sides(pairs))
    for (left, right), path in zip(pairs, aligner.paths(*sides(pairs)), strict=True):
        assert (path is None) == (len(right) > max(SIZES) * len(left))
        if path is not None:
            letters, sounds = decoded(path, aligner.count)
            assert letters.tolist() == left
            assert sounds[sounds > 0].tolist() == right


def test_meanings_of_tokens_are_found() -> None:
    pairs = spelled()
    aligner = Aligner.learned(*sides(pairs))
    path = aligner.paths(rows([[2, 3, 1]]), rows([[2, 3, 1]]))[0]
    assert path is not None
    assert decoded(path, aligner.count)[1].tolist() == [[2, 3], [0, 0], [1, 0]]


def test_long_pairs_do_not_underflow() -> None:
    generator = np.random.default_rng(0)
    left = generator.integers(1, 30, size=(20, 400))
    aligner, lattices = Aligner.begun(left, left)
    better, odds = aligner.improved(lattices)
    assert np.isfinite(odds)
    assert all(path is not None for path in better.paths(left, left))


# -- n-grams -------------------------------------------------------------------------------------------------------


@given(SEQUENCES, st.integers(1, 5))
def test_probabilities_add_up_to_one_in_every_state(sequences: list[list[int]], order: int) -> None:
    ngrams = Ngrams.learned([np.array(sequence) for sequence in sequences], 5, order)
    ngrams.check()
    for state in range(len(ngrams.shorter)):
        odds, onward = ngrams.step(np.full(5, state), np.arange(5))
        assert np.exp(odds).sum() == pytest.approx(1)
        assert (onward < len(ngrams.shorter)).all()


def test_what_follows_often_is_likely_and_longer_contexts_decide() -> None:
    ngrams = Ngrams.learned([np.array([0, 2, 1]), np.array([3, 2, 0])] * 5, 5, 3)
    states = np.full(1, ngrams.begin)
    for symbol in (0, 2):
        _, states = ngrams.step(states, np.full(1, symbol))
    odds, _ = ngrams.step(np.repeat(states, 5), np.arange(5))
    assert odds.argmax() == 1
    assert odds[1] > odds[0] + 1


# -- searches ------------------------------------------------------------------------------------------------------


def brute(made: JointNgrams, left: list[int], right: list[int]) -> float:
    """The log-probability of a pair: the sum over all alignments into known units."""
    sounds = decoded(made.codes, made.count)
    total = -np.inf
    options = [np.flatnonzero(sounds[0] == token) for token in left]
    for units in product(*options):
        spoken = sounds[1][list(units)]
        if spoken[spoken > 0].tolist() == right:
            total = np.logaddexp(total, follow(made.ngrams, [*units, made.end]))
    return float(total)


def follow(ngrams: Ngrams, symbols: list[int]) -> float:
    state, total = np.full(1, ngrams.begin), 0.0
    for symbol in symbols:
        odds, state = ngrams.step(state, np.full(1, symbol))
        total += float(odds[0])
    return total


def test_scores_and_writing_equal_brute_force() -> None:
    made, left = model(spelled()), [1, 2, 1, 3]
    tokens, owner = made.write(rows([left, [2]]), 1000, 1000)
    own = [right for right, row in zip(tokens, owner, strict=True) if row == 0]
    expected = [brute(made, left, right) for right in own]
    assert len(own) > 3
    assert len({tuple(right) for right in own}) == len(own)
    assert expected == sorted(expected, reverse=True)
    everything = [list(right) for size in range(9) for right in product((1, 2, 3), repeat=size)]
    likely = [right for right in everything if np.isfinite(brute(made, left, right))]
    assert sorted(own) == sorted(likely)
    scores = made.scores(rows([left] * len(own)), rows(own), 1000)
    np.testing.assert_array_less(np.array(expected) - 1e-9, scores)  # scores know other units too, at a price
    np.testing.assert_allclose(scores[:3], expected[:3], atol=0.05)


@settings(max_examples=20)
@given(RIGHT)
def test_every_output_has_a_finite_score(right: list[int]) -> None:
    made = model(spelled())
    scores = made.scores(rows([[1, 2], [3, 9]]), rows([right, [4, 4, *right]]), 10)
    assert np.isfinite(scores).all()


def test_tokens_never_seen_are_passed_over() -> None:
    tokens, owner = model(spelled()).write(rows([[9, 2]]), 20, 1)
    assert owner.tolist() == [0]
    assert tokens == [[2, 3]]


def test_restored_numbers_give_the_same_and_damaged_ones_are_refused() -> None:
    made = model(spelled())
    again = JointNgrams.restored(made.arrays())
    left, right = sides(spelled())
    same: Floats = again.scores(left, right, 10)
    assert (same == made.scores(left, right, 10)).all()
    for name in ("keys", "shorter", "onward", "codes"):
        arrays = made.arrays()
        with pytest.raises(ValueError, match="n-grams"):
            JointNgrams.restored({**arrays, name: arrays[name][::-1] + 10**6})
