"""The space of sequences: packing, relaxing, closing gaps, views and what is inferred."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ele_core.errors import ConfigError, InvalidOutput
from ele_sequences.encoder import SequenceEncoder
from ele_sequences.space import SequenceSpace, Tokens, close_gaps
from ele_sequences.tokens import find_separator, split_tokens

SPACE = SequenceSpace(SequenceSpace.Config(alphabet=tuple("abc"), length=5))
WORDS = SequenceSpace(SequenceSpace.Config(alphabet=("to", "be", "or"), length=4, separator=" "))

texts = st.lists(st.text("abc", max_size=5), max_size=8)
labels = st.lists(st.lists(st.integers(0, 3), min_size=5, max_size=5), min_size=1, max_size=6)


def is_packed(batch: Tokens) -> bool:
    """No token stands after the end."""
    here, after = batch.tokens[:, 1:] > 0, batch.tokens[:, :-1] == 0
    return not bool((here & after).any())


@given(texts)
def test_unpacking_gives_back_what_was_packed(objects):
    assert SPACE.unpack(SPACE.pack(objects)) == objects


@given(texts)
def test_relaxing_gives_vertices_and_unrelaxing_brings_them_back(objects):
    batch = SPACE.pack(objects)
    point = SPACE.relax(batch)
    assert SPACE.geometry["tokens"].contains(point.tokens)
    assert SPACE.unpack(SPACE.unrelax(point)) == objects
    assert torch.equal(SPACE.project(point).tokens, point.tokens)


@given(st.integers(0, 10**6))
def test_any_relaxed_point_stands_for_a_sequence_without_gaps(seed):
    point = Tokens(SPACE.geometry["tokens"].sample(20, torch.Generator().manual_seed(seed)))
    batch = SPACE.unrelax(point)
    assert is_packed(batch)
    assert SPACE.unpack(SPACE.pack(SPACE.unpack(batch))) == SPACE.unpack(batch)


@given(labels)
def test_closing_gaps_keeps_the_tokens_and_their_order(rows):
    closed = close_gaps(Tokens(torch.tensor(rows)))
    assert is_packed(closed)
    assert [[t for t in row if t] for row in closed.tokens.tolist()] == [[t for t in row if t] for row in rows]


@given(texts, texts)
def test_keys_are_equal_exactly_when_sequences_are(left, right):
    both = [*left, *right]
    keys = [tuple(key) for key in SPACE.keys(SPACE.pack(both)).tolist()]
    assert all((keys[i] == keys[j]) == (both[i] == both[j]) for i in range(len(both)) for j in range(len(both)))


@given(st.integers(0, 10**6))
def test_a_view_is_a_sequence_of_the_space(seed):
    batch = SPACE.pack(["abcab", "a", "", "ccc"])
    view = SPACE.augment(batch, torch.Generator().manual_seed(seed))
    assert is_packed(view)
    assert view.tokens.dtype == batch.tokens.dtype
    assert SPACE.unpack(SPACE.pack(SPACE.unpack(view))) == SPACE.unpack(view)


@pytest.mark.parametrize(("rate", "changed"), [(0.0, 0), (1.0, 1)])
def test_the_edit_rate_decides_how_much_a_view_differs(rate, changed):
    space = SequenceSpace(SequenceSpace.Config(alphabet=tuple("abcdefgh"), length=20, edit_rate=rate))
    batch = space.pack(["abcdefgh" * 2] * 50)
    view = space.augment(batch, torch.Generator().manual_seed(0))
    assert bool((view.tokens != batch.tokens).any(dim=1).float().mean() == changed)


def test_views_follow_their_generator():
    batch = SPACE.pack(["abcab"] * 40)
    first, again, other = (SPACE.augment(batch, torch.Generator().manual_seed(seed)).tokens for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_neighbours_are_one_edit_away_and_inside_the_space():
    batch = SPACE.pack(["ab", ""])
    moved, owner = SPACE.moves.neighbours(batch)
    assert is_packed(moved)
    around = {text for text, row in zip(SPACE.unpack(moved), owner.tolist(), strict=True) if row == 0}
    assert {"b", "a", "bb", "cb", "aa", "ac", "aba", "abb", "abc", "aab", "bab", "cab", "acb"} == around
    assert {text for text, row in zip(SPACE.unpack(moved), owner.tolist(), strict=True) if row == 1} == {"a", "b", "c"}


def test_words_are_tokens_where_a_separator_is_given():
    assert WORDS.unpack(WORDS.pack(["to be or", "be", ""])) == ["to be or", "be", ""]
    assert WORDS.unpack(WORDS.pack(["  to   be "])) == ["to be"]
    assert split_tokens("to be", "") == list("to be")


@pytest.mark.parametrize(
    ("space", "text", "reason"),
    [
        (SPACE, "abcabc", "has 6 tokens, more than length = 5"),
        (SPACE, "abd", "'d', which is not in the alphabet"),
        (WORDS, "to bee", "'bee', which is not in the alphabet"),
    ],
)
def test_what_is_not_in_the_space_is_refused_with_its_place(space, text, reason):
    good = space.examples()[0]
    with pytest.raises(InvalidOutput, match=f"output 1: .*{reason}") as caught:
        space.pack([good, text])
    assert caught.value.index == 1


@given(st.lists(st.text("xyz ", max_size=6), min_size=1).filter(any))
def test_the_inferred_space_holds_exactly_what_it_was_inferred_from(objects):
    config = SequenceSpace.infer(objects, {})
    assert set(config.alphabet) == set("".join(objects))
    assert config.length == max(map(len, objects))
    space = SequenceSpace(config)
    assert space.unpack(space.pack(objects)) == objects


def test_options_given_by_hand_win_over_inference():
    config = SequenceSpace.infer(["to be", "or"], {"separator": " ", "length": 7})
    assert (config.alphabet, config.length) == (("be", "or", "to"), 7)


@pytest.mark.parametrize("options", [{"alphabet": ["a", "a"]}, {"alphabet": []}, {"length": 0}, {"edit_rate": 2}])
def test_a_configuration_without_meaning_is_refused(options):
    with pytest.raises(ValidationError):
        SequenceSpace.Config(**{"alphabet": ["a"], "length": 1, **options})


@pytest.mark.parametrize("space", [SPACE, WORDS, SequenceSpace(SequenceSpace.Config(alphabet=("a",), length=1))])
def test_examples_are_different_and_inside(space):
    examples = space.examples()
    assert examples
    assert len(set(examples)) == len(examples)
    assert space.unpack(space.pack(examples)) == examples


def test_text_stands_for_itself_in_a_cell():
    assert SequenceSpace.parse(" a b") == SequenceSpace.format(" a b") == " a b"


# -- separators ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "separator"),
    [
        (["AH0 B AW1 T", "B AW1 T AH0"], " "),
        (["a,b,c", "c,b", "a"], ","),
        (["a, b", "b, a"], ", "),
        (["abc", "cab"], ""),
        (["red", "green,red", "green"], ","),
        (["the quick brown fox", "jumps over a lazy dog"], ""),
        (["1,234", "1,234", "5,678,234"], ""),
        (['["a", "b"]', '["c"]'], " "),
        (['["a b"]', '["c"]'], ","),
        (["[a]", "[b]"], ""),
        ([], ""),
        ([""], ""),
    ],
)
def test_the_separator_is_found_where_few_tokens_occur_again(texts, separator):
    assert find_separator(texts) == separator
    assert SequenceSpace.Texts.infer(texts, {}) == {"separator": separator}
    assert SequenceSpace.Texts.infer(texts, {"separator": "-"}) == {}


def test_many_different_words_are_read_as_characters():
    assert find_separator([f"w{number} w{number + 1}" for number in range(2000)] * 3) == ""


def test_lists_of_tokens_are_packed_and_come_back_as_texts():
    objects = [["K", "AE1", "T"], ("AE1",)]
    space = SequenceSpace(SequenceSpace.infer(objects, {}))
    assert (space.config.separator, space.config.length) == (" ", 3)
    assert space.unpack(space.pack(objects)) == ["K AE1 T", "AE1"]
    assert torch.equal(space.pack(["K AE1 T", '["AE1"]']).tokens, space.pack(objects).tokens)
    with pytest.raises(InvalidOutput, match="output 1: expected a text or a list of tokens, not int"):
        space.pack([["K"], 3])


def test_a_space_says_how_it_reads_texts():
    assert WORDS.show.describe() == f"tokens separated by spaces, {len(WORDS.config.alphabet)} different; at most " + (
        f"{WORDS.config.length} in a text"
    )
    assert SPACE.show.describe() == "each character is a token, 3 different; at most 5 in a text"


# -- the encoder --------------------------------------------------------------------------------------------------


def test_the_encoder_tells_positions_and_symbols_apart():
    encoder = SequenceEncoder(SequenceEncoder.Config(width=6, layers=1), SPACE, 4)
    embedded = encoder(SPACE.relax(SPACE.pack(["ab", "ba", "abb", "cb"])))
    assert embedded.shape == (4, 4)
    assert torch.pdist(embedded).min() > 1e-3


def test_the_encoder_refuses_other_spaces():
    class Other(SequenceSpace):
        pass

    SequenceEncoder.accepts(Other(SPACE.config))
    with pytest.raises(ConfigError, match=r"reads sequences, not object.*'flat'"):
        SequenceEncoder.accepts(object())  # type: ignore[arg-type]


def test_what_differs_is_marked_and_what_is_missing_is_a_dot():
    space = SequenceSpace(SequenceSpace.Config(alphabet=tuple("0123456789"), length=6))
    assert space.show.render("134", "1234").pieces == (("1", False), ("·", True), ("3", False), ("4", False))
    assert space.show.render("9", "1").pieces == (("9", True),)
    assert space.show.render("134").pieces == ()


def test_words_are_marked_as_a_whole_with_their_separator_between():
    space = SequenceSpace(SequenceSpace.Config(alphabet=("red", "green"), length=3, separator=" "))
    assert space.show.render("red green", "red red").pieces == (("red", False), (" ", False), ("green", True))


def test_sequences_are_described_by_their_length():
    space = SequenceSpace(SequenceSpace.Config(alphabet=tuple("ab"), length=3))
    assert space.show.properties(space.pack(["", "ab", "aba"]))["length"].tolist() == [0, 2, 3]
