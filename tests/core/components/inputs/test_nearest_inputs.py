"""The nearest input by the distance natural to it, and vectors of bits that stay as they are."""

from __future__ import annotations

import random

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from ele_core.components.inputs.text import TextInput, nearest_texts
from ele_core.components.inputs.vector import VectorInput
from ele_core.numerics.edit_distance import edit_distances

texts = st.lists(st.text("abcd", min_size=1, max_size=7), min_size=1, max_size=12)


def levenshtein(left: str, right: str) -> int:
    row = list(range(len(right) + 1))
    for i, one in enumerate(left, start=1):
        row, before = [i], row
        for j, other in enumerate(right, start=1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (one != other)))
    return row[-1]


@given(texts, texts)
def test_the_nearest_text_is_that_of_brute_force(left, right):
    inputs = TextInput()
    inputs.fit([*left, *right])
    rows, distances = nearest_texts(inputs.pack(left), inputs.pack(right))
    for text, row, distance in zip(left, rows.tolist(), distances.tolist(), strict=True):
        least = min(levenshtein(text, other) for other in right)
        assert distance == least == levenshtein(text, right[row])


def test_among_many_texts_one_that_shares_most_of_its_runs_is_found():
    chance = random.Random(0)
    words = ["".join(chance.choice("abcdefghij") for _ in range(12)) for _ in range(500)]
    changed = [word[:5] + "z" + word[6:] for word in words[:40]]
    inputs = TextInput()
    inputs.fit([*words, *changed])
    rows, distances = inputs.nearest(inputs.pack(changed), inputs.pack(words))
    assert rows.tolist() == list(range(40))
    assert distances.unique().tolist() == [1.0]


def test_no_texts_have_no_nearest():
    inputs = TextInput()
    inputs.fit(["a", "b"])
    rows, distances = inputs.nearest(inputs.pack([]), inputs.pack(["a", "b"]))
    assert (rows.shape, distances.shape) == ((0,), (0,))


@given(texts, st.integers(0, 5))
def test_edit_distances_of_rows_of_different_width(objects, more):
    inputs = TextInput()
    inputs.fit(objects)
    packed = inputs.pack(objects)
    wider = torch.nn.functional.pad(packed.tokens, (0, more))
    found = edit_distances(packed.tokens, wider.flip(0))
    assert found.tolist() == [levenshtein(one, two) for one, two in zip(objects, objects[::-1], strict=True)]


def test_vectors_of_bits_are_not_standardised_and_others_are():
    bits = np.array([[0, 1, 1], [1, 1, 0], [0, 0, 1]])
    inputs = VectorInput()
    inputs.fit(bits)
    assert np.array_equal(inputs.pack(bits).values.numpy(), bits)
    for values, options in ((bits + 0.5, {}), (bits, {"standardise": True})):
        inputs = VectorInput(VectorInput.Config(**options))
        inputs.fit(values)
        packed = inputs.pack(values).values
        torch.testing.assert_close(packed.mean(dim=0), torch.zeros(3), rtol=0, atol=1e-6)
    inputs = VectorInput(VectorInput.Config(standardise=False))
    inputs.fit(bits + 0.5)
    assert np.array_equal(inputs.pack(bits + 0.5).values.numpy(), bits + 0.5)


def test_bits_are_compared_by_tanimoto_and_numbers_by_their_distance():
    inputs = VectorInput()
    inputs.fit(np.array([[1, 1, 1, 1, 0, 0], [1, 0, 0, 0, 0, 0]]))
    known = inputs.pack(np.array([[1, 1, 1, 1, 1, 1], [0, 0, 0, 1, 0, 0]]))
    row, distance = inputs.nearest(inputs.pack(np.array([[1, 1, 1, 0, 0, 0]])), known)
    assert row.tolist() == [0], "shares three of six; the other, though it differs in fewer places, shares none"
    assert distance.tolist() == [0.5]
    inputs = VectorInput(VectorInput.Config(standardise=False))
    inputs.fit(np.array([[0.0, 2.0]]))
    row, distance = inputs.nearest(inputs.pack([[3.0, 4.0]]), inputs.pack([[0.0, 0.0], [9.0, 9.0]]))
    assert (row.tolist(), distance.tolist()) == ([0], [5.0])
