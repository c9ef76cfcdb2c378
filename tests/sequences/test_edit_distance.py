"""The batched edit distance against the textbook one."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from ele_core.numerics.edit_distance import edit_distances
from ele_sequences.space import SequenceSpace, aligned

words = st.text("abc", max_size=6)
SPACE = SequenceSpace(SequenceSpace.Config(alphabet=tuple("abc"), length=6))


def levenshtein(left: str, right: str) -> int:
    if not left or not right:
        return len(left) + len(right)
    if left[0] == right[0]:
        return levenshtein(left[1:], right[1:])
    return 1 + min(levenshtein(left[1:], right), levenshtein(left, right[1:]), levenshtein(left[1:], right[1:]))


def distances(left: list[str], right: list[str]) -> list[float]:
    return edit_distances(SPACE.pack(left).tokens, SPACE.pack(right).tokens).tolist()


@given(st.lists(st.tuples(words, words), min_size=1, max_size=6))
def test_it_is_the_levenshtein_distance_of_each_pair(pairs):
    left, right = map(list, zip(*pairs, strict=True))
    assert distances(left, right) == [levenshtein(a, b) for a, b in pairs]


@given(words, words, words)
def test_it_is_a_metric(a, b, c):
    ab, ba, bc, ac = distances([a, b, b, a], [b, a, c, c])
    assert ab == ba
    assert (ab == 0) == (a == b)
    assert ac <= ab + bc


def test_no_pairs_have_no_distances_and_lengths_may_differ():
    assert distances([], []) == []
    assert edit_distances(torch.tensor([[1, 2, 0]]), torch.tensor([[1]])).tolist() == [1.0]
    none = torch.zeros(1, 0, dtype=torch.int64)
    assert edit_distances(none, torch.tensor([[1, 2, 3]])).tolist() == [3.0]
    assert edit_distances(torch.tensor([[1, 2]]), none).tolist() == [2.0]
    assert edit_distances(none, none).tolist() == [0.0]


@given(words, words, st.integers(0, 3), st.integers(0, 3))
def test_padding_changes_nothing(left, right, left_padding, right_padding):
    tokens = [
        torch.tensor([[*map(ord, word), *[0] * more]]).long()
        for word, more in ((left, left_padding), (right, right_padding))
    ]
    assert edit_distances(*tokens).tolist() == [levenshtein(left, right)]


def test_the_metric_of_the_space_counts_edits_and_less_is_better():
    metric = SPACE.metrics[1]
    assert (metric.name, metric.direction) == ("edit_distance", "min")
    assert metric.function(SPACE.pack(["abc"]), SPACE.pack(["ab"])).tolist() == [1.0]
    assert SPACE.metrics[0].name == "exact"


@given(words, words)
def test_an_alignment_keeps_both_sequences_and_has_as_many_edits_as_the_distance(left: str, right: str) -> None:
    pairs = aligned(left, right)
    assert "".join(own or "" for own, _ in pairs) == left
    assert "".join(other or "" for _, other in pairs) == right
    assert sum(own != other for own, other in pairs) == levenshtein(left, right)
