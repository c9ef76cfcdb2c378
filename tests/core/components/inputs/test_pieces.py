"""Pieces: learned by merging pairs, cut by the longest match, and compared as characters."""

from __future__ import annotations

import json
import random
from collections import Counter
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from ele_core.components.inputs import pieces as module
from ele_core.components.inputs.pieces import LONGEST_PIECE, Pieces, merged, sample
from ele_core.components.inputs.text import UNKNOWN, TextInput
from ele_core.errors import InvalidInput, ModelError

TEXTS = ["twenty one", "twenty two", "two", "one hundred and twenty", "seventy", "<pad> <unk>\né"]
texts = st.lists(st.text("abé\n", min_size=1, max_size=9), min_size=1, max_size=6)


def fitted(words=TEXTS, level="pieces", **options) -> TextInput:
    inputs = TextInput(TextInput.Config(level=level, **options))
    inputs.fit(words)
    return inputs


def slowly_merged(words, characters, size, least):
    """`merged` in plain Python."""
    pieces, rows = list(characters), [list(word) for word in words]
    while len(pieces) < size:
        counts = Counter(pair for row in rows for pair in pairwise(row))
        best = min(counts.items(), key=lambda item: (-item[1], item[0]), default=(None, 0))
        if best[1] < least:
            break
        left, right = best[0]
        pieces += [left + right] * (left + right not in pieces)
        for row in rows:
            place = 0
            while place < len(row) - 1:
                if (row[place], row[place + 1]) == (left, right):
                    row[place : place + 2] = [left + right]
                place += 1
    return pieces


@given(texts, st.integers(1, 20), st.booleans())
def test_merging_is_that_of_plain_python(words, size, sorts):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LARGEST_TABLE", 0 if sorts else 1 << 22)
        characters = sorted(set("".join(words)))
        assert merged(words, characters, size, 2) == slowly_merged(words, characters, size, 2)


def test_the_most_frequent_pair_is_merged_first_and_ties_go_by_the_alphabet():
    assert merged(["abab", "ab", "cd", "cd"], "abcd", 6, 2) == ["a", "b", "c", "d", "ab", "cd"]
    assert merged(["cd", "ab", "cd", "ab"], "abcd", 5, 2) == ["a", "b", "c", "d", "ab"]


def test_merging_ends_when_no_pair_occurs_twice():
    assert merged(["abc", "cba", "ac"], "abc", 100, 2) == ["a", "b", "c"]


def test_pieces_do_not_span_texts_or_rare_characters_and_are_not_longer_than_the_limit():
    assert merged(["a", "b"] * 9, "ab", 9, 2) == ["a", "b"]
    assert merged(["axb"] * 9, "ab", 9, 2) == ["a", "b"]
    assert max(map(len, merged(["a" * 999], "a", 999, 2))) == LONGEST_PIECE


def test_the_sample_is_evenly_spaced_and_limited(monkeypatch):
    assert sample(["a", "b"]) == ["a", "b"]
    assert len(set(sample([str(number) for number in range(50_000)]))) == 20_000
    monkeypatch.setattr(module, "SAMPLE_CHARACTERS", 30)
    assert sample([f"{number:010}" for number in range(9)]) == [f"{number:010}" for number in (0, 3, 6)]


def test_the_size_counts_characters_and_all_of_them_are_kept():
    characters = len(set("".join(TEXTS)))
    assert fitted(pieces=characters + 5).vocabulary_size == characters + 5 + 2
    assert fitted(pieces=3).vocabulary_size == characters + 2
    assert fitted().pack(["".join(sorted(set("".join(TEXTS))))]).known.all()


def test_characters_outside_the_sample_are_known(monkeypatch):
    monkeypatch.setattr(module, "SAMPLE_TEXTS", 1)
    assert fitted(["aaaa", "b"]).pack(["b"]).known.all()


def test_the_longest_piece_that_matches_is_cut_from_the_left():
    tokens = Pieces(["<pad>", "<unk>", "a", "b", "c", "ab", "abca", "bc"])
    assert tokens.cut("abcabc") == ["abca", "bc"]
    assert tokens.cut("abcbabzz") == ["ab", "c", "b", "ab", "z", "z"]
    assert list(tokens.encode(["abzz"])) == [[5, UNKNOWN, UNKNOWN]]


@given(texts, texts)
def test_texts_come_back_and_are_never_longer_than_their_characters(words, others):
    inputs = fitted([*words, *words, "abé\n"])
    batch = inputs.pack(words)
    assert inputs.unpack(batch) == words
    assert (batch.lengths <= torch.tensor([len(word) for word in words])).all()
    assert all("".join(inputs._fitted().cut(other)) == other for other in others)


def test_the_names_of_special_tokens_are_texts():
    inputs = fitted(["<pad>", "<unk>"] * 9)
    assert inputs.unpack(inputs.pack(["<pad><unk>"])) == ["<pad><unk>"]
    assert inputs.pack(["<pad><unk>"]).known.all()


def test_a_vocabulary_does_not_depend_on_the_order_of_a_few_texts():
    assert fitted(TEXTS)._fitted().names == fitted(TEXTS[::-1])._fitted().names


def test_rare_characters_are_unknown():
    inputs = fitted(["aaab", "aaac"], min_frequency=2)
    assert inputs.unpack(inputs.pack(["aab"])) == ["aa<unk>"]


def test_pieces_shorten_texts_of_words():
    words = ["one", "two", "three", "four", "five", "six"]
    chance = random.Random(0)
    lines = [" ".join(chance.choice(words) for _ in range(6)) for _ in range(200)]
    pieces, characters = fitted(lines, pieces=60), fitted(lines, "character")
    assert 3 * pieces.pack(lines).lengths.sum() < characters.pack(lines).lengths.sum()


# -- what compares texts ------------------------------------------------------------------------------------------

OTHERS = ["two", "twenty zwölf", "y" * 30, "one hundred and one", "QQ"]


def test_features_are_those_of_characters():
    pieces, characters = fitted(), fitted(level="character")
    for grams in (1, 4):
        ours, theirs = (inputs.features(inputs.pack([*TEXTS, *OTHERS]), grams=grams) for inputs in (pieces, characters))
        for (name, left), (_, right) in zip(vars(ours).items(), vars(theirs).items(), strict=True):
            assert torch.equal(left, right) if isinstance(left, torch.Tensor) else left == right, name
    assert len(pieces.features(pieces.pack([]))) == 0


def test_the_nearest_text_is_that_of_characters():
    pieces, characters = fitted(), fitted(level="character")
    ours, theirs = (inputs.nearest(inputs.pack(OTHERS), inputs.pack(TEXTS)) for inputs in (pieces, characters))
    assert all(torch.equal(left, right) for left, right in zip(ours, theirs, strict=True))


def test_unusual_texts_are_those_of_characters():
    reasons = fitted().unlike_training([*TEXTS, *OTHERS])
    expected = fitted(level="character").unlike_training([*TEXTS, *OTHERS])
    assert reasons == [reason.replace("tokens", "characters") for reason in expected]
    assert reasons[7:9] == ["unknown token 'z'", "30 characters long, in training at most 22"]


def test_every_text_up_to_twice_as_long_as_in_training_fits():
    inputs = fitted(["abcabcabc", "abcabc"])
    assert inputs.pack(["cba" * 6]).lengths.tolist() == [18]
    with pytest.raises(InvalidInput, match="19 tokens, and the limit is 18"):
        inputs.pack(["cba" * 6 + "a"])


def test_an_unknown_character_can_be_refused():
    with pytest.raises(InvalidInput, match="input 1: the text has the token 'Z'"):
        fitted(unknown="error").pack(["twenty", "twentyZ"])


# -- options and files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{"pieces": 50}, {"level": "pieces", "pattern": "a"}, {"level": "pieces", "pieces": 0}]
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(ValueError, match=r"pieces|pattern"):
        TextInput.Config(**options)


def test_all_options_written_out_are_read_again():
    assert TextInput.Config(**TextInput.Config().model_dump()) == TextInput.Config()


def test_saving_loses_nothing(tmp_path):
    inputs = fitted(pieces=60)
    inputs.save(tmp_path)
    again = TextInput(inputs.config)
    again.load(tmp_path)
    for left, right in ((inputs, again), (again, inputs)):
        assert torch.equal(left.pack(OTHERS).tokens, right.pack(OTHERS).tokens)
    assert again.max_length == inputs.max_length
    assert again.unlike_training(OTHERS) == inputs.unlike_training(OTHERS)
    saved = (tmp_path / "tokenizer.json").read_bytes()
    again.save(tmp_path)
    assert (tmp_path / "tokenizer.json").read_bytes() == saved


@given(texts, texts)
def test_the_library_reads_the_file_alike(words, others):
    tokenizers = pytest.importorskip("tokenizers")
    tokens = Pieces.learn([*words, "|.*\\", "|.*\\"], 50, 1)
    library = tokenizers.Tokenizer.from_str(tokens.as_json(1000))
    others = [*others, "a|.*\\zz"]
    assert [library.encode(other).ids for other in others] == list(tokens.encode(others))


@pytest.mark.parametrize("name", ["", "a" * (LONGEST_PIECE + 1), "\ud800", "a\udfff"])
def test_a_hostile_vocabulary_is_refused(tmp_path, name):
    inputs = fitted()
    inputs.save(tmp_path)
    state = json.loads((tmp_path / "tokenizer.json").read_text())
    state["model"]["vocab"][name] = len(state["model"]["vocab"])
    (tmp_path / "tokenizer.json").write_text(json.dumps(state))
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        inputs.load(tmp_path)


@pytest.mark.parametrize("names", [[], ["zz", "ab"], ["(((", "[", "\0", "\n"]])
def test_any_other_vocabulary_is_usable(tmp_path, names):
    inputs = fitted()
    inputs.save(tmp_path)
    state = json.loads((tmp_path / "tokenizer.json").read_text())
    state["model"]["vocab"] = {name: number for number, name in enumerate(["<pad>", "<unk>", *names])}
    (tmp_path / "tokenizer.json").write_text(json.dumps(state))
    inputs.load(tmp_path)
    batch = inputs.pack(["zzab(((y"])
    assert len(inputs.features(batch)) == len(inputs.unpack(batch)) == 1
    assert inputs.nearest(batch, batch)[1].tolist() == [0]
    inputs.save(tmp_path)
