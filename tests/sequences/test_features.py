"""The parts of sequences, and the edits that search tries."""

from __future__ import annotations

import itertools

import torch
from hypothesis import given
from hypothesis import strategies as st

from ele_sequences.space import SequenceSpace, Tokens, gains, insertions

SPACE = SequenceSpace(SequenceSpace.Config(alphabet=tuple("abc"), length=6))
texts = st.text("abc", max_size=6)


def parts(text: str) -> dict[int, float]:
    found = SPACE.features(SPACE.pack([text]))
    return dict(zip(found.keys.tolist(), found.values.tolist(), strict=True))


def distance(left: str, right: str) -> float:
    one, other = parts(left), parts(right)
    return sum((one.get(key, 0.0) - other.get(key, 0.0)) ** 2 for key in one.keys() | other.keys())


@given(st.lists(texts, min_size=1, max_size=6))
def test_features_are_those_of_each_text_alone_and_finite(objects):
    found = SPACE.features(SPACE.pack(objects))
    assert bool(found.values.isfinite().all())
    for row, text in enumerate(objects):
        own = found.between(row, row + 1)
        assert dict(zip(own.keys.tolist(), own.values.tolist(), strict=True)) == parts(text)


@given(texts, texts)
def test_features_are_equal_exactly_if_texts_are(left, right):
    assert (parts(left) == parts(right)) == (left == right)


@given(st.text("abc", min_size=6, max_size=6), st.integers(0, 5), st.sampled_from("abc"))
def test_one_replaced_token_changes_few_parts(text, place, letter):
    changed = text[:place] + letter + text[place + 1 :]
    one, other = parts(text), parts(changed)
    differ = [key for key in one.keys() | other.keys() if abs(one.get(key, 0.0) - other.get(key, 0.0)) > 1e-5]
    assert len(differ) <= 2 * (1 + 2 + 3 + 2 + 2), "a token, two pairs, three triples, and two places from either end"
    assert (not differ) == (text == changed)


def test_a_near_text_is_nearer_than_a_far_one():
    assert distance("abcabc", "abcabb") < min(distance("abcabc", "bbbbbb"), distance("abcabc", ""))
    assert distance("abcabc", "bcabc") < distance("abcabc", "cba"), "a missing token moves the others only a little"


@given(st.lists(texts, min_size=1, max_size=4))
def test_insertions_are_all_sequences_with_one_token_more_before_one_of_theirs(objects):
    longer, row = insertions(SPACE.pack(objects).tokens, 3)
    found = sorted(zip(row.tolist(), SPACE.unpack(Tokens(longer)), strict=True))
    expected = [
        (number, text[:place] + letter + text[place:])
        for number, text in enumerate(objects)
        if len(text) < 6
        for place, letter in itertools.product(range(len(text)), "abc")
    ]
    assert found == sorted(expected)


@given(texts)
def test_the_neighbours_are_all_sequences_one_edit_away(text):
    moved, _ = SPACE.moves.neighbours(SPACE.pack([text]))
    places = range(len(text) + 1)
    removed = {text[:p] + text[p + 1 :] for p in places}
    replaced = {text[:p] + letter + text[p + 1 :] for p in range(len(text)) for letter in "abc"}
    added = {text[:p] + letter + text[p:] for p in places for letter in "abc"} if len(text) < 6 else set()
    assert sorted(SPACE.unpack(moved)) == sorted((removed | replaced | added) - {text})


@given(st.lists(texts, min_size=1, max_size=3), st.integers(0, 1000))
def test_moves_are_sorted_by_the_first_order_change_of_the_loss(objects, seed):
    batch = SPACE.pack(objects)
    gradient = torch.randn(len(objects), 6, 4, generator=torch.Generator().manual_seed(seed))
    moved, row = SPACE.moves.along(batch, Tokens(gradient))
    assert row.tolist() == sorted(row.tolist())
    one_hot = torch.nn.functional.one_hot
    before = one_hot(batch.tokens.long(), 4).float()[row]
    change = ((one_hot(moved.tokens.long(), 4).float() - before) * gradient[row]).sum(dim=(1, 2))
    torch.testing.assert_close(gains(gradient, batch.tokens, moved.tokens, row), change, rtol=1e-4, atol=1e-4)
    for own in range(len(objects)):
        values = change[row == own]
        assert bool((values.diff() >= -1e-4).all())
